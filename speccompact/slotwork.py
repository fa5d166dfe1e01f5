"""What a batch knows of its slots: each on its way, those that were submitted together, and where they stand."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from speccompact.memory.group import GroupMemory
from speccompact.speculative.drafter import Slot
from speccompact.speculative.effort import DraftCounts

Symbols = npt.NDArray[np.int32]


class Cohort:
    """Slots that were submitted together. With a memory they are a frame and go through its epochs side by side.

    Attributes:
        memory: of the group that the frame belongs to; None for slots that share nothing.
        works: slots that have not ended yet.
        damaged: whether one of them could not be decoded. With a memory that has ended all others.
        passes: target passes so far, counted once for each slot that took part.
        settled: symbols coded so far.
        cost: of those that were encoded with a memory, in bits with FRAC_ODDS fractional bits: integers, so that no
            order shows.
        epochs: of the memory that are over.
        drafts: what came of them.
    """

    def __init__(self, memory: GroupMemory | None = None) -> None:
        """Begin without slots. All slots of a frame must be submitted, in their order, before the next step."""
        self.memory = memory
        self.works: list[Work] = []
        self.damaged = False
        self.passes = self.settled = self.cost = self.epochs = self.members = 0
        self.drafts = DraftCounts()

    def close(self) -> None:
        """Let the memory learn, if all slots have come to the border of its epoch."""
        if self.memory is not None and not self.damaged:
            border = self.memory.border
            if all(work.settled >= border for work in self.works):
                self.memory.close()
                self.epochs += 1


@dataclass(slots=True, eq=False)
class Work:
    """A slot on its way. Encoding: symbols are known, the target reads them, intervals fill up. Decoding: they do.

    Attributes:
        ticket: its number, unlike that of any other slot of the batch.
        symbols: (n,) int32.
        lane: what is decoded; None while encoding.
        cohort: those it was submitted with.
        member: its number among them, from 0.
        check: the slot check to be encoded.
        place: where it stands in cache and lanes; -1 before it has one.
        read, settled, before: symbols that the target has read, that have been coded, and that had been before the
            running pass.
        hidden, scale: what the target said about those read (encoding).
        starts, frequencies: (n,) int64, coding intervals (encoding).
        draft: what the running pass tries (decoding).
    """

    ticket: int
    symbols: Symbols
    lane: bytes | None
    cohort: Cohort
    member: int
    check: int = 0
    place: int = -1
    read: int = 0
    settled: int = 0
    before: int = 0
    hidden: Tensor = field(default_factory=lambda: torch.empty(0, 0, dtype=torch.int8))
    scale: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))
    starts: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    frequencies: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    draft: Symbols = field(default_factory=lambda: np.empty(0, dtype=np.int32))

    @property
    def stop(self) -> int:
        """Where the running pass must end for it: at its own end, or at the border of the epoch."""
        memory = self.cohort.memory
        return len(self.symbols) if memory is None else min(len(self.symbols), memory.border)

    @property
    def left(self) -> int:
        """Symbols that are not settled yet."""
        return len(self.symbols) - self.settled


class Places:
    """Places of a cache. Its memory is touched as positions are written and stays; so long slots go where long ones
    have been.
    """

    def __init__(self, count: int) -> None:
        """Begin with so many that are free, and untouched."""
        self._touched = [0] * count
        self._free = set(range(count))

    def __len__(self) -> int:
        return len(self._free)

    def take(self, tokens: int) -> int:
        """Return a free place for a slot of so many tokens: the shortest that has held as many, or else the longest."""
        fitting = [place for place in self._free if self._touched[place] >= tokens]
        if fitting:
            place = min(fitting, key=self._touched.__getitem__)
        else:
            place = max(self._free, key=self._touched.__getitem__)
            self._touched[place] = tokens
        self._free.remove(place)
        return place

    def free(self, place: int) -> None:
        """Give a place back."""
        self._free.add(place)


def seen(works: Sequence[Work]) -> list[Slot]:
    """Return slots as a drafter sees them, which must not be able to write into what has been decoded."""
    slots = [Slot(work.ticket, work.symbols[: work.settled], len(work.symbols)) for work in works]
    for slot in slots:
        slot.symbols.flags.writeable = False
    return slots
