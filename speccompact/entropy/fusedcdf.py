"""The fused CPU form of `cdf`: same functions, same bits, without a row-sized intermediate."""

import numpy as np
import torch
from torch import Tensor

from speccompact.entropy.cdf import SPLIT_BITS, Tiling
from speccompact.exact.fusedscalar import Array, Integer, jit

_BLOCK = 256
"""Tokens whose weights are summed together: finding a symbol looks at block sums, then into one block."""


def intervals(scores: Tensor, symbols: Tensor, tiling: Tiling, exp2: Tensor) -> tuple[Tensor, Tensor]:
    """See `cdf.intervals`."""
    starts, frequencies = torch.empty_like(symbols), torch.empty_like(symbols)
    _intervals(
        scores.numpy(), symbols.numpy(), tiling.mass, tiling.escape_start, tiling.escape, exp2.numpy(),
        starts.numpy(), frequencies.numpy(),
    )  # fmt: skip
    return starts, frequencies


def find(scores: Tensor, points: Tensor, tiling: Tiling, exp2: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """See `cdf.find`."""
    symbols, starts, frequencies = (torch.empty_like(points) for _ in range(3))
    _find(
        scores.numpy(), points.numpy(), tiling.mass, tiling.escape_start, tiling.escape, exp2.numpy(),
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
def _top(scores: Array) -> Integer:
    top = scores[0]
    for v in range(scores.shape[0]):
        top = max(top, scores[v])
    return top


@jit
def _weigh(scores: Array, top: Integer, exp2: Array) -> Integer:
    """Sum of the weights of some tokens of a row; differences of scores stay below 2**31."""
    total = np.int64(0)
    for v in range(scores.shape[0]):
        distance = np.int32(top - scores[v])
        total += np.int32(exp2[(distance >> 4) & 4095] >> min(distance >> 16, 31))
    return total


@jit
def _intervals(
    scores: Array, symbols: Array, mass: Integer, escape_start: Integer, escape: Integer, exp2: Array,
    starts: Array, frequencies: Array,
) -> None:  # fmt: skip
    vocab = scores.shape[1]
    for r in range(scores.shape[0]):
        symbol = symbols[r]
        if symbol >= vocab:
            starts[r] = escape_start + (symbol - vocab) * escape
            frequencies[r] = escape
            continue
        top = _top(scores[r])
        lower = _weigh(scores[r, 0:symbol], top, exp2)
        upper = lower + _weigh(scores[r, symbol : symbol + 1], top, exp2)
        total = upper + _weigh(scores[r, symbol + 1 : vocab], top, exp2)
        starts[r] = symbol + _share(lower, total, mass)
        frequencies[r] = symbol + 1 + _share(upper, total, mass) - starts[r]


@jit
def _find(
    scores: Array, points: Array, mass: Integer, escape_start: Integer, escape: Integer, exp2: Array,
    symbols: Array, starts: Array, frequencies: Array,
) -> None:  # fmt: skip
    vocab = scores.shape[1]
    blocks = (vocab + _BLOCK - 1) // _BLOCK
    for r in range(scores.shape[0]):
        point = points[r]
        if point >= escape_start:
            rank = (point - escape_start) // escape
            symbols[r], starts[r], frequencies[r] = vocab + rank, escape_start + rank * escape, escape
            continue
        top = _top(scores[r])
        sums = np.empty(blocks, np.int64)
        total = np.int64(0)
        for b in range(blocks):
            sums[b] = _weigh(scores[r, b * _BLOCK : min((b + 1) * _BLOCK, vocab)], top, exp2)
            total += sums[b]
        block, lower = np.int64(0), np.int64(0)
        while block + 1 < blocks and (block + 1) * _BLOCK + _share(lower + sums[block], total, mass) <= point:
            lower += sums[block]
            block += 1
        v = block * _BLOCK
        upper = lower + _weigh(scores[r, v : v + 1], top, exp2)
        while v + 1 + _share(upper, total, mass) <= point:
            v += 1
            lower = upper
            upper += _weigh(scores[r, v : v + 1], top, exp2)
        symbols[r], starts[r] = v, v + _share(lower, total, mass)
        frequencies[r] = v + 1 + _share(upper, total, mass) - starts[r]
