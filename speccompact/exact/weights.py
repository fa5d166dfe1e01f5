"""The integers of a converted model, checked and placed on a device.

The proof that nothing overflows (EXACT.md section 7) rests on ranges of the numbers, the tables and the weights.
Nothing of that is believed: loading computes the bounds of every matrix anew, and refuses a model that breaks one.

Invariants:
1. Whatever `load_weights` returns keeps every range of EXACT.md section 3. (enforced, but that the rotary table is
   that of its base, which only the digest of the file can vouch for; its magnitudes are checked)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from speccompact.errors import ModelDamagedError, UnsupportedError
from speccompact.exact import bounds, fixedpoint, tables
from speccompact.params import EXACT_VERSION


@dataclass(frozen=True, slots=True)
class Linear:
    """One int8 matrix.

    Attributes:
        weight: (out, in) int8.
        channel: (out,) int32, scale of each output; at most 2**20.
        shifts: (k1, k2) of `fixedpoint.requantise`.
        bound: largest |sum of products| for one plane of int8 inputs.
    """

    weight: Tensor
    channel: Tensor
    shifts: tuple[int, int]
    bound: int


@dataclass(frozen=True, slots=True)
class Layer:
    """One transformer layer: qkv and gate_up read the normalised residual, o and down write to it."""

    qkv: Linear
    o: Linear
    gate_up: Linear
    down: Linear


@dataclass(frozen=True, slots=True)
class Weights:
    """A whole model on one device.

    Attributes:
        embed: (vocab, hidden) int16; residual = embed << embed_shift.
        exp2, sigmoid: int32 tables.
        rotary: (positions, head_dim) int32: cosines, then sines.
        score_factor: see `quantize`.
    """

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    positions: int
    embed_shift: int
    norm_gain: int
    norm_epsilon: int
    score_factor: int
    embed: Tensor
    exp2: Tensor
    sigmoid: Tensor
    rotary: Tensor
    layers: tuple[Layer, ...]
    head: Linear

    @property
    def cache_bytes_per_token(self) -> int:
        """Bytes that one token takes in an attention cache: int8 keys and values, an int32 scale for each."""
        return len(self.layers) * self.kv_heads * 2 * (self.head_dim + 4)


def load_weights(metadata: Mapping[str, Any], tensors: Mapping[str, npt.NDArray[Any]], device: str) -> Weights:
    """Check the contents of an exact model file and put them on a device.

    Args:
        metadata, tensors: as `quantize.convert` made them.
        device: a torch device name; on "cpu" the arrays are used in place.

    Raises:
        UnsupportedError: the exact version is unknown.
        ModelDamagedError: something is missing, has a wrong shape, or a bound does not hold.
    """
    try:
        return _Loader(metadata, tensors, device).load()
    except (KeyError, TypeError, AttributeError) as error:
        raise ModelDamagedError(f"the exact model file lacks or garbles {error}; {_REMEDY}") from error


class _Loader:
    def __init__(self, metadata: Mapping[str, Any], tensors: Mapping[str, npt.NDArray[Any]], device: str) -> None:
        self.metadata, self.tensors, self.device = metadata, tensors, device

    def load(self) -> Weights:
        version = self.metadata["exact_version"]
        if type(version) is not int or version != EXACT_VERSION:
            raise UnsupportedError(f"exact version {version!r} is not known to this release; update speccompact")
        if flaw := bounds.flaw(self.metadata):
            raise _damaged(flaw)
        numbers: dict[str, int] = {name: self.metadata[name] for name in bounds.RANGES}
        hidden, heads, kv_heads, head_dim, ffn = (
            numbers[name] for name in ("hidden", "heads", "kv_heads", "head_dim", "ffn")
        )
        layers = tuple(
            Layer(
                self.linear(f"layers.{i}.qkv", (heads + 2 * kv_heads) * head_dim, hidden),
                self.linear(f"layers.{i}.o", hidden, heads * head_dim),
                self.linear(f"layers.{i}.gate_up", 2 * ffn, hidden),
                self.linear(f"layers.{i}.down", hidden, ffn, fixedpoint.PLANES_MAX),
            )
            for i in range(numbers.pop("layers"))
        )
        return Weights(
            **numbers,
            embed=self.place(self.array("embed", (numbers["vocab"], hidden), np.int16)),
            exp2=self.table("exp2", (1 << fixedpoint.EXP2_INDEX_BITS,), tables.EXP2_DIGEST),
            sigmoid=self.table("sigmoid", (2 * tables.SIGMOID_HALF,), tables.SIGMOID_DIGEST),
            rotary=self.rotary((numbers["positions"], head_dim)),
            layers=layers,
            head=self.linear("head", numbers["vocab"], hidden),
        )

    def array(self, name: str, shape: tuple[int, ...], dtype: type[np.integer[Any]]) -> npt.NDArray[Any]:
        array = self.tensors[name]
        if array.shape != shape or array.dtype != dtype:
            raise _damaged(f"{name} is {array.dtype}{array.shape}, not {np.dtype(dtype)}{shape}")
        return array

    def place(self, array: npt.NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self.device)

    def table(self, name: str, shape: tuple[int, ...], digest: str) -> Tensor:
        table = self.array(name, shape, np.int32)
        if tables.digest(table) != digest:
            raise _damaged(f"the table {name} is not the one that the arithmetic is defined with")
        return self.place(table)

    def rotary(self, shape: tuple[int, ...]) -> Tensor:
        table = self.array("rotary", shape, np.int32)
        if not _within(table, -bounds.MAX_ROTARY, bounds.MAX_ROTARY):
            raise _damaged("the table rotary holds more than cosines and sines")
        return self.place(table)

    def linear(self, name: str, outputs: int, inputs: int, input_max: int = fixedpoint.INT8_MAX) -> Linear:
        entry = self.metadata["linears"][name]
        k1, k2, acc, inner = (entry[key] for key in ("k1", "k2", "acc", "inner"))
        if not all(type(value) is int for value in (k1, k2, acc, inner)):
            raise _damaged(f"{name}: {entry} must be integers")
        if not (0 <= k1 <= bounds.MAX_FIRST_SHIFT and 1 <= k2 <= bounds.MAX_SECOND_SHIFT):
            raise _damaged(f"{name}: the shifts {k1} and {k2} are impossible")
        weight = self.array(f"{name}.weight", (outputs, inputs), np.int8)
        channel = self.array(f"{name}.channel", (outputs,), np.int32)
        if int(weight.min()) < -bounds.MAX_WEIGHT or not _within(channel, 1, bounds.MAX_CHANNEL):
            raise _damaged(f"{name}: a weight or a channel scale is out of range")
        largest, scaled = bounds.largest_products(weight, channel, input_max)
        found = largest, bounds.inner_bound(scaled, k1)
        end = bounds.INT32_END if input_max == fixedpoint.INT8_MAX else bounds.PLANES_END
        if found != (acc, inner) or acc >= end or inner >= bounds.INT32_END:
            raise _damaged(f"{name}: the weights reach the bounds {found}; the file says {(acc, inner)}")
        planes = input_max // fixedpoint.INT8_MAX
        return Linear(self.place(weight), self.place(channel), (k1, k2), acc // planes)


_REMEDY = "pull or convert the model again"


def _damaged(flaw: str) -> ModelDamagedError:
    return ModelDamagedError(f"the exact model file breaks a rule: {flaw}; {_REMEDY}")


def _within(array: npt.NDArray[Any], low: int, high: int) -> bool:
    return low <= int(array.min()) and int(array.max()) <= high
