"""What the service is doing right now, in a few numbers for the page: an observer with a short memory."""

import threading
import time
from collections import Counter, deque
from dataclasses import asdict, dataclass

from speccompact_grpc.observing import Pass, Silent

_WINDOW_SECONDS = 10.0
_PASSES = 4096
"""At most so many are remembered; more in the window are not needed for an average."""


@dataclass(frozen=True, slots=True)
class Load:
    """A moment of the service.

    Attributes:
        calls: under way.
        waiting_slots: of all callers, for a place.
        batch_fill: share of places that passes used, on the average of the last seconds; 0 without any.
        tokens_per_second: coded in the last seconds, both ways.
        tokens_per_pass: of a slot while decompressing; 0 without any.
        acceptance: share of proposed tokens that were right; 0 without any.
        calls_done, calls_failed: since the service began; a call is failed unless it is OK.
    """

    calls: int
    waiting_slots: int
    batch_fill: float
    tokens_per_second: float
    tokens_per_pass: float
    acceptance: float
    calls_done: int
    calls_failed: int

    def as_json(self) -> dict[str, float]:
        """Return it as a JSON object."""
        return asdict(self)


class LiveLoad(Silent):
    """Remembers the passes of the last seconds."""

    def __init__(self) -> None:
        """Begin idle."""
        self._lock = threading.Lock()
        self._passes: deque[tuple[float, Pass]] = deque(maxlen=_PASSES)
        self._waiting: Counter[str] = Counter()
        self._running = self._done = self._failed = 0

    def began(self, method: str) -> None:
        """See `Observer`."""
        with self._lock:
            self._running += 1

    def ended(self, method: str, code: str, seconds: float) -> None:
        """See `Observer`."""
        with self._lock:
            self._running -= 1
            self._done += 1
            self._failed += code != "OK"

    def waiting(self, model: str, slots: int) -> None:
        """See `Observer`."""
        with self._lock:
            self._waiting[model] = slots

    def passed(self, done: Pass) -> None:
        """See `Observer`."""
        with self._lock:
            self._passes.append((time.monotonic(), done))

    def now(self, moment: float | None = None) -> Load:
        """Return the load.

        Args:
            moment: of `time.monotonic`; None for now.
        """
        at = time.monotonic() if moment is None else moment
        with self._lock:
            recent = [(when, done) for when, done in self._passes if at - when <= _WINDOW_SECONDS]
            running, waiting = self._running, self._waiting.total()
            calls_done, calls_failed = self._done, self._failed
        passes = [done for _, done in recent]
        seconds = min(_WINDOW_SECONDS, at - recent[0][0] + passes[0].seconds) if recent else 0.0
        return Load(
            running,
            waiting,
            _ratio(sum(done.slots for done in passes), sum(done.places for done in passes)),
            _ratio(sum(done.encoded + done.decoded for done in passes), seconds),
            _ratio(sum(done.decoded for done in passes), sum(done.decoding for done in passes)),
            _ratio(sum(done.accepted for done in passes), sum(done.drafted for done in passes)),
            calls_done,
            calls_failed,
        )


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
