"""What followed a context before: a hash table from contexts to the last few symbols seen after them, with counts.

A context is a run of symbols just before a position, or a few that stand at chosen distances; `_CONTEXTS` says which.
All slots of a group write into one table, at the borders of epochs (see `group`); between borders it only is read, so
that every row of an epoch can be looked up on its own. A context is known by `_CHECK_BITS` bits of its hash beside the
bucket that it lies in, so two contexts may be taken for one: that costs bits now and then, and never correctness.

Invariants:
1. The table is a function of the sequence of insertions. (enforced: nothing is random, nothing depends on time)
2. Symbols of an entry stand from the newest to the oldest; -1 where there are fewer. (enforced)
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from speccompact.exact.fusedscalar import Array, Integer, jit

ORDERS: Final = (1, 2, 3, 4, 5, 6, 8, 11, 16, 24)
"""Lengths of the contexts that are runs, in symbols."""

SKIPS: Final = ((2, 3, 3), (1, 3, 4), (3, 4, 4))
"""Distances of the symbols that make up the other contexts, the last one the farthest: 1 is the symbol just before."""

COLUMNS: Final = 2
"""Contexts that look at the line above: the symbol there, with the one before the position or the one after it."""

COUNT: Final = len(ORDERS) + len(SKIPS) + COLUMNS
KEPT: Final = 4
"""Symbols of an entry."""

COUNT_LIMIT: Final = 255
_PROBES: Final = 4
_CHECK_BITS: Final = 16
_SEED: Final = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIER: Final = np.uint64(0xD6E8FEB86659FD93)
_SHIFT: Final = np.uint64(32)

LINE_LIMIT: Final = 256
"""Symbols that are searched backwards for the two line ends before a position."""

_NOTHING: Final = -1
"""Stands for a symbol that is not there, inside a hash."""

Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class ContextTable:
    """Entries, each of one context; empty ones have the check 0, and their symbols mean nothing.

    Attributes:
        checks: (entries,) uint16, entries a power of two.
        symbols: (entries, KEPT) int32.
        counts: (entries, KEPT) uint8, how often each was seen, 0 where there is none.
    """

    checks: npt.NDArray[np.uint16]
    symbols: npt.NDArray[np.int32]
    counts: npt.NDArray[np.uint8]

    @classmethod
    def empty(cls, bits: int) -> "ContextTable":
        """Return a table of 2**bits entries without any context."""
        entries = 1 << bits
        return cls(  # zeros: memory that the system gives when it is touched
            np.zeros(entries, np.uint16), np.zeros((entries, KEPT), np.int32), np.zeros((entries, KEPT), np.uint8)
        )


@jit
def hash_contexts(symbols: Array, position: Integer, line_ends: Array, hashes: Array) -> None:
    """Hash every context of a position; 0 where a context would reach beyond the start of the slot.

    Args:
        symbols: (n,) int32, the slot, at least up to the position.
        position: of the symbol that is to be predicted, in the slot.
        line_ends: (symbols,) bool by symbol: whether it holds a line end.
        hashes: (COUNT,) uint64, written.
    """
    state, length = _SEED, 0
    for i in range(len(ORDERS)):
        hashes[i] = 0
        if ORDERS[i] <= position:
            while length < ORDERS[i]:
                length += 1
                state = _mix(state, symbols[position - length])
            hashes[i] = _mix(state, i) | np.uint64(1)
    i = len(ORDERS)
    for distances in SKIPS:
        hashes[i] = 0
        if distances[2] <= position:
            state = _SEED
            for distance in distances:
                state = _mix(state, symbols[position - distance])
            hashes[i] = _mix(state, i) | np.uint64(1)
        i += 1
    hashes[i], hashes[i + 1] = 0, 0
    above = _above(symbols, position, line_ends)
    if above >= 0:
        last = symbols[position - 1] if position else _NOTHING
        here, after = symbols[above], symbols[above + 1] if above + 1 < position else _NOTHING
        hashes[i] = _mix(_mix(_mix(_SEED, here), last), i) | np.uint64(1)
        hashes[i + 1] = _mix(_mix(_mix(_SEED, here), after), i + 1) | np.uint64(1)


def remember(
    table: ContextTable,
    symbols: npt.NDArray[np.int32],
    places: npt.NDArray[np.int64],
    positions: npt.NDArray[np.int64],
    line_ends: npt.NDArray[np.bool_],
) -> None:
    """Note what followed the contexts of some positions, in their order.

    Args:
        symbols: (slots, capacity) int32, each beyond its positions.
        places, positions: (rows,) int64.
        line_ends: see `hash_contexts`.
    """
    _remember(symbols, places, positions, line_ends, table.checks, table.symbols, table.counts)


@jit
def _mix(state: Integer, symbol: Integer) -> Integer:
    """One more symbol into a hash: xor, a multiplication modulo 2**64, and the high half into the low one."""
    state = (state ^ np.uint64(symbol + 2)) * _MULTIPLIER
    return state ^ (state >> _SHIFT)


@jit
def _above(symbols: Array, position: Integer, line_ends: Array) -> Integer:
    """Place of the symbol above a position: as far from its line's start, in the line before; -1 if there is none."""
    stop = max(np.int64(0), position - LINE_LIMIT)
    start = position
    while start > stop and not line_ends[symbols[start - 1]]:
        start -= 1
    if start == stop:
        return np.int64(-1)
    before = start - 1
    while before > stop and not line_ends[symbols[before - 1]]:
        before -= 1
    above = before + (position - start)
    return above if above < start else np.int64(-1)


