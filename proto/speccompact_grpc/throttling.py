"""The stage that keeps callers within their limits, and all of them together within the service's."""

import threading
import time
from collections import Counter

import grpc

from speccompact_grpc.interception import PassiveStage, ServedCall
from speccompact_grpc.refusals import Refusal

_BURST_SECONDS = 4.0
"""A caller may use at once what its rate would give it in this time."""

_TRY_AGAIN_SECONDS = 1.0


class ByteBudget:
    """A token bucket in bytes that may go into debt: what has been taken is paid before anything more is.

    The first message after a pause is so taken whatever its size, and the average is kept all the same.
    """

    def __init__(self, bytes_per_second: int, now: float) -> None:
        """Begin with a full bucket."""
        self._rate = bytes_per_second
        self._full = bytes_per_second * _BURST_SECONDS
        self._left, self._at = self._full, now

    def wait(self, now: float) -> float:
        """Return the seconds until something may be taken; 0 for now."""
        self._left = min(self._full, self._left + (now - self._at) * self._rate)
        self._at = now
        return max(0.0, -self._left / self._rate)

    def take(self, size: int) -> None:
        """Take so many bytes."""
        self._left -= size


class Throttle(PassiveStage):
    """Calls at once, for each caller and in all; and bytes of each caller in the course of time.

    A call beyond the first is refused, with the time to wait. A stream beyond the second is read more slowly, so that
    flow control slows its caller down; a call of one message is refused.
    """

    def __init__(self, calls: int) -> None:
        """Bind the number of calls at once, of all callers."""
        self._calls = calls
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()
        self._budgets: dict[str, ByteBudget] = {}

    def begin(self, call: ServedCall) -> None:
        """Refuse what is one call too many."""
        caller = call.caller
        with self._lock:
            if self._running.total() >= self._calls:
                raise self._full(f"the service has {self._calls} calls, and takes no more at once")
            if caller.concurrent and self._running[caller.name] >= caller.concurrent:
                raise self._full(f"{caller.name} may have {caller.concurrent} calls at once, and has them")
            self._running[caller.name] += 1

    def receive(self, call: ServedCall, size: int) -> None:
        """Wait until the caller may send more, or refuse."""
        if not call.caller.bytes_per_second:
            return
        while seconds := self._take(call, size):
            if not call.streams:
                raise Refusal(
                    grpc.StatusCode.RESOURCE_EXHAUSTED,
                    "RATE",
                    f"{call.caller.name} may send {call.caller.bytes_per_second} bytes per second",
                    retry_seconds=seconds,
                )
            if call.over.wait(seconds):
                return

    def end(self, call: ServedCall) -> None:
        """Make room for another call."""
        with self._lock:
            self._running[call.caller.name] -= 1
            if not self._running[call.caller.name]:
                del self._running[call.caller.name]

    def _take(self, call: ServedCall, size: int) -> float:
        """Take the bytes of a message, or return how long they have to wait."""
        now = time.monotonic()
        with self._lock:
            budget = self._budgets.setdefault(call.caller.name, ByteBudget(call.caller.bytes_per_second, now))
            seconds = budget.wait(now)
            if not seconds:
                budget.take(size)
        return seconds

    def _full(self, message: str) -> Refusal:
        return Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "CONCURRENCY", message, retry_seconds=_TRY_AGAIN_SECONDS)
