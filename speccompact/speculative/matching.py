"""Longest matches in a growing text of many slots: compiled search in hash tables, one for each of several orders.

All symbols stand in one array, slot after slot in regions of their own. VOID stands in front of and behind each region,
and wherever nothing is settled in it yet. For each order there is a table from the hash of so many symbols to the place
that followed them last. A found place is compared backwards, so that a collision or a place that was written over only
costs a match.
"""

from typing import Final

import numpy as np

from speccompact.exact.fusedscalar import Array, Integer, jit

ORDERS: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Lengths of contexts that are looked up; a match is as long as it turns out, up to LONGEST."""

LONGEST: Final = 32
"""Matches are told apart up to this length (symbols)."""

VOID: Final = -1

_MULTIPLIER: Final = np.uint64(0xD6E8FEB86659FD93)
_SHIFT: Final = np.uint64(24)


@jit
def settle(text: Array, tables: Array, begins: Array, lengths: Array, fresh: Array, counts: Array) -> None:
    """Enter settled symbols, each once.

    Args:
        text: (n,) int32, written.
        tables: (orders, entries) int32, places by hash, 0 for none; entries a power of two. Written.
        begins: (slots,) int64, place of the first symbol of each slot.
        lengths: (slots,) int64, symbols of each that have been entered before.
        fresh: (m,) int32, new symbols of the slots, one slot after the other.
        counts: (slots,) int64, how many belong to each.
    """
    first = 0
    for s in range(begins.shape[0]):
        for i in range(counts[s]):
            place, length = begins[s] + lengths[s] + i, lengths[s] + i
            hash_, order = np.uint64(0), 0
            for distance in range(1, min(length, LONGEST) + 1):
                hash_ = _mixed(hash_, text[place - distance])
                if distance == ORDERS[order]:
                    tables[order, _entry(hash_, tables.shape[1])] = place
                    order += 1
            text[place] = fresh[first + i]
        first += counts[s]


@jit
def match(
    text: Array, tables: Array, begins: Array, lengths: Array, limits: Array, drafts: Array, sizes: Array, found: Array
) -> None:  # fmt: skip
    """Find what followed the longest match of the last symbols of each slot, of equals the most recent.

    Args:
        text, tables, begins, lengths: as in `settle`.
        limits: (slots,) int64, symbols that are wanted at most.
        drafts: (slots, most) int32, written: what followed.
        sizes: (slots,) int64, written: how many symbols of it there are.
        found: (slots,) int64, written: length of the match, 0 where there is none.
    """
    for s in range(begins.shape[0]):
        end = begins[s] + lengths[s]
        hash_, order, best, source = np.uint64(0), 0, 0, 0
        for distance in range(1, min(lengths[s], LONGEST) + 1):
            hash_ = _mixed(hash_, text[end - distance])
            if distance == ORDERS[order]:
                place = tables[order, _entry(hash_, tables.shape[1])]
                order += 1
                if place and place != source:
                    length = _common(text, np.int64(place), end, min(lengths[s], LONGEST))
                    if length > best:
                        best, source = length, place
                if best < distance:  # a longer context has not been seen either
                    break
        found[s] = best
        size = 0
        if best:
            for i in range(min(limits[s], drafts.shape[1])):
                behind = source + i - end  # at the end of its own slot, a match goes on in the draft
                symbol = drafts[s, behind] if source < end <= source + i else text[source + i]
                if symbol == VOID:
                    break
                drafts[s, i] = symbol
                size += 1
        sizes[s] = size


@jit
def _common(text: Array, place: Integer, end: Integer, most: Integer) -> Integer:
    """Symbols before two places that are equal."""
    length = 0
    while length < most and text[place - 1 - length] == text[end - 1 - length]:
        length += 1
    return length


@jit
def _mixed(hash_: Integer, symbol: Integer) -> Integer:
    hash_ = (hash_ ^ np.uint64(np.int64(symbol) + 1)) * _MULTIPLIER
    return hash_ ^ (hash_ >> np.uint64(32))


@jit
def _entry(hash_: Integer, entries: Integer) -> Integer:
    return np.int64((hash_ >> _SHIFT) & np.uint64(entries - 1))
