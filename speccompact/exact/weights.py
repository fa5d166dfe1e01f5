"""The integers of a converted model, checked and placed on a device.

The proof that nothing overflows rests on the bounds that the converter computed from the weights and stored; loading
refuses a model whose bounds do not hold (EXACT.md section 3).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from speccompact.errors import ModelDamagedError, UnsupportedError
from speccompact.exact import fixedpoint

EXACT_VERSION = 1

_ACC_LIMIT = 1 << 31
_MAX_HIDDEN = 8192
_MAX_HEAD_DIM = 256


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
        raise ModelDamagedError(f"the exact model file lacks or garbles {error}; convert the model again") from error


class _Loader:
    def __init__(self, metadata: Mapping[str, Any], tensors: Mapping[str, npt.NDArray[Any]], device: str) -> None:
        self.metadata, self.tensors, self.device = metadata, tensors, device

    def load(self) -> Weights:
        version = self.metadata["exact_version"]
        if version != EXACT_VERSION:
            raise UnsupportedError(f"exact version {version} is not known to this release; update speccompact")
        hidden, heads, kv_heads, head_dim, ffn, vocab, positions = (
            self.size(name) for name in ("hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab", "positions")
        )
        if hidden > _MAX_HIDDEN or head_dim > _MAX_HEAD_DIM or head_dim % 2 or heads % kv_heads:
            raise ModelDamagedError(f"the exact model file has an impossible shape: {hidden=}, {heads=}, {head_dim=}")
        layers = tuple(
            Layer(
                self.linear(f"layers.{i}.qkv", (heads + 2 * kv_heads) * head_dim, hidden, fixedpoint.INT8_MAX),
                self.linear(f"layers.{i}.o", hidden, heads * head_dim, fixedpoint.INT8_MAX),
                self.linear(f"layers.{i}.gate_up", 2 * ffn, hidden, fixedpoint.INT8_MAX),
                self.linear(f"layers.{i}.down", hidden, ffn, fixedpoint.PLANES_MAX),
            )
            for i in range(self.size("layers"))
        )
        return Weights(
            hidden, heads, kv_heads, head_dim, ffn, vocab, positions,
            embed_shift=self.number("embed_shift", 15),
            norm_gain=self.number("norm_gain", 1 << 20),
            norm_epsilon=self.number("norm_epsilon", 1 << 50),
            score_factor=self.number("score_factor", 1 << 40),
            embed=self.tensor("embed", (vocab, hidden), np.int16),
            exp2=self.tensor("exp2", (1 << fixedpoint.EXP2_INDEX_BITS,), np.int32),
            sigmoid=self.tensor("sigmoid", (1 << 15,), np.int32),
            rotary=self.tensor("rotary", (positions, head_dim), np.int32),
            layers=layers,
            head=self.linear("head", vocab, hidden, fixedpoint.INT8_MAX),
        )  # fmt: skip

    def size(self, name: str) -> int:
        return max(1, self.number(name, 1 << 24))

    def number(self, name: str, limit: int) -> int:
        value = self.metadata[name]
        if not isinstance(value, int) or not 0 <= value <= limit:
            raise ModelDamagedError(f"the exact model file says {name} = {value!r}; 0 to {limit} is possible")
        return value

    def tensor(self, name: str, shape: tuple[int, ...], dtype: type[np.integer[Any]]) -> Tensor:
        array = self.tensors[name]
        if array.shape != shape or array.dtype != dtype:
            raise ModelDamagedError(f"the exact model file holds {name} as {array.dtype}{array.shape}, not {shape}")
        return torch.from_numpy(array).to(self.device)

    def linear(self, name: str, outputs: int, inputs: int, input_max: int) -> Linear:
        entry = self.metadata["linears"][name]
        k1, k2, acc, inner = (entry[key] for key in ("k1", "k2", "acc", "inner"))
        bounds_hold = 0 <= k1 <= 40 and 1 <= k2 <= 62 and 0 <= inner < 1 << 31 and 0 <= acc <= inputs * 127 * input_max
        if not bounds_hold or (input_max == fixedpoint.INT8_MAX and acc >= _ACC_LIMIT):
            raise ModelDamagedError(f"{name}: the overflow bounds of the exact model file do not hold: {entry}")
        weight = self.tensor(f"{name}.weight", (outputs, inputs), np.int8)
        channel = self.tensor(f"{name}.channel", (outputs,), np.int32)
        return Linear(weight, channel, (k1, k2), acc // (input_max // fixedpoint.INT8_MAX))
