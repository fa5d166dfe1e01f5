"""What the sizes and weights of a model may be, so that no integer overflows: EXACT.md sections 3.2, 3.4 and 7.

Conversion refuses a checkpoint outside these bounds, loading a file outside them.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

MAX_POSITIONS = 1 << 13
MAX_INPUTS = (1 << 17) - 1
"""Inputs of a matrix: a sum of this many products of int8 numbers still fits int32."""

MAX_CHANNEL = 1 << 20
MAX_WEIGHT = 127
MAX_ROTARY = 1 << 15
MAX_FIRST_SHIFT = 40
MAX_SECOND_SHIFT = 62
INT32_END = 1 << 31
PLANES_END = 1 << 38
"""Where sums of products with two int8 planes must stay below."""

RANGES: Mapping[str, tuple[int, int]] = {
    "layers": (1, 1 << 24),
    "hidden": (1, 1 << 13),
    "heads": (1, MAX_INPUTS),
    "kv_heads": (1, MAX_INPUTS),
    "head_dim": (2, 1 << 8),
    "ffn": (1, MAX_INPUTS),
    "vocab": (1, 1 << 18),
    "positions": (1, MAX_POSITIONS),
    "embed_shift": (0, 15),
    "norm_gain": (0, (1 << 20) - 1),
    "norm_epsilon": (0, (1 << 43) - 1),
    "score_factor": (0, 1 << 33),
}
"""Smallest and largest value of each number in a model's metadata."""

_CHUNK = 1 << 20
"""Weights that are summed at once: they and their magnitudes stay in a core's own cache."""


def flaw(numbers: Mapping[str, object]) -> str | None:
    """Say which number of a model's metadata is impossible.

    Args:
        numbers: holds at least the names of RANGES.

    Returns:
        The first flaw in words, or None.

    Raises:
        KeyError: a number is missing.
    """
    sizes: dict[str, int] = {}
    for name, (low, high) in RANGES.items():
        value = numbers[name]
        if type(value) is not int or not low <= value <= high:  # a bool is no number
            return f"{name} is {value!r}; {low} to {high} is possible"
        sizes[name] = value
    if sizes["head_dim"] % 2:
        return f"head_dim is {sizes['head_dim']}; it must be even"
    if sizes["heads"] % sizes["kv_heads"]:
        return f"heads is {sizes['heads']}, no multiple of kv_heads, {sizes['kv_heads']}"
    if sizes["heads"] * sizes["head_dim"] > MAX_INPUTS:
        return f"heads * head_dim is {sizes['heads'] * sizes['head_dim']}; at most {MAX_INPUTS} is possible"
    return None


def magnitude_sums(weight: npt.NDArray[np.int8]) -> npt.NDArray[np.int64]:
    """Return the sum of |weight| of each output.

    Args:
        weight: (out, in) int8 in -127 .. 127, in <= MAX_INPUTS.

    Returns:
        (out,) int64.
    """
    sums = np.empty(len(weight), np.int64)
    step = max(1, _CHUNK // weight.shape[1])
    for start in range(0, len(weight), step):
        part = slice(start, start + step)
        sums[part] = np.abs(weight[part]).sum(axis=1, dtype=np.int32)
    return sums


def largest_products(weight: npt.NDArray[np.int8], channel: npt.NDArray[np.int32], input_max: int) -> tuple[int, int]:
    """Return what the products of a matrix can reach, in magnitude, for any input.

    Args:
        weight: (out, in) int8 in -127 .. 127, in <= MAX_INPUTS.
        channel: (out,) in 1 .. MAX_CHANNEL.
        input_max: largest magnitude of an input, INT8_MAX or PLANES_MAX of `fixedpoint`.

    Returns:
        `acc`, the largest sum of products; and the largest sum of products times the channel scale of its output.
    """
    sums = magnitude_sums(weight) * input_max
    return int(sums.max()), int((sums * channel).max())  # below 2**38 and 2**58


def inner_bound(scaled: int, first_shift: int) -> int:
    """Return `inner`, what the value before the second multiplication of `fixedpoint.requantise` can reach.

    Args:
        scaled: the second result of `largest_products`.
        first_shift: k1.
    """
    return (scaled >> first_shift) + 1
