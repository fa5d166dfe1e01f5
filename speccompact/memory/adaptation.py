"""Adapting the target's output layer to the text at hand: what surprised changes the scores of the symbols involved.

With u the int8 input of the head at a position, p the distribution that was coded with, and y the symbol that came,
the gradient of the code length with respect to row v of the head is (p(v) - [v = y]) u. Each symbol that matters gets a
row of its own that follows this gradient, and what u gives with that row is added to the symbol's score. This is the
output layer's share of dynamic evaluation (Krause et al. 2018), with steps as in Adagrad (Duchi et al. 2011), one rate
for a row. Rows change at the borders of epochs only, by sums over all positions of the epoch, which have no order.

EXACT.md section 11.7 has every rounding.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from speccompact.exact.fixedpoint import INT8_MAX, SCORE_LIMIT, exp2_weights, floor_div, shift_round
from speccompact.exact.fusedscalar import Array, Integer, isqrt, jit, largest_of, reciprocal_of
from speccompact.exact.matmul import Product, prepare

ROWS: Final = 8192
"""Symbols that can have a row, at most; the first ones that matter."""

GRADIENT_BITS: Final = 10
"""Fractional bits of probabilities in gradients."""

LEAST: Final = 1 << (GRADIENT_BITS - 8)
"""A symbol that is less likely than 1/256 has no part in the gradient of a position unless it came."""

ENTRIES: Final = 1 + (1 << 8)
"""Symbols in the gradient of one position, at most."""

NOTEWORTHY: Final = 1 << (GRADIENT_BITS - 4)
"""A symbol gets a row when it comes, or when it does not come though its probability is at least 1/16."""

BIAS_INPUT: Final = 64
"""One more input of every row, always the same: what it learns does not depend on the position."""

ENERGY_START: Final = 2 << GRADIENT_BITS
ENERGY_LIMIT: Final = 1 << 33
CROWD: Final = 4 << GRADIENT_BITS
"""Squares of gradients in one epoch beyond which a step shrinks: the sum of many equal gradients would go too far."""

_BLOCK: Final = 64
"""Tokens that are passed over at once where none of them is likely."""

_STEP: Final = 5 << 10
_ROW_LIMIT: Final = 1 << 30
_DELTA_SHIFT: Final = 22

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Applied:
    """The rows as they are during an epoch, on the device, in ascending order of tokens: neighbours in the scores.

    Attributes:
        product: of inputs with the rows, without what belongs to the BIAS_INPUT.
        tokens: (count,) int64.
        bias: (count,) int64, what the BIAS_INPUT adds to a product.
        largest: (count,) int64.
    """

    product: Product
    tokens: Tensor
    bias: Tensor
    largest: Tensor


class HeadAdaptation:
    """The rows of a group.

    Invariants:
    1. tokens[:count] are distinct, and index[tokens[i]] == i; index is -1 elsewhere. (enforced)
    2. weight[i] and largest[i] are `fixedpoint.quantise(total[i], INT8_MAX)`, with what belongs to the BIAS_INPUT last.
       (enforced)
    """

    def __init__(self, vocab: int, hidden: int, device: torch.device) -> None:
        """Begin without any row.

        Args:
            vocab: tokens of the vocabulary; escape symbols have no row.
            hidden: width of the head's input.
            device: where scores and inputs will be.
        """
        self._device = device
        self._applied: _Applied | None = None
        self.count = 0
        self.index = np.full(vocab, -1, np.int32)
        self.tokens = np.zeros(ROWS, np.int64)
        self.total = np.zeros((0, hidden + 1), np.int32)
        self.weight = np.zeros((0, hidden + 1), np.int8)
        self.largest = np.ones(0, np.int64)
        self.energy = np.zeros(0, np.int64)

    def apply(self, scores: Tensor, hidden: Tensor) -> None:
        """Add to the scores what the rows say.

        Args:
            scores: (rows, vocab) int32, changed in place.
            hidden: (rows, hidden) int8, what the head was given.
        """
        applied = self._applied
        if applied is None:
            return
        products = applied.product(hidden)
        if scores.device.type == "cpu":
            _apply(
                scores.numpy(), products.numpy(), applied.tokens.numpy(), applied.bias.numpy(), applied.largest.numpy()
            )
        else:
            _apply_on_device(scores, products, applied)

    def learn(self, hidden: npt.NDArray[np.int8], entries: npt.NDArray[np.int32], sizes: Integers) -> None:
        """Follow the gradients of an epoch.

        Args:
            hidden: (positions, hidden) int8, slot after slot, each in the order of its positions.
            entries: (positions, ENTRIES, 2) int32: symbols, and their gradients with GRADIENT_BITS fractional bits.
            sizes: (positions,) int64, entries of each position.
        """
        new = self.count + int(_number(self.index, self.tokens, self.count, entries, sizes))
        self._grow(new)
        touched, place = _touched(self.index, new, entries, sizes)
        gradient = np.zeros((len(touched), hidden.shape[1] + 1), np.int64)
        squares = np.zeros(len(touched), np.int64)
        _sum(self.index, place, hidden, entries, sizes, gradient, squares)
        _step(touched, gradient, squares, self.energy, self.total, self.weight, self.largest)
        if len(touched):
            self._applied = self._prepare()

    def _prepare(self) -> "_Applied":
        order = np.argsort(self.tokens[: self.count])
        weight = self.weight[order]
        tokens, bias, largest, inputs = (
            torch.from_numpy(part).to(self._device)
            for part in (
                self.tokens[order],
                BIAS_INPUT * weight[:, -1].astype(np.int64),
                self.largest[order],
                np.ascontiguousarray(weight[:, :-1]),
            )
        )
        return _Applied(prepare(inputs, inputs.shape[1] * INT8_MAX**2), tokens, bias, largest)

    def _grow(self, count: int) -> None:
        """Make room; memory is taken as rows come, twice as much each time."""
        self.count = count
        more = min(ROWS, 2 * count) - len(self.energy)
        if count > len(self.energy):
            width = self.total.shape[1]
            self.total = np.concatenate([self.total, np.zeros((more, width), np.int32)])
            self.weight = np.concatenate([self.weight, np.zeros((more, width), np.int8)])
            self.largest = np.concatenate([self.largest, np.ones(more, np.int64)])
            self.energy = np.concatenate([self.energy, np.zeros(more, np.int64)])


def _apply_on_device(scores: Tensor, products: Tensor, applied: _Applied) -> None:
    delta = shift_round((products.to(torch.int64) + applied.bias) * applied.largest, _DELTA_SHIFT)
    changed = (scores[:, applied.tokens].to(torch.int64) + delta).clamp(-SCORE_LIMIT, SCORE_LIMIT)
    scores[:, applied.tokens] = changed.to(torch.int32)


@jit
def _apply(scores: Array, products: Array, tokens: Array, bias: Array, largest: Array) -> None:
    half = np.int64(1) << (_DELTA_SHIFT - 1)
    for r in range(products.shape[0]):
        for i in range(products.shape[1]):
            delta = ((np.int64(products[r, i]) + bias[i]) * largest[i] + half) >> _DELTA_SHIFT
            v = tokens[i]
            scores[r, v] = max(-SCORE_LIMIT, min(SCORE_LIMIT, np.int64(scores[r, v]) + delta))


def gradients(scores: Tensor, symbols: Integers, total: Tensor, exp2: Tensor) -> tuple[npt.NDArray[np.int32], Integers]:
    """Return the gradients of some positions, as `HeadAdaptation.learn` takes them.

    Args:
        scores: (rows, vocab) int32, with the adaptation.
        symbols: (rows,) int64, what came.
        total: (rows,) int64, sum of the exp2 weights of all tokens.
        exp2: (4096,) int32.

    Returns:
        entries, (rows, ENTRIES, 2) int32, and how many of them count, (rows,) int64.
    """
    entries, sizes = np.zeros((len(symbols), ENTRIES, 2), np.int32), np.zeros(len(symbols), np.int64)
    if scores.device.type == "cpu":
        _gradients(scores.numpy(), symbols, total.numpy(), exp2.numpy(), entries, sizes)
    else:
        _gradients_on_device(scores, symbols, total, exp2, entries, sizes)
    return entries, sizes


def _gradients_on_device(
    scores: Tensor, symbols: Integers, total: Tensor, exp2: Tensor, entries: npt.NDArray[np.int32], sizes: Integers
) -> None:
    """Choose the entries where the scores are, and bring these alone to the CPU."""
    wide = scores.to(torch.int64)
    weights = exp2_weights(wide.amax(-1, keepdim=True) - wide, exp2.to(torch.int64))
    came = torch.arange(scores.shape[1], device=scores.device) == torch.from_numpy(symbols).to(scores.device)[:, None]
    enough = (total * LEAST + (1 << GRADIENT_BITS) - 1) >> GRADIENT_BITS
    rows, tokens = ((weights >= enough[:, None]) | came).nonzero(as_tuple=True)
    slopes = (came[rows, tokens].to(torch.int64) << GRADIENT_BITS) - floor_div(
        weights[rows, tokens] << GRADIENT_BITS, total[rows]
    )
    where = rows.cpu().numpy()
    sizes[:] = np.bincount(where, minlength=len(sizes))
    place = np.arange(len(where)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    entries[where, place, 0] = tokens.cpu().numpy()
    entries[where, place, 1] = slopes.cpu().numpy()


@jit
def _gradients(scores: Array, symbols: Array, total: Array, exp2: Array, entries: Array, sizes: Array) -> None:
    for r in range(scores.shape[0]):
        enough = (total[r] * LEAST + (1 << GRADIENT_BITS) - 1) >> GRADIENT_BITS
        top = largest_of(scores[r])
        least = top - _farthest(enough, exp2)
        size = 0
        for start in range(0, scores.shape[1], _BLOCK):
            block = scores[r, start : start + _BLOCK]
            if largest_of(block) < least and not start <= symbols[r] < start + _BLOCK:
                continue
            for i in range(block.shape[0]):
                came = start + i == symbols[r]
                if block[i] >= least or came:
                    distance = np.int64(top) - block[i]
                    weight = np.int64(exp2[(distance >> 4) & 4095] >> min(distance >> 16, 31))
                    slope = -((weight << GRADIENT_BITS) // total[r])
                    entries[r, size, 0] = start + i
                    entries[r, size, 1] = slope + (1 << GRADIENT_BITS) if came else slope
                    size += 1
        sizes[r] = size


@jit
def _farthest(enough: Integer, exp2: Array) -> Integer:
    """Return the largest distance from the best score at which a weight is at least `enough`; -1 if there is none.

    Weights never grow with the distance, and change at multiples of 16 only.
    """
    low, high = np.int64(-1), np.int64(32 << 12)  # at `low` enough, at `high` not
    while high - low > 1:
        middle = (low + high) >> 1
        if exp2[middle & 4095] >> min(middle >> 12, 31) >= enough:
            low = middle
        else:
            high = middle
    return (low << 4) + 15 if low >= 0 else np.int64(-1)


@jit
def _number(index: Array, tokens: Array, count: Integer, entries: Array, sizes: Array) -> Integer:
    """Give rows to symbols that deserve one, in the order of the entries; return how many."""
    new = 0
    for r in range(sizes.shape[0]):
        for i in range(sizes[r]):
            v, slope = entries[r, i, 0], entries[r, i, 1]
            if index[v] < 0 and (slope > 0 or slope <= -NOTEWORTHY) and count + new < ROWS:
                index[v] = count + new
                tokens[count + new] = v
                new += 1
    return new


@jit
def _touched(index: Array, count: Integer, entries: Array, sizes: Array) -> tuple[Array, Array]:
    """Rows that the entries are about, and by row its place among them."""
    place = np.full(count, -1, np.int64)
    touched = np.empty(count, np.int64)
    found = 0
    for r in range(sizes.shape[0]):
        for i in range(sizes[r]):
            row = index[entries[r, i, 0]]
            if row >= 0 and place[row] < 0:
                place[row] = found
                touched[found] = row
                found += 1
    return touched[:found], place


@jit
def _sum(
    index: Array, place: Array, hidden: Array, entries: Array, sizes: Array, gradient: Array, squares: Array
) -> None:
    width = hidden.shape[1]
    for r in range(sizes.shape[0]):
        for i in range(sizes[r]):
            row = index[entries[r, i, 0]]
            if row >= 0:
                at, slope = place[row], entries[r, i, 1]
                squares[at] += np.int64(slope) * slope
                for h in range(width):
                    gradient[at, h] += np.int32(slope) * np.int32(hidden[r, h])
                gradient[at, width] += np.int64(slope) * BIAS_INPUT


@jit
def _step(
    touched: Array, gradient: Array, squares: Array, energy: Array, total: Array, weight: Array, largest: Array
) -> None:
    for at in range(touched.shape[0]):
        row = touched[at]
        here = squares[at] >> GRADIENT_BITS
        energy[row] = min(ENERGY_LIMIT, energy[row] + here)
        root = isqrt(((energy[row] + ENERGY_START) * (CROWD + here)) >> 2)
        a = np.int64(1)
        for h in range(gradient.shape[1]):
            moved = total[row, h] + gradient[at, h] * _STEP // root
            total[row, h] = max(-_ROW_LIMIT, min(_ROW_LIMIT, moved))
            a = max(a, abs(np.int64(total[row, h])))
        factor, exponent = reciprocal_of(a, INT8_MAX)
        half = np.int64(1) << (exponent - 1)
        for h in range(gradient.shape[1]):
            weight[row, h] = (np.int64(total[row, h]) * factor + half) >> exponent
        largest[row] = a
