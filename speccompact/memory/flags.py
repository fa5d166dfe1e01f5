"""Flags: candidates are tried one after the other, and the flag of each says whether it is the symbol.

The probability of a flag is mixed from log-odds: the target's own, given that no earlier candidate was right, and one
of each context, by how often candidates in the same state were right in that kind of context. Two sets of weights,
chosen by different circumstances, are averaged (logistic mixing: Mattern 2012, Mahoney 2005); an adaptive map corrects
the result. What the parameters are, and how they are learned, is in `mixer`; here they only are read.

EXACT.md section 11.5 has every rounding.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from speccompact.exact.fusedscalar import Array, Integer, jit
from speccompact.memory import contexts
from speccompact.memory.candidates import ABSENT, LEAST_ODDS, POOL, SEEN
from speccompact.memory.logodds import (
    FRAC_ODDS,
    MIN_PROBABILITY,
    ODDS_LIMIT,
    PROBABILITY_BITS,
    PROBABILITY_ONE,
    log2,
    odds_of,
    squash,
)

TRIED: Final = 6
"""Candidates that get a flag, at most."""

INPUTS: Final = contexts.COUNT + 2
"""Log-odds that are mixed: the target's, those of the contexts, a constant."""

WEIGHT_BITS: Final = 16
"""Fractional bits of weights."""

MAP_BITS: Final = FRAC_ODDS - 1
"""The map has a point every 2**MAP_BITS of log-odds, half a bit, and is linear between them."""

MAP_CENTRE: Final = 24
MAP_POINTS: Final = 2 * MAP_CENTRE + 1

_CONSTANT: Final = 1 << (FRAC_ODDS - 1)
_RANKS: Final = 4  # flags with parameters of their own: the first, the second, the third, all later ones
_LENGTHS: Final = len(contexts.ORDERS) + 1
_TARGET_STEPS: Final = 12  # of two bits each
_MAP_LIMIT: Final = (MAP_CENTRE << MAP_BITS) - 1

Integers = npt.NDArray[np.int64]

SETS: Final = (_RANKS * 2 * _LENGTHS, _TARGET_STEPS * 2, _RANKS * _LENGTHS)
"""Sets of weights by the length of the match, by what the target thinks; maps."""


@dataclass(frozen=True, slots=True)
class Flags:
    """Flags of some positions, and what it takes to learn from them.

    Attributes:
        symbols: (rows, TRIED) int64, the candidates in the order of their flags; -1 where there are fewer.
        odds: (rows, TRIED) int32, of each by the target alone.
        states: (rows, TRIED, contexts.COUNT) int16.
        sets: (rows, TRIED, 3) int16: rows of the two tables of weights, and of the map.
        mixed: (rows, TRIED, 3) int32: log-odds by either set of weights, and their mean.
    """

    symbols: Integers
    odds: npt.NDArray[np.int32]
    states: npt.NDArray[np.int16]
    sets: npt.NDArray[np.int16]
    mixed: npt.NDArray[np.int32]

    @classmethod
    def empty(cls, rows: int) -> "Flags":
        """Return room for so many positions."""
        return cls(
            np.full((rows, TRIED), -1, np.int64),
            np.zeros((rows, TRIED), np.int32),
            np.zeros((rows, TRIED, contexts.COUNT), np.int16),
            np.zeros((rows, TRIED, 3), np.int16),
            np.zeros((rows, TRIED, 3), np.int32),
        )

    def put(self, rows: npt.NDArray[np.int64], flags: "Flags") -> None:
        """Copy the flags of some positions to rows of this."""
        for name in self.__slots__:
            getattr(self, name)[rows] = getattr(flags, name)

    def take(self, rows: npt.NDArray[np.int64]) -> "Flags":
        """Return those of some rows."""
        return Flags(*(getattr(self, name)[rows] for name in self.__slots__))


