"""What is learned about flags: how good each context is, how to weigh them, how far the result can be trusted.

Parameters stay as they are within an epoch and change at its border, by sums over all flags of the epoch, which have no
order. Weights follow the gradient of the code length.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from speccompact.exact.fusedscalar import Array, isqrt, jit
from speccompact.memory import contexts
from speccompact.memory.candidates import ABSENT, STATES, STEPS, Candidates
from speccompact.memory.flags import (
    INPUTS,
    MAP_BITS,
    MAP_CENTRE,
    MAP_POINTS,
    SETS,
    TRIED,
    Flags,
    fill_inputs,
    map_place,
    mix,
)
from speccompact.memory.logodds import MIN_PROBABILITY, PROBABILITY_BITS, PROBABILITY_ONE, odds_of, squash

_TARGET_WEIGHT: Final = 39322  # 0.6
_CONTEXT_WEIGHT: Final = 3277  # 0.05
_WEIGHT_LIMIT: Final = 1 << 22
_RATE: Final = 14
_RATE_SHIFT: Final = 20
_MEMORY: Final = 255  # flags over which a counter averages, about
_LEAST_COUNTER: Final = PROBABILITY_ONE >> 11
_LEAST_SHARE: Final = 25  # flags of an epoch below which a point of a map moves by 1/50 of the error of each

Integers = npt.NDArray[np.int64]


class Mixer:
    """What has been learned about mixing.

    Attributes:
        odds: (contexts.COUNT, STATES) int32, log-odds that a candidate in this state is right.
    """

    def __init__(self, log2_table: Array, exp2_table: Array) -> None:
        """Begin with what holds for most texts.

        Args:
            log2_table, exp2_table: (4096,) int32, see `logodds`.
        """
        self._log2, self._exp2 = log2_table, exp2_table
        self._right = np.tile(_first_probabilities(), (contexts.COUNT, 1))
        self._flags = np.zeros((contexts.COUNT, STATES), np.int64)
        self.odds = np.zeros((contexts.COUNT, STATES), np.int32)
        self._weights = [np.full((sets, INPUTS), _CONTEXT_WEIGHT, np.int32) for sets in SETS[:2]]
        for weights in self._weights:
            weights[:, 0] = _TARGET_WEIGHT
        points = [squash(np.int64((i - MAP_CENTRE) << MAP_BITS), exp2_table) for i in range(MAP_POINTS)]
        self._map = np.tile(np.array(points, np.int64), (SETS[2], 1))
        _refresh(self._right, log2_table, self.odds)

    def mix(
        self, candidates: Candidates, weights: Integers, best: Integers, total: Integers, mass: int
    ) -> tuple[Flags, Integers]:
        """Share out the code space between the candidates and the rest.

        Args:
            candidates: of each row.
            weights: (rows, POOL) int64, exp2 weight of each candidate under the target, 0 where there is none.
            best: (rows,) int64, the target's most likely token.
            total: (rows,) int64, sum of the weights of all tokens.
            mass: what is shared out.

        Returns:
            the flags, and the frequency of each candidate, (rows, TRIED) int64, 0 where there is none.
        """
        rows = len(best)
        flags, sizes = Flags.empty(rows), np.zeros((rows, TRIED), np.int64)
        mix(
            candidates.symbols, candidates.states, candidates.votes, weights, best, total, mass, self.odds,
            self._weights[0], self._weights[1], self._map, self._log2, self._exp2,
            flags.symbols, flags.odds, flags.states, flags.sets, flags.mixed, sizes,
        )  # fmt: skip
        return flags, sizes

    def learn(self, flags: Flags, symbols: Integers) -> None:
        """Learn from all positions of an epoch at once.

        Args:
            flags: of (rows,) positions, in any order.
            symbols: (rows,) int64, what came.
        """
        right, seen = np.zeros((2, contexts.COUNT, STATES), np.int64)
        slopes = [np.zeros((sets, INPUTS), np.int64) for sets in SETS[:2]]
        counts = [np.zeros(sets, np.int64) for sets in SETS[:2]]
        errors, shares = np.zeros((2, SETS[2], MAP_POINTS), np.int64)
        _gather(
            flags.symbols, flags.odds, flags.states, flags.sets, flags.mixed, symbols, self.odds, self._map, self._exp2,
            right, seen, slopes[0], slopes[1], counts[0], counts[1], errors, shares,
        )  # fmt: skip
        _count(right, seen, self._right, self._flags)
        _refresh(self._right, self._log2, self.odds)
        for weights, slope, count in zip(self._weights, slopes, counts, strict=True):
            _descend(weights, slope, count)
        self._map += errors // np.maximum(2 * shares, 2 * _LEAST_SHARE << MAP_BITS)
        np.clip(self._map, MIN_PROBABILITY, PROBABILITY_ONE - MIN_PROBABILITY, out=self._map)


def _first_probabilities() -> Integers:
    """How likely a candidate is by its state, before anything is known: about (n + 0.3) / (n + others + 0.8)."""
    here, others, rank = np.indices((STEPS, STEPS, 3), np.int64).reshape(3, STATES)
    guess = ((10 * here + 3) << PROBABILITY_BITS) // (10 * (here + others) + 8 + 5 * np.minimum(rank, 1))
    least = PROBABILITY_ONE // 50
    return np.where(here > 0, np.minimum(guess, PROBABILITY_ONE - least), least).astype(np.int64)


@jit
def _gather(
    candidates: Array, by_target: Array, states: Array, sets: Array, mixed: Array, symbols: Array, odds: Array,
    map_: Array, exp2: Array,
    right: Array, seen: Array, slopes1: Array, slopes2: Array, counts1: Array, counts2: Array, errors: Array,
    shares: Array,
) -> None:  # fmt: skip
    """Sum up what each flag of an epoch teaches; flags after the right candidate were never asked."""
    inputs = np.empty(INPUTS, np.int64)
    for r in range(symbols.shape[0]):
        for k in range(TRIED):
            if candidates[r, k] < 0:
                break
            hit = candidates[r, k] == symbols[r]
            truth = np.int64(PROBABILITY_ONE) if hit else np.int64(0)
            for i in range(contexts.COUNT):
                state = states[r, k, i]
                if state != ABSENT:
                    seen[i, state] += 1
                    right[i, state] += 1 if hit else 0
            fill_inputs(inputs, by_target[r, k], states[r, k], odds)
            first, second, third = sets[r, k, 0], sets[r, k, 1], sets[r, k, 2]
            error1 = truth - squash(np.int64(mixed[r, k, 0]), exp2)
            error2 = truth - squash(np.int64(mixed[r, k, 1]), exp2)
            for i in range(INPUTS):
                slopes1[first, i] += error1 * inputs[i]
                slopes2[second, i] += error2 * inputs[i]
            counts1[first] += 1
            counts2[second] += 1
            point, part = map_place(mixed[r, k, 2])
            for j, near in ((point, (1 << MAP_BITS) - part), (point + 1, part)):
                errors[third, j] += (truth - map_[third, j]) * near
                shares[third, j] += near
            if hit:
                break


@jit
def _count(right: Array, seen: Array, probability: Array, flags: Array) -> None:
    """Move each counter towards the share of right candidates, the less the more it has seen."""
    for i in range(seen.shape[0]):
        for j in range(seen.shape[1]):
            if seen[i, j]:
                flags[i, j] = min(np.int64(_MEMORY), flags[i, j] + seen[i, j])
                error = (right[i, j] << PROBABILITY_BITS) - seen[i, j] * probability[i, j]
                moved = probability[i, j] + error // (max(flags[i, j], seen[i, j]) + 6)
                probability[i, j] = max(_LEAST_COUNTER, min(PROBABILITY_ONE - _LEAST_COUNTER, moved))


@jit
def _refresh(probability: Array, log2_table: Array, odds: Array) -> None:
    for i in range(odds.shape[0]):
        for j in range(odds.shape[1]):
            odds[i, j] = odds_of(probability[i, j], PROBABILITY_ONE - probability[i, j], log2_table)


@jit
def _descend(weights: Array, slopes: Array, counts: Array) -> None:
    """Move weights along the sum of the gradients of an epoch, by what its square root leaves of many."""
    for s in range(weights.shape[0]):
        if counts[s]:
            root = isqrt(counts[s] << 16)
            for i in range(INPUTS):
                step = ((slopes[s, i] // root) * _RATE + (np.int64(1) << (_RATE_SHIFT - 1))) >> _RATE_SHIFT
                weights[s, i] = max(np.int64(-_WEIGHT_LIMIT), min(np.int64(_WEIGHT_LIMIT), weights[s, i] + step))
