"""How the numbers of an adapter are stored: float types, or int8 with one scale for each inner index.

int8 halves a file at no cost in bits: what is rounded away is a hundredth of a change that is itself small.
"""

from typing import Literal

import numpy as np
import numpy.typing as npt

from speccompact.errors import ModelError
from speccompact.modelstore.safetensors import SafetensorsFile

Dtype = Literal["F32", "F16", "BF16", "I8"]

SCALE_SUFFIX = ".scale"
"""Of the tensor beside an int8 tensor: (rank,) float32, what the numbers of each inner index are multiplied by."""

_INT8_MAX = 127

Floats = npt.NDArray[np.float32]
Stored = list[tuple[str, str, tuple[int, ...], bytes]]


def to_stored(name: str, values: Floats, axis: int, dtype: Dtype, what: str) -> Stored:
    """Return a factor as tensors of a file: name, type, shape and little-endian bytes. Inverse of `from_stored`.

    Args:
        name: of the tensor.
        values: two axes.
        axis: the one that counts the inner indices.
        dtype: type of the stored numbers, each rounded to the nearest (ties to even).
        what: names it in messages.

    Raises:
        ModelError: a number is too large for the type.
    """
    if dtype != "I8":
        return [(name, dtype, values.shape, _to_floats(values, dtype, what))]
    scale = np.abs(values).max(axis=1 - axis) / np.float32(_INT8_MAX)
    scale = np.where(scale > 0, scale, np.float32(1)).astype(np.float32)
    whole = np.rint(values / np.expand_dims(scale, 1 - axis)).clip(-_INT8_MAX, _INT8_MAX).astype(np.int8)
    return [
        (name, "I8", whole.shape, whole.tobytes()),
        (name + SCALE_SUFFIX, "F32", scale.shape, scale.astype("<f4").tobytes()),
    ]


def from_stored(file: SafetensorsFile, name: str, axis: int) -> Floats:
    """Return a factor of a file as float32; an int8 number times its scale is one float32 product.

    Raises:
        ModelError: the type is not one of `Dtype`, or the scales are missing or do not fit.
    """
    if file.tensors[name].dtype != "I8":
        return file.floats(name)
    whole, scale = file.view(name), file.floats(name + SCALE_SUFFIX)
    if whole.ndim != 2 or scale.shape != (whole.shape[axis],):
        raise ModelError(f"{file.path}: tensor {name + SCALE_SUFFIX!r} has the shape {scale.shape}, which does not fit")
    with np.errstate(over="ignore", invalid="ignore"):  # `Adapter` refuses what is not finite
        scaled: Floats = whole.astype(np.float32) * np.expand_dims(scale, 1 - axis)
    return scaled


def _to_floats(values: Floats, dtype: Dtype, what: str) -> bytes:
    if dtype == "F32":
        return values.astype("<f4").tobytes()
    if dtype == "F16":
        with np.errstate(over="ignore"):
            halves = values.astype("<f2")
        if not np.isfinite(halves).all():
            raise ModelError(f"{what} holds values that are too large for F16")
        return halves.tobytes()
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    # half of what is cut off, less one where the bit that stays last is 0: ties go to even
    brains = ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype("<u2")
    if ((brains & 0x7F80) == 0x7F80).any():
        raise ModelError(f"{what} holds values that are too large for BF16")
    return brains.tobytes()
