"""EXACT.md section 11.7: output rows, by which the scores of tokens are adapted."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isqrt
from operator import mul

from tests.reference.integers import INT8_MAX, SCORE_LIMIT, clamp, quantise, shift_round

ROWS = 8192
BIAS_INPUT = 64
TRUE = 1 << 10
"""Slopes have 10 fractional bits."""


@dataclass(frozen=True)
class Reading:
    """What the output layer learns from one position: its input, the tokens' weights, and the symbol that came."""

    q8: Sequence[int]
    weights: Sequence[int]
    symbol: int

    def slopes(self) -> dict[int, int]:
        """Return the entries of the position: slopes by tokens, in ascending order."""
        total = sum(self.weights)
        least = (4 * total + 1023) >> 10
        return {
            v: (TRUE if v == self.symbol else 0) - (w << 10) // total
            for v, w in enumerate(self.weights)
            if w >= least or v == self.symbol
        }


@dataclass
class OutputRow:
    """What a token has learned."""

    total: list[int]
    energy: int = 0
    quantised: tuple[list[int], int] = field(init=False)

    def __post_init__(self) -> None:
        self.quantised = quantise(self.total, INT8_MAX)

    def learn(self, square: int, gradient: Sequence[int]) -> None:
        here = square >> 10
        self.energy = min(1 << 33, self.energy + here)
        root = isqrt(((self.energy + 2048) * (4096 + here)) >> 2)
        self.total = [
            clamp(entry + change * 5120 // root, 1 << 30) for entry, change in zip(self.total, gradient, strict=True)
        ]
        self.quantised = quantise(self.total, INT8_MAX)


class OutputRows:
    """The rows of all tokens that have one."""

    def __init__(self) -> None:
        self._rows: dict[int, OutputRow] = {}

    def adapted(self, scores: Sequence[int], q8: Sequence[int]) -> list[int]:
        """Return score'."""
        inputs = [*q8, BIAS_INPUT]
        adapted = list(scores)
        for v, row in self._rows.items():
            d8, a = row.quantised
            adapted[v] = clamp(scores[v] + shift_round(sum(map(mul, d8, inputs)) * a, 22), SCORE_LIMIT)
        return adapted

    def learn(self, readings: Sequence[Reading]) -> None:
        """Learn from the positions of an epoch, in their order."""
        pulls: dict[int, list[tuple[int, list[int]]]] = {}
        for reading in readings:
            inputs = [*reading.q8, BIAS_INPUT]
            for v, slope in reading.slopes().items():
                if v not in self._rows and len(self._rows) < ROWS and (slope > 0 or slope <= -64):
                    self._rows[v] = OutputRow([0] * len(inputs))
                pulls.setdefault(v, []).append((slope, inputs))
        for v, entries in pulls.items():
            if v in self._rows:
                square = sum(slope * slope for slope, _ in entries)
                columns = zip(*([slope * entry for entry in inputs] for slope, inputs in entries), strict=True)
                self._rows[v].learn(square, [sum(column) for column in columns])
