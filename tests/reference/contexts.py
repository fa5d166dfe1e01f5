"""EXACT.md section 11.3: the contexts of a row, and the table of what followed them."""

from collections.abc import Sequence, Set
from dataclasses import dataclass, field

KEPT = 4
COUNT_LIMIT = 255
LINE_LIMIT = 256
PLACES = 4

LENGTHS = (1, 2, 3, 4, 5, 6, 8, 11, 16, 24)
"""Symbols that contexts 0 to 9 are made of."""

CONTEXTS = 15
NO_SYMBOL = -1
SEED = 0x9E3779B97F4A7C15
FACTOR = 0xD6E8FEB86659FD93


def mix(h: int, s: int) -> int:
    t = ((h ^ (s + 2)) * FACTOR) % (1 << 64)
    return t ^ (t >> 32)


def hashes(s: Sequence[int], line_ends: Set[int]) -> list[int | None]:
    """Return the contexts of the position behind the symbols `s`."""
    p = len(s)
    made: list[list[int] | None] = [[s[p - j] for j in range(1, n + 1)] if n <= p else None for n in LENGTHS]
    made.append([s[p - 2], s[p - 3], s[p - 3]] if p >= 3 else None)
    made.append([s[p - 1], s[p - 3], s[p - 4]] if p >= 4 else None)
    made.append([s[p - 3], s[p - 4], s[p - 4]] if p >= 4 else None)
    a = place_above(s, line_ends)
    made.append(None if a is None else [s[a], s[p - 1]])
    made.append(None if a is None else [s[a], s[a + 1] if a + 1 < p else NO_SYMBOL])
    return [None if symbols is None else _hash([*symbols, i]) for i, symbols in enumerate(made)]


def _hash(symbols: Sequence[int]) -> int:
    h = SEED
    for symbol in symbols:
        h = mix(h, symbol)
    return h | 1


def place_above(s: Sequence[int], line_ends: Set[int]) -> int | None:
    """Return the position above the one behind the symbols `s`, in the line before."""
    p = len(s)
    stop = max(0, p - LINE_LIMIT)
    starts = [q for q in range(stop + 1, p + 1) if s[q - 1] in line_ends]
    if not starts:
        return None
    start = starts[-1]
    back = starts[-2] if len(starts) > 1 else stop
    a = back + p - start
    return a if a < start else None


@dataclass
class Entry:
    """What followed a context: symbols and their counts, the newest first."""

    check: int
    symbols: list[tuple[int, int]] = field(default_factory=list)

    def total(self) -> int:
        return sum(count for _, count in self.symbols)

    def insert(self, symbol: int) -> None:
        """Make a symbol the newest one."""
        kept = [known for known, _ in self.symbols]
        out = kept.index(symbol) if symbol in kept else min(len(kept), KEPT - 1)  # where one is taken out, or none is
        count = self.symbols[out][1] if symbol in kept else 0
        newer = [(known, c - (c >> 2)) for known, c in self.symbols[:out]]
        self.symbols = [(symbol, min(COUNT_LIMIT, 1 + count)), *newer, *self.symbols[out + 1 :]]


class Table:
    """The entries that are not free, by their places."""

    def __init__(self, bits: int) -> None:
        self._size = 1 << bits
        self._entries: dict[int, Entry] = {}

    def look_up(self, context: int) -> Entry | None:
        """Return the entry of a context, if it has one."""
        for place in self._places(context):
            entry = self._entries.get(place)
            if entry is not None and entry.check == _check(context):
                return entry
        return None

    def insert(self, context: int, symbol: int) -> None:
        entry = self.look_up(context)
        if entry is None:
            place = min(self._places(context), key=self._newest_count)
            entry = self._entries[place] = Entry(_check(context))
        entry.insert(symbol)

    def _places(self, context: int) -> list[int]:
        return [((context >> 1) + j) % self._size for j in range(PLACES)]

    def _newest_count(self, place: int) -> int:
        entry = self._entries.get(place)
        return 0 if entry is None else entry.symbols[0][1]


def _check(context: int) -> int:
    return context >> 48 | 1
