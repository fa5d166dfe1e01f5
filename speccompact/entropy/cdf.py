"""Scores to coding intervals, in plain torch integer operations (the reference).

The intervals of one row tile [0, 2**precision). With w the exp2 weight of a token (exact.fixedpoint), W(v) the sum of
the weights of all tokens below v, T the sum of all and M the mass that is shared out:

    start(v) = v + floor(W(v) * M / T)              tokens, v in [0, V)
    start(V + i) = 2**precision - (E - i) * escape  escape symbols, i in [0, E)
    M = 2**precision - V - E * escape, escape = 2**(precision - ESCAPE_BITS)

and an interval ends where the next one starts. So every token gets at least 1, the frequencies sum to 2**precision
without a correction step, and coding one symbol needs two sums over the row, which have no order.

Invariants:
1. Every frequency is at least 1 and the sum is 2**precision. (enforced by construction)
2. V <= 2**18 and precision <= MAX_PRECISION, so that no product leaves int64. (enforced by `Tiling`)
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from speccompact.errors import ArgumentError
from speccompact.exact.fixedpoint import exp2_weights, floor_div
from speccompact.params import ESCAPE_BITS

MIN_PRECISION = 20
MAX_PRECISION = 28
SPLIT_BITS = 14
"""The quotient W * M / T is formed in two steps, because W * M may need 69 bits."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """How [0, 2**precision) is divided.

    Attributes:
        vocab: V, number of tokens.
        escapes: E, number of escape symbols.
        precision: log2 of the total frequency.
    """

    vocab: int
    escapes: int
    precision: int

    def __post_init__(self) -> None:
        if not MIN_PRECISION <= self.precision <= MAX_PRECISION:
            raise ArgumentError(f"precision is {self.precision}; choose {MIN_PRECISION} to {MAX_PRECISION}")
        if not 1 <= self.vocab <= 1 << 18 or self.mass < self.vocab:
            raise ArgumentError(f"a vocabulary of {self.vocab} tokens does not fit a precision of {self.precision}")

    @property
    def escape(self) -> int:
        """Frequency of an escape symbol."""
        return 1 << (self.precision - ESCAPE_BITS)

    @property
    def escape_start(self) -> int:
        """Where the first escape symbol starts: the end of the tokens."""
        return (1 << self.precision) - self.escapes * self.escape

    @property
    def mass(self) -> int:
        """M: what is shared out by weight."""
        return self.escape_start - self.vocab


def intervals(scores: Tensor, symbols: Tensor, tiling: Tiling, exp2: Tensor) -> tuple[Tensor, Tensor]:
    """Intervals of given symbols.

    Args:
        scores: (rows, vocab) int32, log2 units with FRAC_SCORE fractional bits.
        symbols: (rows,) int64.
        exp2: (4096,) int32, the exp2 table.

    Returns:
        starts and frequencies, (rows,) int64.
    """
    weights = _weights(scores, exp2)
    total = weights.sum(-1)
    token = symbols.clamp_max(tiling.vocab - 1)
    below = torch.arange(tiling.vocab, device=scores.device) < token[:, None]
    lower = torch.where(below, weights, 0).sum(-1)
    upper = lower + weights.gather(1, token[:, None])[:, 0]
    start = token + _share(lower, total, tiling)
    stop = token + 1 + _share(upper, total, tiling)
    escaped = symbols >= tiling.vocab
    escape_start = tiling.escape_start + (symbols - tiling.vocab) * tiling.escape
    start = torch.where(escaped, escape_start, start)
    return start, torch.where(escaped, escape_start + tiling.escape, stop) - start


def find(scores: Tensor, points: Tensor, tiling: Tiling, exp2: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Symbols whose intervals hold given points: the inverse of `intervals`.

    Args:
        scores, exp2: as above.
        points: (rows,) int64, in [0, 2**precision).

    Returns:
        symbols, starts and frequencies, (rows,) int64.
    """
    weights = _weights(scores, exp2)
    ends = weights.cumsum(-1)
    borders = torch.arange(1, tiling.vocab + 1, device=scores.device) + _share(ends, ends[:, -1:], tiling)
    token = torch.searchsorted(borders, points[:, None], right=True)[:, 0]
    escaped = points >= tiling.escape_start
    symbols = torch.where(escaped, tiling.vocab + (points - tiling.escape_start) // tiling.escape, token)
    start, frequency = intervals(scores, symbols, tiling, exp2)
    return symbols, start, frequency


def _weights(scores: Tensor, exp2: Tensor) -> Tensor:
    wide = scores.to(torch.int64)
    return exp2_weights(wide.amax(-1, keepdim=True) - wide, exp2.to(torch.int64))


def _share(part: Tensor, total: Tensor, tiling: Tiling) -> Tensor:
    """floor(part * mass / total), 0 <= part <= total < 2**41."""
    high, low = tiling.mass >> SPLIT_BITS, tiling.mass & ((1 << SPLIT_BITS) - 1)
    first = floor_div(part * high, total.expand_as(part))
    rest = part * high - first * total
    return (first << SPLIT_BITS) + floor_div((rest << SPLIT_BITS) + part * low, total.expand_as(part))
