"""Which calls are running; and an end for those whose callers have gone silent without leaving."""

import threading
import time

from speccompact_grpc.calls import time_left
from speccompact_grpc.interception import PassiveStage, ServedCall

_AS_LONG_AS_IT_TAKES = frozenset({"WatchJob"})
"""Methods whose calls last as long as what they tell about, and do no work."""


class Attendance(PassiveStage):
    """Knows all running calls.

    A caller that neither sends what it is waited for nor reads what it has been sent holds a thread and memory, so it
    is cut off after a while (CANCELLED), and so is a call without a deadline that takes too long.
    """

    def __init__(self, idle_seconds: float, call_seconds: float) -> None:
        """Bind the patience with callers.

        Args:
            idle_seconds: how long one is waited for; 0 for ever.
            call_seconds: how long a call without a deadline may take, unless it watches a job; 0 for ever.
        """
        self._idle_seconds, self._call_seconds = idle_seconds, call_seconds
        self._lock = threading.Lock()
        self._running: set[ServedCall] = set()

    def __len__(self) -> int:
        return len(self._running)

    def begin(self, call: ServedCall) -> None:
        """See `Stage`."""
        with self._lock:
            self._running.add(call)

    def end(self, call: ServedCall) -> None:
        """See `Stage`."""
        with self._lock:
            self._running.discard(call)

    def sweep(self, now: float | None = None) -> int:
        """Cut off the calls that have been waited for too long, and return how many.

        Args:
            now: of `time.monotonic`; None for now.
        """
        moment = time.monotonic() if now is None else now
        with self._lock:
            tired = [call for call in self._running if self._too_long(call, moment)]
        for call in tired:
            call.cut = True
            call.context.cancel()
        return len(tired)

    def _too_long(self, call: ServedCall, now: float) -> bool:
        waiting = [since for since in (call.reading_since, call.writing_since) if since]
        if self._idle_seconds and any(now - since > self._idle_seconds for since in waiting):
            return True
        if not self._call_seconds or call.method in _AS_LONG_AS_IT_TAKES or time_left(call.context) is not None:
            return False
        return now - call.began > self._call_seconds
