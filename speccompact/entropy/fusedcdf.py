"""The fused CPU form of `cdf`: same functions, same bits, without a row-sized intermediate."""

import numpy as np
import torch
from torch import Tensor

from speccompact.entropy.cdf import SPLIT_BITS, Claims, Tiling
from speccompact.exact.fusedscalar import Array, Integer, jit, largest_of
from speccompact.params import ESCAPE_BITS

_BLOCK = 256
"""Tokens whose weights are summed together: finding a symbol looks at block sums, then into one block."""


def weigh(scores: Tensor, symbols: Tensor, exp2: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """See `cdf.weigh`."""
    best, total = (torch.empty(scores.shape[0], dtype=torch.int64) for _ in range(2))
    found = torch.empty_like(symbols)
    _weigh_all(scores.numpy(), symbols.numpy(), exp2.numpy(), best.numpy(), total.numpy(), found.numpy())
    return best, total, found


def intervals(
    scores: Tensor, symbols: Tensor, tiling: Tiling, exp2: Tensor, claims: Claims | None = None
) -> tuple[Tensor, Tensor]:
    """See `cdf.intervals`."""
    claims = claims or Claims.none(len(symbols), scores.device)
    starts, frequencies = torch.empty_like(symbols), torch.empty_like(symbols)
    _intervals(
        scores.numpy(), symbols.numpy(), claims.symbols.numpy(), claims.sizes.numpy(),
        tiling.mass, tiling.escape_start, tiling.escape, exp2.numpy(), starts.numpy(), frequencies.numpy(),
    )  # fmt: skip
    return starts, frequencies


def find(
    scores: Tensor, points: Tensor, tiling: Tiling, exp2: Tensor, claims: Claims | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """See `cdf.find`."""
    claims = claims or Claims.none(len(points), scores.device)
    symbols, starts, frequencies = (torch.empty_like(points) for _ in range(3))
    _find(
        scores.numpy(), points.numpy(), claims.symbols.numpy(), claims.sizes.numpy(),
        tiling.mass, tiling.escape_start, tiling.escape, exp2.numpy(),
        symbols.numpy(), starts.numpy(), frequencies.numpy(),
    )  # fmt: skip
    return symbols, starts, frequencies


@jit
def _share(part: Integer, total: Integer, mass: Integer) -> Integer:
    high, low = mass >> SPLIT_BITS, mass & ((1 << SPLIT_BITS) - 1)
    first = (part * high) // total
    rest = part * high - first * total
    return (first << SPLIT_BITS) + ((rest << SPLIT_BITS) + part * low) // total


@jit
def _weigh(scores: Array, top: Integer, exp2: Array) -> Integer:
    """Sum of the weights of some tokens of a row; differences of scores stay below 2**31."""
    total = np.int64(0)
    for v in range(scores.shape[0]):
        distance = np.int32(top - scores[v])
        total += np.int32(exp2[(distance >> 4) & 4095] >> min(distance >> 16, 31))
    return total


@jit
def _weigh_all(scores: Array, symbols: Array, exp2: Array, best: Array, total: Array, found: Array) -> None:
    vocab = scores.shape[1]
    for r in range(scores.shape[0]):
        top = largest_of(scores[r])
        total[r] = _weigh(scores[r], top, exp2)
        v = np.int64(0)
        while scores[r, v] != top:
            v += 1
        best[r] = v
        for i in range(symbols.shape[1]):
            symbol = symbols[r, i]
            if symbol >= vocab:
                found[r, i] = total[r] >> ESCAPE_BITS
            else:
                found[r, i] = 0 if symbol < 0 else _weigh(scores[r, symbol : symbol + 1], top, exp2)


@jit
def _unclaimed(scores: Array, claims: Array, start: Integer, stop: Integer, top: Integer, exp2: Array) -> Integer:
    """Sum of the weights of tokens [start, stop) without the claimed ones."""
    total = _weigh(scores[start:stop], top, exp2)
    for i in range(claims.shape[0]):
        if start <= claims[i] < stop:
            total -= _weigh(scores[claims[i] : claims[i] + 1], top, exp2)
    return total


@jit
def _claim(claims: Array, symbol: Integer) -> Integer:
    """Place of a symbol among the claims of a row; -1 where it is not claimed."""
    for i in range(claims.shape[0]):
        if claims[i] == symbol:
            return i
    return -1


@jit
def _intervals(
    scores: Array, symbols: Array, claims: Array, sizes: Array, mass: Integer, escape_start: Integer, escape: Integer,
    exp2: Array, starts: Array, frequencies: Array,
) -> None:  # fmt: skip
    vocab = scores.shape[1]
    for r in range(scores.shape[0]):
        symbol = symbols[r]
        claim = _claim(claims[r], symbol)
        if claim >= 0:
            starts[r] = sizes[r, :claim].sum()
            frequencies[r] = sizes[r, claim]
            continue
        if symbol >= vocab:
            starts[r] = escape_start + (symbol - vocab) * escape
            frequencies[r] = escape
            continue
        top, base = largest_of(scores[r]), sizes[r].sum()
        lower = _unclaimed(scores[r], claims[r], 0, symbol, top, exp2)
        upper = lower + _unclaimed(scores[r], claims[r], symbol, symbol + 1, top, exp2)
        total = upper + _unclaimed(scores[r], claims[r], symbol + 1, vocab, top, exp2)
        if total == 0:
            total = np.int64(1)
            upper = np.int64(1 if symbol == vocab - 1 else 0)
        starts[r] = base + symbol + _share(lower, total, mass - base)
        frequencies[r] = base + symbol + 1 + _share(upper, total, mass - base) - starts[r]


@jit
def _find(
    scores: Array, points: Array, claims: Array, sizes: Array, mass: Integer, escape_start: Integer, escape: Integer,
    exp2: Array, symbols: Array, starts: Array, frequencies: Array,
) -> None:  # fmt: skip
    vocab = scores.shape[1]
    blocks = (vocab + _BLOCK - 1) // _BLOCK
    sums = np.empty(blocks, np.int64)
    for r in range(scores.shape[0]):
        point, base = points[r], sizes[r].sum()
        if point < base:
            claim, start = 0, np.int64(0)
            while start + sizes[r, claim] <= point:
                start += sizes[r, claim]
                claim += 1
            symbols[r], starts[r], frequencies[r] = claims[r, claim], start, sizes[r, claim]
            continue
        if point >= escape_start:
            rank = (point - escape_start) // escape
            symbols[r], starts[r], frequencies[r] = vocab + rank, escape_start + rank * escape, escape
            continue
        top = largest_of(scores[r])
        total = np.int64(0)
        for b in range(blocks):
            sums[b] = _unclaimed(scores[r], claims[r], b * _BLOCK, min((b + 1) * _BLOCK, vocab), top, exp2)
            total += sums[b]
        if total == 0:
            total, sums[blocks - 1] = np.int64(1), np.int64(1)
        block, lower, left = np.int64(0), np.int64(0), mass - base
        while block + 1 < blocks and base + (block + 1) * _BLOCK + _share(lower + sums[block], total, left) <= point:
            lower += sums[block]
            block += 1
        v = block * _BLOCK
        stop = min(v + _BLOCK, vocab) - 1
        upper = lower
        while v < stop:
            upper = lower + _unclaimed(scores[r], claims[r], v, v + 1, top, exp2)
            if base + v + 1 + _share(upper, total, left) > point:
                break
            v += 1
            lower = upper
        if v == stop:  # what is left of the block is this token's
            upper = _before(sums, block + 1)
        symbols[r], starts[r] = v, base + v + _share(lower, total, left)
        frequencies[r] = base + v + 1 + _share(upper, total, left) - starts[r]


@jit
def _before(sums: Array, block: Integer) -> Integer:
    """Sum of the weights of all blocks before one."""
    total = np.int64(0)
    for b in range(block):
        total += sums[b]
    return total
