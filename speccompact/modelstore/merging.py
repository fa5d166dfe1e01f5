"""Merges an adapter into a checkpoint: the same float32 numbers on every machine. EXACT.md section 9.6."""

import hashlib

import numpy as np
import numpy.typing as npt

from speccompact.errors import ModelError
from speccompact.modelstore.adapterfile import Adapter, stored_name
from speccompact.modelstore.modelconfig import Checkpoint, LazyTensors

_BLOCK_VALUES = 1 << 14
"""Values of a weight that are worked on at a time: what they need stays in a processor's second cache."""

Floats = npt.NDArray[np.float32]


def fingerprint(checkpoint: Checkpoint) -> str:
    """Return the SHA-256 of a checkpoint's weights, hexadecimal: the same for every file format that holds them.

    What is hashed, for every canonical tensor in the order of `ModelConfig.shapes`: a line of ASCII with its name and
    its extents, all separated by single spaces, then its values as little-endian float32.
    """
    digest = hashlib.sha256()
    for name, shape in checkpoint.config.shapes().items():
        digest.update(f"{' '.join([name, *map(str, shape)])}\n".encode("ascii"))
        digest.update(np.ascontiguousarray(checkpoint.tensors[name], "<f4").reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def merge(checkpoint: Checkpoint, adapter: Adapter) -> Checkpoint:
    """Return the checkpoint with the adapter in its weights, each merged when it is asked for.

    Raises:
        ModelError: the adapter was made for another checkpoint, or a factor does not fit its weight. A merged weight
            that is not finite is an error when it is asked for.
    """
    config, shapes = checkpoint.config, checkpoint.config.shapes()
    for name, (a, b) in adapter.factors.items():
        if name not in shapes:
            raise ModelError(f"{adapter.source}: tensor {name!r} has no place in a model of {config.layers} layers")
        rows, columns = shapes[name]
        for letter, factor, wanted in (("A", a, (adapter.rank, columns)), ("B", b, (rows, adapter.rank))):
            if factor.shape != wanted:
                raise ModelError(
                    f"{adapter.source}: tensor {stored_name(name, letter)!r} has the shape {factor.shape}; this model "
                    f"needs {wanted}"
                )
    if adapter.base:
        found = fingerprint(checkpoint)
        if found != adapter.base:
            raise ModelError(
                f"{adapter.source}: the adapter was made for another model (weights {adapter.base[:16]}) than this one "
                f"(weights {found[:16]})"
            )

    def load(name: str) -> Floats:
        weight = checkpoint.tensors[name]
        pair = adapter.factors.get(name)
        return weight if pair is None else _merged(weight, *pair, adapter.scale)

    return Checkpoint(config, LazyTensors(config, shapes, load, adapter.source), checkpoint.tokenizer)


def _merged(weight: Floats, a: Floats, b: Floats, scale: float) -> Floats:
    """Return float32(weight + scale * sum over r of b[:, r] a[r]), the sum in ascending order, in float64.

    Products of two float32 numbers are exact in float64; every addition and the product with the scale are rounded by
    themselves. There is no matrix product of a library here: those add in orders of their own.

    Args:
        weight: (out, in).
        a: (rank, in).
        b: (out, rank).
        scale: what the sum is multiplied by.
    """
    rows, columns = weight.shape
    height = max(1, _BLOCK_VALUES // columns)
    right = a.astype(np.float64)
    result = np.empty_like(weight)
    # numbers beyond float32 become infinite, which `LazyTensors` refuses
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, rows, height):
            piece = slice(start, start + height)
            left = b[piece].astype(np.float64)
            total = left[:, :1] * right[0]
            term = np.empty_like(total)
            for r in range(1, len(right)):
                np.multiply(left[:, r : r + 1], right[r], out=term)
                np.add(total, term, out=total)
            np.multiply(total, scale, out=total)
            np.add(total, weight[piece], out=total)
            result[piece] = total
    return result
