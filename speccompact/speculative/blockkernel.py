"""The network of the block drafter in int8, as one compiled kernel: `blocknet.BlockNet` in a fraction of its time.

Weights have a scale for each output, and rows get one each time they meet a weight. What is drafted can differ from
the float network where two tokens are nearly as good as each other.
"""

import math
from typing import Final

import numpy as np
from torch import Tensor

from speccompact.exact import vectors
from speccompact.exact.fusedscalar import Array, Integer, jit
from speccompact.speculative.blockfile import BlockWeights
from speccompact.speculative.blocknet import NORM_EPS
from speccompact.speculative.blocktiles import GROUP, LANES, tile1, tile8

_tile1, _tile8 = tile1, tile8
_LANES: Final = LANES
_MOST: Final = 8  # rows of a tile
_EPS: Final = NORM_EPS
_OFFSET: Final = 128
_INT8_MAX: Final = 127.0
_LOG2_E: Final = math.log2(math.e)

Packed = tuple[Array, Array, Array]
"""Weight (tiles, groups, LANES, GROUP) int8, what the offset of the inputs adds (padded outputs,) int32, and scale
(outputs,) float32."""


def available() -> bool:
    """Whether this CPU has the instructions."""
    return vectors.available()


def _full(outputs: int) -> int:
    """Outputs of whole tiles."""
    return -(-outputs // LANES) * LANES


def _pack(weight: Tensor) -> Packed:
    """Round a weight (outputs, inputs) and lay it out in tiles; outputs and inputs are filled up with zeros."""
    values = weight.float().numpy()
    outputs, inputs = _full(values.shape[0]), -(-values.shape[1] // GROUP) * GROUP
    full = np.zeros((outputs, inputs), np.float32)
    full[: values.shape[0], : values.shape[1]] = values
    scale = np.maximum(np.abs(full).max(1), 1e-12) / np.float32(_INT8_MAX)
    rounded = np.rint(full / scale[:, None]).astype(np.int8)
    tiles = rounded.reshape(outputs // LANES, LANES, inputs // GROUP, GROUP).transpose(0, 2, 1, 3)
    shift = _OFFSET * rounded.sum(1, dtype=np.int32)
    return np.ascontiguousarray(tiles), shift, scale[: len(values)]


class BlockKernel:
    """A block drafter that is ready to run on this CPU."""

    def __init__(self, weights: BlockWeights) -> None:
        """Lay the weights out."""
        shape, tensors = weights.shape, weights.tensors
        listed = tensors["listed"].numpy().astype(np.int64)
        places = np.full(shape.vocabulary + 1, shape.listed, np.int64)
        places[listed] = np.arange(shape.listed)
        correction = np.zeros((shape.listed + 1, shape.rank), np.float32)
        if shape.markov:
            correction = (tensors["before"].float() @ tensors["turn"].float().T).numpy()
        head, bias = _pack(tensors["head"]), np.full(_full(shape.listed), -np.inf, np.float32)
        bias[: shape.listed] = tensors["head.bias"].float().numpy()
        head = head[0], head[1], np.pad(head[2], (0, len(bias) - shape.listed))
        layers = [(_pack(tensors[f"layers.{i}.up"]), _pack(tensors[f"layers.{i}.down"])) for i in range(shape.layers)]
        self._body = (tensors["tokens"].numpy(), tensors["tokens.scale"].numpy(), _pack(tensors["input"]))
        self._layers = layers
        self._tail = (_pack(tensors["output"]), head, bias, listed, places, correction)
        self._trust = [
            tensors[f"trust.{name}"].float().numpy() for name in ("input", "bias", "output", "scale", "shift")
        ]
        self._block = shape.block

    def draft(self, windows: Array, limits: Array, floor: float) -> tuple[Array, Array, Array]:
        """Draft as `BlockNet.draft` does, with arrays in place of tensors."""
        x = _read(windows, *self._body)
        for up, down in self._layers:
            _layer(x, up, down)
        rows = _last(x, self._tail[0])
        symbols = np.zeros((len(windows), self._block), np.int64)
        chances = np.zeros((len(windows), self._block), np.float32)
        lengths = np.zeros(len(windows), np.int64)
        _, head, bias, listed, places, correction = self._tail
        trust_input, trust_bias, trust_output, scale, shift = self._trust
        _draft(
            rows, places[windows[:, -1]], limits, floor, head, bias, listed, correction, trust_input, trust_bias,
            trust_output, scale, shift, symbols, chances, lengths,
        )  # fmt: skip
        return symbols, chances, lengths


@jit
def _quantise(row: Array, out: Array) -> Integer:
    """Round a row to int8, 128 up; returns its scale."""
    largest = np.float32(1e-12)
    for i in range(row.shape[0]):
        largest = max(largest, abs(row[i]))
    inverse = np.float32(_INT8_MAX) / largest
    for i in range(row.shape[0]):
        out[i] = np.uint8(np.int32(np.floor(row[i] * inverse + np.float32(_OFFSET + 0.5))))
    return largest / np.float32(_INT8_MAX)


@jit
def _products(inputs: Array, weight: Array, tile: Integer, first: Integer, count: Integer, out: Array) -> None:
    """Sums of one tile for `count` rows from `first` on: 8, or fewer one by one; out (8, LANES) int32 is written."""
    stride, groups = inputs.shape[1], weight.shape[1]
    tiled = weight[tile].ctypes.data
    if count == _MOST:
        _tile8(inputs[first].ctypes.data, stride, tiled, groups, out.ctypes.data)
    else:
        for r in range(count):
            _tile1(inputs[first + r].ctypes.data, stride, tiled, groups, out[r].ctypes.data)


@jit
def _linear(x: Array, packed: Packed, out: Array) -> None:
    """out (rows, outputs) = x (rows, inputs) times a weight, rounded to int8."""
    weight, shift, scale = packed
    rows = x.shape[0]
    inputs = np.full((rows, weight.shape[1] * weight.shape[3]), np.uint8(_OFFSET), np.uint8)
    own = np.empty(rows, np.float32)
    for r in range(rows):
        own[r] = _quantise(x[r], inputs[r])
    sums = np.empty((_MOST, _LANES), np.int32)
    for tile in range(weight.shape[0]):
        base = tile * _LANES
        for first in range(0, rows, _MOST):
            count = min(_MOST, rows - first)
            _products(inputs, weight, tile, first, count, sums)
            for r in range(count):
                for lane in range(min(_LANES, scale.shape[0] - base)):
                    total = np.float32(sums[r, lane] - shift[base + lane])
                    out[first + r, base + lane] = total * scale[base + lane] * own[first + r]


@jit
def _normalise(row: Array, out: Array) -> None:
    total = np.float32(0)
    for i in range(row.shape[0]):
        total += row[i] * row[i]
    inverse = np.float32(1) / np.sqrt(total / np.float32(row.shape[0]) + np.float32(_EPS))
    for i in range(row.shape[0]):
        out[i] = row[i] * inverse


@jit
def _read(windows: Array, tokens: Array, scales: Array, packed: Packed) -> Array:
    """Rows of the first layer: (slots, width) float32."""
    width = tokens.shape[1]
    x = np.empty((windows.shape[0], windows.shape[1] * width), np.float32)
    for s in range(windows.shape[0]):
        for i in range(windows.shape[1]):
            token, scale = windows[s, i], scales[windows[s, i]]
            for c in range(width):
                x[s, i * width + c] = np.float32(tokens[token, c]) * scale
    out = np.empty((windows.shape[0], packed[2].shape[0]), np.float32)
    _linear(x, packed, out)
    return out


@jit
def _sigmoid(x: Integer) -> Integer:
    return np.float32(1) / (np.float32(1) + np.exp(-x))


@jit
def _layer(x: Array, up: Packed, down: Packed) -> None:
    """One gated layer, in place."""
    rows, width = x.shape
    normed = np.empty((rows, width), np.float32)
    for r in range(rows):
        _normalise(x[r], normed[r])
    wide = np.empty((rows, up[2].shape[0]), np.float32)
    _linear(normed, up, wide)
    inner = wide.shape[1] // 2
    inside = np.empty((rows, inner), np.float32)
    for r in range(rows):
        for i in range(inner):
            inside[r, i] = wide[r, i] * _sigmoid(wide[r, i]) * wide[r, inner + i]
    added = np.empty((rows, width), np.float32)
    _linear(inside, down, added)
    for r in range(rows):
        for i in range(width):
            x[r, i] += added[r, i]


@jit
def _last(x: Array, packed: Packed) -> Array:
    normed = np.empty(x.shape, np.float32)
    for r in range(x.shape[0]):
        _normalise(x[r], normed[r])
    out = np.empty((x.shape[0], packed[2].shape[0]), np.float32)
    _linear(normed, packed, out)
    return out


@jit
def _best(rows: Array, packed: Packed, bias: Array, best: Array, at: Array) -> None:
    """The best output of each row: its score and its number are written."""
    weight, shift, scale = packed
    count_rows = rows.shape[0]
    inputs = np.full((count_rows, weight.shape[1] * weight.shape[3]), np.uint8(_OFFSET), np.uint8)
    own = np.empty(count_rows, np.float32)
    for r in range(count_rows):
        own[r] = _quantise(rows[r], inputs[r])
    top = np.full((count_rows, _LANES), np.float32(-np.inf), np.float32)
    where = np.zeros((count_rows, _LANES), np.int32)
    sums = np.empty((_MOST, _LANES), np.int32)
    for tile in range(weight.shape[0]):
        base = tile * _LANES
        for first in range(0, count_rows, _MOST):
            count = min(_MOST, count_rows - first)
            _products(inputs, weight, tile, first, count, sums)
            for r in range(count):
                for lane in range(_LANES):
                    total = np.float32(sums[r, lane] - shift[base + lane])
                    score = total * scale[base + lane] * own[first + r] + bias[base + lane]
                    higher = score > top[first + r, lane]
                    top[first + r, lane] = score if higher else top[first + r, lane]
                    where[first + r, lane] = tile if higher else where[first + r, lane]
    for r in range(count_rows):
        first_best = np.argmax(top[r])
        best[r], at[r] = top[r, first_best], np.int64(where[r, first_best]) * _LANES + first_best


@jit
def _draft(
    rows: Array, before: Array, limits: Array, floor: Integer, head: Packed, bias: Array, listed: Array,
    correction: Array, trust_input: Array, trust_bias: Array, trust_output: Array, scale: Array, shift: Array,
    symbols: Array, chances: Array, lengths: Array,
) -> None:  # fmt: skip
    slots, block, rank = rows.shape[0], symbols.shape[1], correction.shape[1]
    survival = np.ones(slots, np.float32)
    seen, going = np.empty((slots, rank), np.float32), np.empty(slots, np.int64)
    best, at = np.empty(slots, np.float32), np.empty(slots, np.int64)
    for position in range(block):
        count = 0
        for s in range(slots):
            if lengths[s] == position and limits[s] > position and survival[s] >= floor:
                for c in range(rank):
                    seen[count, c] = rows[s, position * rank + c] + correction[before[s], c]
                going[count] = s
                count += 1
        if count == 0:
            break
        _best(seen[:count], head, bias, best, at)
        for n in range(count):
            s, logit = going[n], np.float32(0)
            for j in range(trust_output.shape[0]):
                total = trust_bias[position, j] + trust_input[j, rank] * best[n]
                for c in range(rank):
                    total += trust_input[j, c] * seen[n, c]
                logit += trust_output[j] * total * _sigmoid(total)
            chance = _sigmoid(logit * scale[position] + shift[position])
            symbols[s, position], chances[s, position] = listed[at[n]], chance
            survival[s] *= chance
            before[s] = at[n]
            lengths[s] += 1
