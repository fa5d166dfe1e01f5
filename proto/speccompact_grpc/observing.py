"""What the service tells about itself while it works: one small protocol, called by those who do the work.

Calls come from any thread and often, so an observer only counts; it never blocks and never raises.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Pass:
    """One target pass over the slots of all callers together.

    Attributes:
        model: name of the target.
        slots: slots that took part.
        places: slots that could have taken part; slots / places is how full the batch was.
        encoded: tokens settled in slots that are being compressed.
        decoding: slots that are being decompressed, of those that took part.
        decoded: tokens settled in them; decoded / decoding is the tokens per pass of a slot.
        seconds: how long the pass took, drafts included.
        drafted, accepted: tokens that were proposed, and those of them that were right.
    """

    model: str
    slots: int
    places: int
    encoded: int
    decoding: int
    decoded: int
    seconds: float
    drafted: int = 0
    accepted: int = 0


class Observer(Protocol):
    """Who wants to know. Methods of calls get the name of the RPC alone, such as "CompressText"."""

    def began(self, method: str) -> None:
        """A call has come in; it may yet be turned away."""
        ...

    def ended(self, method: str, code: str, seconds: float) -> None:
        """A call that had begun is over, with the name of its status code, such as "OK"."""
        ...

    def received(self, method: str, count: int) -> None:
        """So many bytes of requests came in."""
        ...

    def sent(self, method: str, count: int) -> None:
        """So many bytes of responses went out."""
        ...

    def waiting(self, model: str, slots: int) -> None:
        """So many slots wait for a place now, of all callers."""
        ...

    def passed(self, done: Pass) -> None:
        """A target pass is over."""
        ...

    def jobs(self, states: Mapping[str, int]) -> None:
        """So many jobs are in each state now."""
        ...


class Silent:
    """An observer that nobody listens to."""

    def began(self, method: str) -> None:
        """See `Observer`."""

    def ended(self, method: str, code: str, seconds: float) -> None:
        """See `Observer`."""

    def received(self, method: str, count: int) -> None:
        """See `Observer`."""

    def sent(self, method: str, count: int) -> None:
        """See `Observer`."""

    def waiting(self, model: str, slots: int) -> None:
        """See `Observer`."""

    def passed(self, done: Pass) -> None:
        """See `Observer`."""

    def jobs(self, states: Mapping[str, int]) -> None:
        """See `Observer`."""


class Several:
    """Several observers as one."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        """Bind the observers."""
        self._observers = tuple(observers)

    def began(self, method: str) -> None:
        """See `Observer`."""
        for observer in self._observers:
            observer.began(method)

    def ended(self, method: str, code: str, seconds: float) -> None:
        """See `Observer`."""
        for observer in self._observers:
            observer.ended(method, code, seconds)

    def received(self, method: str, count: int) -> None:
        """See `Observer`."""
        for observer in self._observers:
            observer.received(method, count)

    def sent(self, method: str, count: int) -> None:
        """See `Observer`."""
        for observer in self._observers:
            observer.sent(method, count)

    def waiting(self, model: str, slots: int) -> None:
        """See `Observer`."""
        for observer in self._observers:
            observer.waiting(model, slots)

    def passed(self, done: Pass) -> None:
        """See `Observer`."""
        for observer in self._observers:
            observer.passed(done)

    def jobs(self, states: Mapping[str, int]) -> None:
        """See `Observer`."""
        for observer in self._observers:
            observer.jobs(states)
