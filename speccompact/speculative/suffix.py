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
from speccompact.speculative.drafter import Draft, Slot
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
        begin: place of the first one.
        end: place behind the last one that there is room for.
        length: symbols entered so far.
    """

    begin: int
    end: int
    length: int = 0


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
        if len(self._text) < max(self._room, capacity + 1):
            self._text = np.zeros(max(self._room, capacity + 1), np.int32)
            self._tables[:] = 0
            self._regions.clear()

    def propose(self, slots: Sequence[Slot], limits: Sequence[int]) -> list[Draft]:
        """See `Drafter.propose`."""
        if not slots:
            return []
        self._last = None
        begins, lengths = self._enter(slots)
        drafts = np.empty((len(slots), MOST), np.int32)
        sizes, found = np.empty((2, len(slots)), np.int64)
        chances = np.empty((len(slots), MOST), np.float32)
        match(self._text, self._tables, begins, lengths, np.array(limits, np.int64), drafts, sizes, found)
        estimate(found, sizes, self._right, self._trials, chances)
        self._last = _Last(tuple(slot.key for slot in slots), drafts, sizes, found)
        return [Draft(drafts[i, :size], chances[i, :size]) for i, size in enumerate(sizes.tolist())]

    def learn(self, slots: Sequence[Slot], drafts: Sequence[Draft], settled: Sequence[int]) -> None:
        """See `Drafter.learn`. What came is held against all that was proposed, not against the part that was tried."""
        self._enter(slots)

    def _enter(self, slots: Sequence[Slot]) -> tuple[Integers, Integers]:
        """Take symbols that are new; return where slots begin, and their lengths."""
        regions = [self._region(slot.key) for slot in slots]
        begins = np.array([region.begin for region in regions], np.int64)
        known = np.array([region.length for region in regions], np.int64)
        lengths = np.array([len(slot.symbols) for slot in slots], np.int64)
        if (lengths != known).any():
            counts = lengths - known
            fresh = np.concatenate([slot.symbols[n:] for slot, n in zip(slots, known.tolist(), strict=True)])
            last = self._last
            if last is not None and last.keys == tuple(slot.key for slot in slots):
                judge(last.drafts, last.sizes, last.found, fresh, counts, self._right, self._trials)
            settle(self._text, self._tables, begins, known, fresh, counts)
            for region, length in zip(regions, lengths.tolist(), strict=True):
                region.length = length
        return begins, lengths

    def _region(self, key: int) -> _Region:
        """Return the region of a slot; a new one overwrites the oldest."""
        found = self._of.get(key)
        if found is not None and found.end:
            return found
        begin = self._regions[-1].end + 1 if self._regions else 1
        if begin + self._capacity > len(self._text):
            begin = 1
            while self._regions[0].begin > self._regions[-1].begin:  # left over behind the newest
                self._regions.popleft().end = 0
        region = _Region(begin, begin + self._capacity)
        while self._regions and self._overlap(self._regions[0], region):
            self._regions.popleft().end = 0
        self._text[region.begin - 1 : region.end] = VOID
        self._regions.append(region)
        self._of[key] = region
        return region

    @staticmethod
    def _overlap(old: _Region, new: _Region) -> bool:
        return old.begin - 1 < new.end and new.begin - 1 < old.end
