"""An order: the slots of one frame that a call wants coded, and the place where its thread waits for them."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from speccompact.memory.group import GroupMemory
from speccompact.prospect import Prospect
from speccompact.slotbatch import Result, SlotBatch
from speccompact.slotwork import Cohort, Symbols
from speccompact_grpc.calls import Call

_TICK_S = 0.25
"""How often a waiting thread tells how far its slots are."""


@dataclass(frozen=True, slots=True)
class EncodeSlot:
    """A slot to be encoded: (n,) int32 symbols, and the check (8 bits) that its lane will carry."""

    symbols: Symbols
    check: int

    @property
    def tokens(self) -> int:
        """Number of symbols."""
        return len(self.symbols)

    def submit(self, batch: SlotBatch, cohort: Cohort) -> int:
        """Give it to a batch; returns the ticket."""
        return batch.submit_encode(self.symbols, self.check, cohort)


@dataclass(frozen=True, slots=True)
class DecodeSlot:
    """A slot to be decoded: its lane and how many symbols to take from it."""

    lane: bytes
    tokens: int

    def submit(self, batch: SlotBatch, cohort: Cohort) -> int:
        """Give it to a batch; returns the ticket."""
        return batch.submit_decode(self.lane, self.tokens, cohort)


class Order:
    """Slots that wait for places, have them, or are done. The pool changes it, the thread of the call waits.

    Attributes:
        call: whose it is.
        cohort: the slots in the batch.
        slots: all of them.
        results: what has come, by number of the slot.
        tickets: number of the slot by ticket, of those that have a place.
        submitted: slots that have, or had, a place.
        hopeless: whether the order was given up, because its lanes would exceed their budget.
        seconds: of the passes that it took part in.
    """

    def __init__(
        self,
        call: Call,
        slots: Sequence[EncodeSlot] | Sequence[DecodeSlot],
        memory: GroupMemory | None = None,
        prospect: Prospect | None = None,
    ) -> None:
        """Put slots in order.

        Args:
            slots: at least one.
            memory: that they share; they then get places all at once.
            prospect: whether it is worth while to go on; asked at the borders of epochs.
        """
        self.call, self.cohort, self.slots = call, Cohort(memory), slots
        self.results: dict[int, Result] = {}
        self.tickets: dict[int, int] = {}
        self.submitted, self.hopeless, self.seconds = 0, False, 0.0
        self._prospect, self._asked = prospect, 0
        self._since = time.monotonic()
        self._done = threading.Event()
        self._failure: BaseException | None = None

    @property
    def caller(self) -> str:
        """Name of the caller."""
        return self.call.caller

    @property
    def priority(self) -> int:
        """Higher ones go first."""
        return self.call.priority

    @property
    def shared(self) -> bool:
        """Whether its slots share a memory."""
        return self.cohort.memory is not None

    @property
    def waiting(self) -> int:
        """Slots that have no place yet."""
        return len(self.slots) - self.submitted

    def submit(self, batch: SlotBatch, count: int) -> int:
        """Give the next slots to a batch, and return how many tokens they have."""
        tokens = 0
        for number in range(self.submitted, self.submitted + count):
            slot = self.slots[number]
            self.tickets[slot.submit(batch, self.cohort)] = number
            tokens += slot.tokens
        self.submitted += count
        if not self.waiting:
            self.call.queue_s = max(self.call.queue_s, time.monotonic() - self._since)
        return tokens

    def settle(self) -> bool:
        """Return whether it is done, after a pass."""
        if self._prospect is not None and self.cohort.epochs > self._asked:
            self._asked = self.cohort.epochs
            self.hopeless = self._prospect.hopeless(self.cohort.settled, self.cohort.cost)
        spoiled = self.shared and self.cohort.damaged
        return self.hopeless or spoiled or len(self.results) == len(self.slots)

    def finish(self, failure: BaseException | None = None) -> None:
        """Let the waiting thread go on, or fail."""
        self._failure = failure
        self._done.set()

    def wait(self, tick: Callable[[int], None] | None) -> None:
        """Wait until the order is done.

        Args:
            tick: called with the number of symbols settled since its last call.

        Raises:
            CallEnded: the call cannot go on.
            MemoryError: there is not enough memory.
        """
        told = 0
        while not self._done.wait(_TICK_S if tick else None):
            told = self._tell(tick, told)
        failure, self._failure = self._failure, None
        try:
            if failure is not None:
                raise failure
        finally:
            del (
                failure
            )  # it would hold this frame, and that the memory of a group, until the next collection of garbage
        self._tell(tick, told)

    def _tell(self, tick: Callable[[int], None] | None, told: int) -> int:
        settled = self.cohort.settled
        if tick is not None and settled > told:
            tick(settled - told)
        return settled
