"""What the machine could do at best: the model's int8 matrix products alone, with nothing between them.

A figure to hold measured speed against. It counts every weight matrix once for each token, in the product that the
exact transformer itself uses; attention, norms, distributions and entropy coding come on top of it in a real run.
"""

import time
from collections import Counter
from collections.abc import Iterable

import torch

from speccompact.exact.matmul import Product, prepare
from speccompact.modelstore.exactfile import read_exact_file
from speccompact.modelstore.store import find

ROWS = (1, 64, 1024)
"""Tokens in one pass: a lone slot decoding, a frame of slots decoding in lockstep, a window being compressed."""

_REPEATS = 3
_LARGEST = 127
"""Magnitude of int8 inputs: with weights of one, no sum exceeds this times the inner size."""

_WEIGHT_SUFFIX = ".weight"

Shape = tuple[int, int]


def roofline(model: str, device: str) -> dict[str, float]:
    """Return tokens/s that the matrix products alone would allow, by tokens in a pass.

    Args:
        model: name or digest of a model in the store.
        device: torch device name.

    Raises:
        ModelError: the model is not in the store, or damaged.
    """
    tensors = read_exact_file(find(model).path).tensors
    shapes = [
        (tensor.shape[0], tensor.shape[1])
        for name, tensor in tensors.items()
        if name.endswith(_WEIGHT_SUFFIX) and tensor.ndim == 2
    ]
    return {str(rows): rows / pass_seconds(shapes, rows, device) for rows in ROWS}


def pass_seconds(shapes: Iterable[Shape], rows: int, device: str) -> float:
    """Return the time of one product with each matrix; the best of a few tries.

    Args:
        shapes: (out, inner) of the int8 matrices.
        rows: tokens in the pass.
        device: torch device name.
    """
    return sum(count * _product_seconds(shape, rows, device) for shape, count in Counter(shapes).items())


def _product_seconds(shape: Shape, rows: int, device: str) -> float:
    out, inner = shape
    weight = torch.ones((out, inner), dtype=torch.int8, device=device)
    x = torch.ones((rows, inner), dtype=torch.int8, device=device)
    product = prepare(weight, _LARGEST * inner)
    product(x)
    return min(_timed(product, x) for _ in range(_REPEATS))


def _timed(product: Product, x: torch.Tensor) -> float:
    """Seconds of one product; reading one element waits for a device that works on its own."""
    began = time.perf_counter()
    product(x)[0, 0].item()
    return time.perf_counter() - began