@jit
def mix(
    pool: Array, states: Array, votes: Array, weights: Array, best: Array, total: Array, mass: Integer, odds: Array,
    weights1: Array, weights2: Array, map_: Array, log2_table: Array, exp2: Array,
    symbols: Array, by_target: Array, kept: Array, sets: Array, mixed: Array, sizes: Array,
) -> None:  # fmt: skip
    """Choose candidates and share out the code space between them and the rest.

    Args:
        pool, states, votes: of `Candidates`.
        weights, best, total, mass: see `Mixer.mix`.
        odds, weights1, weights2, map_: parameters of the mixer.
        log2_table, exp2: see `logodds`.
        symbols, by_target, kept, sets, mixed: of `Flags`, written.
        sizes: (rows, TRIED) int64, written: frequency of each candidate.
    """
    at_pool = np.empty(POOL + 1, np.int64)
    vote = np.empty(POOL + 1, np.int64)
    weight = np.empty(POOL + 1, np.int64)
    inputs = np.empty(INPUTS, np.int64)
    for r in range(best.shape[0]):
        size = _promising(pool[r], votes[r], weights[r], best[r], total[r], log2_table, exp2, at_pool, vote, weight)
        longest = _longest(states[r, POOL])
        rest, open_ = total[r], mass - min(size, TRIED)
        for k in range(min(size, TRIED)):
            first = k
            for other in range(k + 1, size):
                if vote[other] > vote[first]:
                    first = other
            at_pool[k], at_pool[first] = at_pool[first], at_pool[k]
            vote[k], vote[first] = vote[first], vote[k]
            weight[k], weight[first] = weight[first], weight[k]
            at = at_pool[k]
            symbols[r, k] = pool[r, at] if at < POOL else best[r]
            by_target[r, k] = odds_of(weight[k], rest - weight[k], log2_table)
            kept[r, k] = states[r, at]
            length = _own_length(states[r, at])
            rank = min(k, _RANKS - 1)
            sets[r, k, 0] = (rank * 2 + (1 if length == longest else 0)) * _LENGTHS + length
            sets[r, k, 1] = _target_step(by_target[r, k]) * 2 + (1 if k else 0)
            sets[r, k, 2] = rank * _LENGTHS + length
            fill_inputs(inputs, by_target[r, k], kept[r, k], odds)
            mixed[r, k, 0] = _dot(weights1[sets[r, k, 0]], inputs)
            mixed[r, k, 1] = _dot(weights2[sets[r, k, 1]], inputs)
            mixed[r, k, 2] = (np.int64(mixed[r, k, 0]) + mixed[r, k, 1]) >> 1
            plain = squash(np.int64(mixed[r, k, 2]), exp2)
            point, part = map_place(mixed[r, k, 2])
            line = map_[sets[r, k, 2]]
            mapped = (line[point] * ((1 << MAP_BITS) - part) + line[point + 1] * part) >> MAP_BITS
            likely = max(MIN_PROBABILITY, min(PROBABILITY_ONE - MIN_PROBABILITY, (plain + mapped + 1) >> 1))
            share = (open_ * likely) >> PROBABILITY_BITS
            sizes[r, k] = share + 1
            open_ -= share
            rest -= weight[k]


@jit
def _promising(
    pool: Array, votes: Array, weights: Array, best: Integer, total: Integer, log2_table: Array, exp2: Array,
    at_pool: Array, vote: Array, weight: Array,
) -> Integer:  # fmt: skip
    """Judge candidates and the target's own favourite; return how many there are."""
    size, has_best = 0, False
    whole = log2(total, log2_table)
    while size < POOL and pool[size] >= 0:
        at_pool[size], weight[size] = size, weights[size]
        vote[size] = votes[size] + 6 * (log2(max(np.int64(1), weights[size]), log2_table) - whole)
        if pool[size] == best:
            has_best = True
            vote[size] += _vote_of_target(weights[size], total, log2_table)
        size += 1
    if not has_best:
        at_pool[size], weight[size] = POOL, np.int64(exp2[0])
        vote[size] = 6 * (log2(weight[size], log2_table) - whole) + _vote_of_target(weight[size], total, log2_table)
        size += 1
    return size


@jit
def _vote_of_target(weight: Integer, total: Integer, log2_table: Array) -> Integer:
    return 40 * max(np.int64(0), odds_of(weight, total - weight, log2_table) + LEAST_ODDS)


@jit
def _longest(states: Array) -> Integer:
    """Rank from 1 of the longest run that the table knows; 0 if it knows none."""
    for i in range(_LENGTHS - 2, -1, -1):
        if states[i] != ABSENT:
            return i + 1
    return 0


@jit
def _own_length(states: Array) -> Integer:
    """Rank from 1 of the longest run after which the candidate was seen; 0 if there is none."""
    for i in range(_LENGTHS - 2, -1, -1):
        if states[i] >= SEEN:
            return i + 1
    return 0


@jit
def _target_step(odds: Integer) -> Integer:
    return max(0, min(_TARGET_STEPS - 1, (odds + (_TARGET_STEPS << FRAC_ODDS)) >> (FRAC_ODDS + 1)))


@jit
def fill_inputs(inputs: Array, by_target: Integer, states: Array, odds: Array) -> None:
    """Write the log-odds that are mixed for one flag."""
    inputs[0] = by_target
    for i in range(contexts.COUNT):
        inputs[1 + i] = odds[i, states[i]] if states[i] != ABSENT else 0
    inputs[INPUTS - 1] = _CONSTANT


@jit
def _dot(weights: Array, inputs: Array) -> Integer:
    total = np.int64(0)
    for i in range(INPUTS):
        total += weights[i] * inputs[i]
    return max(np.int64(-ODDS_LIMIT), min(np.int64(ODDS_LIMIT), total >> WEIGHT_BITS))


@jit
def map_place(odds: Integer) -> tuple[Integer, Integer]:
    """Point of the map at or below some log-odds, and how far they are beyond it in 2**MAP_BITS."""
    place = max(np.int64(-_MAP_LIMIT), min(np.int64(_MAP_LIMIT), np.int64(odds))) + (MAP_CENTRE << MAP_BITS)
    return place >> MAP_BITS, place & ((1 << MAP_BITS) - 1)
