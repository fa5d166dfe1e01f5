"""Scores to coding intervals, in plain torch integer operations (the reference).

The intervals of one row tile [0, 2**precision). First come those of the claims: symbols that something else than the
scores has given a frequency (`memory` does). With B the sum of those frequencies, w the exp2 weight of a token
(exact.fixedpoint), 0 for a claimed one, W(v) the sum of the weights of all tokens below v, T the sum of all and M what
the claims leave to share out:

    start(v) = B + v + floor(W(v) * M / T)          tokens, v in [0, V)
    start(V + i) = 2**precision - (E - i) * escape  escape symbols, i in [0, E)
    escape = 2**(precision - ESCAPE_BITS)
    M = 2**precision - V - E * escape - B

and an interval ends where the next one starts. So every token gets at least 1, the frequencies sum to 2**precision
without a correction step, and coding one symbol needs two sums over the row, which have no order. Where no weight is
left, T = 0, the last token gets all of M: that is the same as to give it the weight 1. A claimed symbol is always coded
by its claim; what it has among the tokens or escapes beside it is never used.

Invariants:
1. Every frequency is at least 1 and the sum is 2**precision. (enforced by construction, given that claims leave M >= 0)
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


@dataclass(frozen=True, slots=True)
class Claims:
    """Symbols with frequencies of their own, by row.

    Attributes:
        symbols: (rows, n) int64, distinct in a row; -1 where there are fewer.
        sizes: (rows, n) int64, their frequencies, at least 1; 0 where there are fewer.
    """

    symbols: Tensor
    sizes: Tensor

    @classmethod
    def none(cls, rows: int, device: torch.device) -> "Claims":
        """Return claims of nothing."""
        empty = torch.empty(rows, 0, dtype=torch.int64, device=device)
        return cls(empty, empty)


def weigh(scores: Tensor, symbols: Tensor, exp2: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Weights of some symbols, and what they are to be compared with.

    Args:
        scores: (rows, vocab) int32, log2 units with FRAC_SCORE fractional bits.
        symbols: (rows, n) int64; -1 for none.
        exp2: (4096,) int32, the exp2 table.

    Returns:
        the first token with the largest score, (rows,) int64; the sum of all weights, (rows,) int64; the weight of each
        symbol, (rows, n) int64, 0 for none. That of an escape is floor(sum / 2**ESCAPE_BITS).
    """
    weights, vocab = _weights(scores, exp2), scores.shape[1]
    total = weights.sum(-1)
    found = weights.gather(1, symbols.clamp(0, vocab - 1))
    found = torch.where(symbols >= vocab, (total >> ESCAPE_BITS)[:, None], torch.where(symbols < 0, 0, found))
    return (scores == scores.amax(-1, keepdim=True)).to(torch.int8).argmax(-1), total, found


def intervals(
    scores: Tensor, symbols: Tensor, tiling: Tiling, exp2: Tensor, claims: Claims | None = None
) -> tuple[Tensor, Tensor]:
    """Intervals of given symbols.

    Args:
        scores: (rows, vocab) int32, log2 units with FRAC_SCORE fractional bits.
        symbols: (rows,) int64.
        exp2: (4096,) int32, the exp2 table.
        claims: of each row; None for none.

    Returns:
        starts and frequencies, (rows,) int64.
    """
    claims = claims or Claims.none(len(symbols), scores.device)
    start, frequency = _unclaimed(_Shares.of(scores, claims, tiling, exp2), symbols, tiling)
    own = claims.symbols == symbols[:, None]
    before = claims.sizes.cumsum(-1) - claims.sizes
    start = torch.where(own.any(-1), torch.where(own, before, 0).sum(-1), start)
    return start, torch.where(own.any(-1), torch.where(own, claims.sizes, 0).sum(-1), frequency)


