"""The suffix drafter: what followed the longest match of a slot's last symbols, in any slot, is what may follow now.

It costs microseconds. Symbols are entered once, as they settle; those of earlier batches stay known as long as there is
room, since the frames of a file resemble each other.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from speccompact.speculative.chances import estimate, judge
from speccompact.speculative.drafter import NOTHING, Draft, Slot
from speccompact.speculative.matching import LONGEST, ORDERS, VOID, match, settle

MOST: Final = 32
"""Symbols of a draft, at most."""

_ROOM: Final = 1 << 21
_ENTRIES: Final = 1 << 17

Integers = npt.NDArray[np.int64]


@dataclass(slots=True)
class _Region:
    """Where the symbols of a slot stand.

    Attributes:
        key: of the slot.
        begin: place of the first one. VOID stands before it.
        end: place behind the last one that there is room for, where VOID stands, too; 0 once it is written over.
        length: symbols entered so far.
    """

    key: int
    begin: int
    end: int
    length: int = 0

    @property
    def full(self) -> bool:
        """Whether no symbol of the slot is to come any more."""
        return self.length >= self.end - self.begin


@dataclass(frozen=True, slots=True)
class _Last:
    """What was proposed last; fields as in `chances.judge`."""

    keys: tuple[int, ...]
    drafts: npt.NDArray[np.int32]
    sizes: Integers
    found: Integers


class SuffixDrafter:
    """Proposes what followed the longest match, see `Drafter`."""

    def __init__(self, room: int = _ROOM, entries: int = _ENTRIES) -> None:
        """Begin without any text.

        Args:
            room: symbols that are kept, at least. Memory is taken as they come.
            entries: of the table of each order, a power of two.
        """
        self._room, self._capacity = room, 0
        self._text = np.zeros(0, np.int32)
        self._tables = np.zeros((len(ORDERS), entries), np.int32)
        self._right, self._trials = np.zeros((2, LONGEST + 1, MOST))
        self._regions: deque[_Region] = deque()
        self._of: dict[int, _Region] = {}
        self._last: _Last | None = None

    def begin(self, capacity: int) -> None:
        """See `Drafter.begin`. What stood in the slots of the last batch stays known."""
        self._capacity, self._last = capacity, None
        self._of.clear()
        room = max(self._room, capacity + 2)  # with VOID before and behind
        if len(self._text) < room:
            self._text = np.zeros(room, np.int32)
            self._tables[:] = 0
            self._regions.clear()

    def propose(self, slots: Sequence[Slot], limits: Sequence[int]) -> list[Draft]:
        """See `Drafter.propose`."""
        self._last = None
        numbers, begins, lengths = self._enter(slots)
        proposed = [NOTHING] * len(slots)
        if not numbers:
            return proposed
        drafts = np.empty((len(numbers), MOST), np.int32)
        sizes, found = np.empty((2, len(numbers)), np.int64)
        chances = np.empty((len(numbers), MOST), np.float32)
        most = np.array([limits[n] for n in numbers], np.int64)
        match(self._text, self._tables, begins, lengths, most, drafts, sizes, found)
        estimate(found, sizes, self._right, self._trials, chances)
        self._last = _Last(tuple(slots[n].key for n in numbers), drafts, sizes, found)
        for i, (n, size) in enumerate(zip(numbers, sizes.tolist(), strict=True)):
            proposed[n] = Draft(drafts[i, :size], chances[i, :size])
        return proposed

    def learn(self, slots: Sequence[Slot], drafts: Sequence[Draft], settled: Sequence[int]) -> None:
        """See `Drafter.learn`. What came is held against all that was proposed, not against the part that was tried."""
        self._enter(slots)

    def _enter(self, slots: Sequence[Slot]) -> tuple[list[int], Integers, Integers]:
        """Take symbols that are new.

        Returns:
            The numbers of the slots that there is room for, where these begin, and their lengths.
        """
        last, self._last = self._last, None  # drafts are judged by what came in their own pass
        found = [self._region(slot) for slot in slots]
        housed = [(n, region) for n, region in enumerate(found) if region is not None]
        begins = np.array([region.begin for _, region in housed], np.int64)
        known = np.array([region.length for _, region in housed], np.int64)
        lengths = np.array([min(len(slots[n].symbols), region.end - region.begin) for n, region in housed], np.int64)
        numbers = [n for n, _ in housed]
        if (lengths > known).any():
            counts = lengths - known
            news = zip(numbers, known.tolist(), lengths.tolist(), strict=True)
            fresh = np.concatenate([slots[n].symbols[begin:end] for n, begin, end in news])
            if last is not None and last.keys == tuple(slots[n].key for n in numbers):
                judge(last.drafts, last.sizes, last.found, fresh, counts, self._right, self._trials)
            settle(self._text, self._tables, begins, known, fresh, counts)
            for (_, region), length in zip(housed, lengths.tolist(), strict=True):
                region.length = length
        return numbers, begins, lengths

    def _region(self, slot: Slot) -> _Region | None:
        """Return the region of a slot; a new one is written over the oldest ones.

        Those of slots that still grow are left alone. Where one is in the way, the slot goes without: it is not
        drafted for, until there is room.
        """
        known = self._of.get(slot.key)
        if known is not None and known.end:
            return known
        size = max(slot.length or self._capacity, len(slot.symbols))
        begin = self._regions[-1].end + 1 if self._regions else 1
        wraps = begin + size >= len(self._text)
        region = _Region(slot.key, 1 if wraps else begin, (1 if wraps else begin) + size)
        if region.end >= len(self._text):
            return None
        count = 0
        for old in self._regions:
            behind = wraps and old.begin > self._regions[-1].begin  # left over behind the newest
            if not behind and (old.begin > region.end or region.begin > old.end):
                break
            if self._of.get(old.key) is old and not old.full:
                return None
            count += 1
        for _ in range(count):
            self._regions.popleft().end = 0
        self._text[region.begin - 1 : region.end + 1] = VOID
        self._regions.append(region)
        self._of[slot.key] = region
        return region
