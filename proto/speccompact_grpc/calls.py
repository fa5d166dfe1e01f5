"""One call as the pool sees it: whose it is, how urgent, until when; and the ways in which it can be turned away."""

import threading
import time

import grpc

from speccompact_grpc.callers import NORMAL

_FAR_SECONDS = 1e9
"""gRPC gives a call without a deadline one that lies further away than this."""


class CallEnded(Exception):
    """A call cannot go on, through no fault of the data. What it had in the batch is gone."""


class Cancelled(CallEnded):
    """Nobody waits for the outcome any more."""


class DeadlinePassed(CallEnded):
    """The time that the caller has given is over."""


class QueueFull(CallEnded):
    """More slots wait than the service takes on.

    Attributes:
        retry_s: seconds after which there should be room.
    """

    def __init__(self, retry_s: float) -> None:
        super().__init__("the service has more to do than it takes on; try again later")
        self.retry_s = retry_s


class Draining(CallEnded):
    """The service is about to end and takes nothing new on."""


class Call:
    """A call, or a job. It may be ended from any thread; the pool lets go of its slots at the end of the running pass.

    Attributes:
        caller: name of the caller, between whom the pool is fair.
        priority: places go to higher ones first.
        deadline: of `time.monotonic`; None for none.
        patient: whether its slots wait however long the queue is. A call becomes so when it has begun: what has been
            taken on is done.
        queue_s: the longest time that slots of it have waited for a place.
    """

    def __init__(
        self, caller: str = "anonymous", priority: int = NORMAL, deadline: float | None = None, patient: bool = False
    ) -> None:
        """Begin a call."""
        self.caller, self.priority, self.deadline, self.patient = caller, priority, deadline, patient
        self.queue_s = 0.0
        self._cancelled = threading.Event()

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Let nothing more be done for it."""
        self._cancelled.set()

    def failure(self, now: float | None = None) -> CallEnded | None:
        """Return why the call cannot go on, or None while it can.

        Args:
            now: of `time.monotonic`; None for now.
        """
        if self.cancelled:
            return Cancelled("the call was cancelled")
        if self.deadline is not None and (time.monotonic() if now is None else now) >= self.deadline:
            return DeadlinePassed("the deadline of the call is over")
        return None

    def check(self) -> None:
        """Raise what `failure` returns."""
        failure = self.failure()
        try:
            if failure is not None:
                raise failure
        finally:
            del failure  # it would hold this frame until the next collection of garbage


def time_left(context: grpc.ServicerContext) -> float | None:
    """Return the seconds until the deadline that a caller has set; None where there is none."""
    left = context.time_remaining()
    return None if left is None or left > _FAR_SECONDS else left