def find(
    scores: Tensor, points: Tensor, tiling: Tiling, exp2: Tensor, claims: Claims | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Symbols whose intervals hold given points: the inverse of `intervals`.

    A point in what a claimed symbol has beside its claim gives that symbol and what it has there, so that damaged data
    never leave the tiling.

    Args:
        scores, exp2, claims: as above.
        points: (rows,) int64, in [0, 2**precision).

    Returns:
        symbols, starts and frequencies, (rows,) int64.
    """
    claims = claims or Claims.none(len(points), scores.device)
    shares = _Shares.of(scores, claims, tiling, exp2)
    ends = shares.weights.cumsum(-1)
    borders = shares.base[:, None] + torch.arange(1, tiling.vocab + 1, device=scores.device) + shares.part(ends)
    token = torch.searchsorted(borders, points[:, None], right=True)[:, 0].clamp_max(tiling.vocab - 1)
    escaped = points >= tiling.escape_start
    symbols = torch.where(escaped, tiling.vocab + (points - tiling.escape_start) // tiling.escape, token)
    start, frequency = _unclaimed(shares, symbols, tiling)
    after = claims.sizes.cumsum(-1)
    own = (after - claims.sizes <= points[:, None]) & (points[:, None] < after)
    for found, claimed in ((symbols, claims.symbols), (start, after - claims.sizes), (frequency, claims.sizes)):
        found.copy_(torch.where(own.any(-1), torch.where(own, claimed, 0).sum(-1), found))
    return symbols, start, frequency


@dataclass(frozen=True, slots=True)
class _Shares:
    """What is shared out by weight in each row.

    Attributes:
        weights: (rows, vocab) int64, 0 for claimed tokens; their sum is positive.
        total: (rows,) int64, their sum.
        base: (rows,) int64, where the tokens begin.
        mass: (rows,) int64, what they share beside the 1 of each.
    """

    weights: Tensor
    total: Tensor
    base: Tensor
    mass: Tensor

    @classmethod
    def of(cls, scores: Tensor, claims: Claims, tiling: Tiling, exp2: Tensor) -> "_Shares":
        weights = _weights(scores, exp2)
        tokens = torch.where((claims.symbols >= 0) & (claims.symbols < tiling.vocab), claims.symbols, tiling.vocab)
        weights = torch.nn.functional.pad(weights, (0, 1)).scatter(1, tokens, 0)[:, :-1].contiguous()
        weights[:, -1] += weights.sum(-1) == 0
        base = claims.sizes.sum(-1)
        return cls(weights, weights.sum(-1), base, tiling.mass - base)

    def part(self, weights: Tensor) -> Tensor:
        """Return floor(weights * mass / total), (rows, n) or (rows,) int64; 0 <= weights <= total < 2**41."""
        more = (..., *(None,) * (weights.dim() - 1))
        total, mass = self.total[more].expand_as(weights), self.mass[more]
        high, low = mass >> SPLIT_BITS, mass & ((1 << SPLIT_BITS) - 1)
        first = floor_div(weights * high, total)
        rest = weights * high - first * total
        return (first << SPLIT_BITS) + floor_div((rest << SPLIT_BITS) + weights * low, total)


def _unclaimed(shares: _Shares, symbols: Tensor, tiling: Tiling) -> tuple[Tensor, Tensor]:
    """Intervals of symbols among the tokens and escapes, whether they are claimed or not."""
    token = symbols.clamp(0, tiling.vocab - 1)
    below = torch.arange(tiling.vocab, device=symbols.device) < token[:, None]
    lower = torch.where(below, shares.weights, 0).sum(-1)
    upper = lower + shares.weights.gather(1, token[:, None])[:, 0]
    start = shares.base + token + shares.part(lower)
    stop = shares.base + token + 1 + shares.part(upper)
    escaped = symbols >= tiling.vocab
    escape_start = tiling.escape_start + (symbols - tiling.vocab) * tiling.escape
    start = torch.where(escaped, escape_start, start)
    return start, torch.where(escaped, escape_start + tiling.escape, stop) - start


def _weights(scores: Tensor, exp2: Tensor) -> Tensor:
    wide = scores.to(torch.int64)
    return exp2_weights(wide.amax(-1, keepdim=True) - wide, exp2.to(torch.int64))