@jit
def lookup(checks: Array, hash_: Integer) -> Integer:
    """Place of a context's entry; -1 where the table has none."""
    mask, check = np.uint64(checks.shape[0] - 1), _check_of(hash_)
    for probe in range(_PROBES):
        place = _place(hash_, probe, mask)
        if checks[place] == check:
            return place
    return np.int64(-1)


@jit
def insert(checks: Array, symbols: Array, counts: Array, hash_: Integer, symbol: Integer) -> None:
    """Note that a symbol followed a context. Inverse of nothing: what is pushed out is gone.

    A context without an entry takes that of the _PROBES possible ones whose newest symbol has been seen least often,
    the first of equals. The symbol becomes the newest one of its entry; counts of those that were newer lose a quarter,
    rounded down.
    """
    place = lookup(checks, hash_)
    if place < 0:
        place = _weakest(checks, counts, hash_)
        checks[place] = _check_of(hash_)
        symbols[place, :] = -1
        counts[place, :] = 0
    rank = 0
    while rank < KEPT - 1 and symbols[place, rank] != symbol:
        rank += 1
    seen = np.int64(counts[place, rank]) if symbols[place, rank] == symbol else np.int64(0)
    while rank > 0:
        symbols[place, rank] = symbols[place, rank - 1]
        count = np.int64(counts[place, rank - 1])
        counts[place, rank] = count - (count >> 2)
        rank -= 1
    symbols[place, 0] = symbol
    counts[place, 0] = min(seen + 1, COUNT_LIMIT)


@jit
def _weakest(checks: Array, counts: Array, hash_: Integer) -> Integer:
    mask = np.uint64(checks.shape[0] - 1)
    best, least = np.int64(0), np.int64(COUNT_LIMIT + 1)
    for probe in range(_PROBES):
        place = _place(hash_, probe, mask)
        count = np.int64(counts[place, 0])  # 0 in an entry that is free
        if count < least:
            best, least = place, count
    return best


@jit
def _place(hash_: Integer, probe: Integer, mask: Integer) -> Integer:
    """One of the places of a context. The lowest bit of its hash says nothing: it is always 1."""
    return np.int64(((hash_ >> np.uint64(1)) + np.uint64(probe)) & mask)


@jit
def _check_of(hash_: Integer) -> Integer:
    """The bits that tell contexts of one bucket apart, never 0."""
    return np.uint16((hash_ >> np.uint64(64 - _CHECK_BITS)) | np.uint64(1))


@jit
def _remember(
    symbols: Array, places: Array, positions: Array, line_ends: Array, checks: Array, entries: Array, counts: Array
) -> None:
    hashes = np.empty(COUNT, np.uint64)
    for r in range(places.shape[0]):
        slot, position = symbols[places[r]], positions[r]
        hash_contexts(slot, position, line_ends, hashes)
        for i in range(COUNT):
            if hashes[i]:
                insert(checks, entries, counts, hashes[i], slot[position])
