"""Which symbols the contexts of a position propose, and in what state each context is towards each of them."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from speccompact.exact.fusedscalar import Array, Integer, jit
from speccompact.memory import contexts
from speccompact.memory.contexts import KEPT, ORDERS, ContextTable

POOL: Final = 24
"""Candidates of a position, at most; from the longest run of symbols to the shortest, then the other contexts."""

STEPS: Final = 8
STATES: Final = STEPS * STEPS * 3
"""States of a context towards a symbol: times it was seen, times others were, whether it is the newest."""

SEEN: Final = STEPS * 3
"""States from here on mean that the context has seen the symbol."""

ABSENT: Final = -1
"""State of a context that the table does not know."""

LEAST_ODDS: Final = 17728
"""A context votes for a candidate by its log-odds beyond -LEAST_ODDS, that is beyond 1 to 20."""

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Candidates:
    """What the contexts know about some positions.

    Attributes:
        symbols: (rows, POOL) int64, distinct in a row; -1 where there are fewer.
        states: (rows, POOL + 1, contexts.COUNT) int16, of every context towards each; the last ones are those towards a
            symbol that no context names.
        votes: (rows, POOL) int64, how promising each is.
    """

    symbols: Integers
    states: npt.NDArray[np.int16]
    votes: Integers

    @classmethod
    def empty(cls, rows: int) -> "Candidates":
        """Return room for so many positions."""
        return cls(
            np.empty((rows, POOL), np.int64),
            np.empty((rows, POOL + 1, contexts.COUNT), np.int16),
            np.empty((rows, POOL), np.int64),
        )


def collect(
    symbols: npt.NDArray[np.int32], places: Integers, positions: Integers, line_ends: npt.NDArray[np.bool_],
    table: ContextTable, odds: npt.NDArray[np.int32],
) -> Candidates:  # fmt: skip
    """Look up the contexts of some positions.

    Args:
        symbols: (slots, capacity) int32, each at least up to its position.
        places, positions: (rows,) int64.
        line_ends: (symbols,) bool, see `contexts.hash_contexts`.
        table: read only.
        odds: (contexts.COUNT, STATES) int32, log-odds that a candidate in a state is right.
    """
    found = Candidates.empty(len(places))
    _collect(
        symbols, places, positions, line_ends, table.checks, table.symbols, table.counts, odds,
        found.symbols, found.states, found.votes,
    )  # fmt: skip
    return found


@jit
def _step_of(count: Integer) -> Integer:
    """Counts in eight steps: 0, 1, 2, 3, to 5, to 9, to 23, more."""
    if count < 4:
        return count
    return 4 if count < 6 else 5 if count < 10 else 6 if count < 24 else 7


@jit
def _state_of(seen: Integer, in_all: Integer, rank: Integer) -> Integer:
    return (_step_of(seen) * STEPS + _step_of(in_all - seen)) * 3 + min(rank, 2)


@jit
def _collect(
    symbols: Array, places: Array, positions: Array, line_ends: Array, checks: Array, entries: Array, counts: Array,
    odds: Array, pool: Array, states: Array, votes: Array,
) -> None:  # fmt: skip
    runs = len(ORDERS)
    hashes = np.empty(contexts.COUNT, np.uint64)
    for r in range(places.shape[0]):
        contexts.hash_contexts(symbols[places[r]], positions[r], line_ends, hashes)
        pool[r, :] = -1
        votes[r, :] = 0
        size = 0
        for turn in range(contexts.COUNT):
            i = runs - 1 - turn if turn < runs else turn
            entry = contexts.lookup(checks, hashes[i]) if hashes[i] else np.int64(-1)
            if entry < 0:
                states[r, :, i] = ABSENT
                continue
            in_all = np.int64(0)
            for rank in range(KEPT):
                in_all += counts[entry, rank]
            states[r, :, i] = _state_of(0, in_all, 2)
            for rank in range(KEPT):
                symbol = entries[entry, rank]
                if symbol < 0:
                    break
                at = 0
                while at < size and pool[r, at] != symbol:
                    at += 1
                if at == POOL:
                    continue
                if at == size:
                    pool[r, at] = symbol
                    size += 1
                state = _state_of(np.int64(counts[entry, rank]), in_all, rank)
                states[r, at, i] = state
                votes[r, at] += max(0, odds[i, state] + LEAST_ODDS) * (20 + 3 * min(i, runs))
