"""Which calls are repeated, and when: the rules that both clients follow."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

import grpc

from speccompact.client.faults import Fault, to_error
from speccompact.errors import ArgumentError, ServiceTimeoutError

MIN_WAIT_S = 0.01


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a call is tried. A try that has given output, or whose input is gone, is never repeated.

    What is repeated: UNAVAILABLE (the service cannot be reached, or drains) after a growing wait with jitter, and
    RESOURCE_EXHAUSTED where the service says when to come back, after at least that. Nothing is waited for beyond the
    call's deadline.

    Attributes:
        tries: of one call, the first among them.
        watch_tries: in a row, of a watch that has told something before: as long as a service takes to start again.
        first_wait_s: seconds before the second try.
        factor: of each wait to the one before.
        longest_wait_s: bound of that growth; what the service asks for may be longer.
        longest_asked_s: what the service asks for beyond that is not waited for.
    """

    tries: int = 5
    watch_tries: int = 40
    first_wait_s: float = 0.2
    factor: float = 2.0
    longest_wait_s: float = 10.0
    longest_asked_s: float = 60.0

    def __post_init__(self) -> None:
        if (
            self.tries < 1
            or self.watch_tries < 1
            or self.first_wait_s < 0
            or self.factor < 1
            or self.longest_wait_s < self.first_wait_s
        ):
            raise ArgumentError(f"retry is {self}; choose 1 try or more, and waits that do not become shorter")


NO_RETRY = RetryPolicy(tries=1)


class Retries:
    """The tries of one call.

    Args:
        policy: how often.
        timeout: seconds for all tries together; None for any time.
        address: of the service, for messages.
        clock: seconds, monotonic.
        jitter: returns a number from 0 to 1, for the part of a wait that is left to chance.
    """

    def __init__(
        self,
        policy: RetryPolicy,
        timeout: float | None,
        address: str,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        if timeout is not None and not timeout > 0:
            raise ArgumentError(f"timeout is {timeout}; choose more than 0 seconds")
        self._policy, self._address, self._clock, self._jitter = policy, address, clock, jitter
        self._end = None if timeout is None else clock() + timeout
        self._failed, self._most = 0, policy.tries

    def remaining(self) -> float | None:
        """Return the seconds that are left for the next try; None for any time.

        Raises:
            ServiceTimeoutError: none are left.
        """
        if self._end is None:
            return None
        left = self._end - self._clock()
        if left <= 0:
            raise ServiceTimeoutError(f"the service at {self._address} was not done in time")
        return left

    def progressed(self) -> None:
        """Count tries anew, with more patience: a stream that goes on where it was has got on."""
        self._failed, self._most = 0, self._policy.watch_tries

    def after(self, fault: Fault, *, safe: bool) -> float:
        """Return the seconds to wait before the next try.

        Args:
            fault: how the last one ended.
            safe: whether a repetition can do no harm.

        Raises:
            SpecCompactError: there is no next try.
        """
        self._failed += 1
        wait = self._wait(fault)
        if wait is None or not safe or self._failed >= self._most:
            raise to_error(fault, self._address)
        if self._end is not None and self._clock() + wait >= self._end:
            raise to_error(fault, self._address)
        return wait

    def _wait(self, fault: Fault) -> float | None:
        """Return the wait that the rules call for, or None where they call for none. Half of it is chance."""
        policy, asked = self._policy, fault.retry_after_s or 0.0
        if asked > policy.longest_asked_s:
            return None
        own = min(policy.first_wait_s * policy.factor ** (self._failed - 1), policy.longest_wait_s)
        own = max(own * (0.5 + 0.5 * self._jitter()), MIN_WAIT_S)
        if fault.code == grpc.StatusCode.UNAVAILABLE:
            return max(own, asked)
        if fault.code == grpc.StatusCode.RESOURCE_EXHAUSTED and fault.retry_after_s is not None:
            return own * self._jitter() + asked
        return None
