"""int8 x int8 -> int32 matrix products, exact on every device.

`torch._int_mm` uses the int8 units of CPU and GPU. On a CPU it lays the weights out anew in every call, so a model
that stays in memory is packed once, for oneDNN's linear operator; that returns float32, which carries the integers
exactly as long as sums stay below 2**24 - the converter's bounds say whether they do.

Some older CPUs have only 8-bit multiply-add instructions that saturate at 16 bits. Both ways are therefore tried once
on extreme values; where neither is exact, float32 carries the integers through an ordinary product: of at most 1,024
products of magnitude <= 127**2 every partial sum is an integer below 2**24, in any order of summation.
"""

import functools
from collections.abc import Callable

import torch
from torch import Tensor

CARRIER_LIMIT = 1 << 24
"""Integers up to this magnitude are exact in float32."""

_CARRIER_INNER = 1024
_CUDA_MIN_ROWS = 32
"""`_int_mm` on CUDA wants more than 16 rows and multiples of 8."""

Product = Callable[[Tensor], Tensor]
"""(rows, inner) int8 -> (rows, out) integers, as int32 or carried by float32."""


def prepare(weight: Tensor, bound: int) -> Product:
    """Make the fastest exact product with a weight that is used many times.

    Args:
        weight: (out, inner) int8.
        bound: largest |sum of products| that any int8 input of magnitude <= 127 can give.
    """
    if weight.device.type == "cpu" and bound < CARRIER_LIMIT and _packed_is_exact():
        return _Packed(weight)
    return functools.partial(int_matmul, weight=weight)


def int_matmul(x: Tensor, weight: Tensor) -> Tensor:
    """x @ weight.T in integers.

    Args:
        x: (rows, inner) int8.
        weight: (out, inner) int8; inner <= 131071, so that sums fit int32.

    Returns:
        (rows, out) int32.
    """
    if x.device.type == "cuda":
        rows = x.shape[0]
        padded = max(_CUDA_MIN_ROWS, -(-rows // 8) * 8)
        if padded != rows:
            x = torch.nn.functional.pad(x, (0, 0, 0, padded - rows))
        return torch._int_mm(x, weight.t())[:rows]
    if _native_is_exact():
        return torch._int_mm(x, weight.t())
    return carrier_matmul(x, weight)


def carrier_matmul(x: Tensor, weight: Tensor) -> Tensor:
    """The same product with float32 as the carrier of integers."""
    total = torch.zeros(x.shape[0], weight.shape[0], dtype=torch.int32, device=x.device)
    for start in range(0, x.shape[1], _CARRIER_INNER):
        part = slice(start, start + _CARRIER_INNER)
        total += (x[:, part].to(torch.float32) @ weight[:, part].to(torch.float32).t()).to(torch.int32)
    return total


class _Packed:
    """A weight in oneDNN's own layout."""

    def __init__(self, weight: Tensor) -> None:
        self._packed = torch.ops.onednn.qlinear_prepack(weight, [1, weight.shape[1]])
        self._ones = torch.ones(weight.shape[0], dtype=torch.float32)
        self._zeros = torch.zeros(weight.shape[0], dtype=torch.int64)

    def __call__(self, x: Tensor) -> Tensor:
        """Product with (rows, inner) int8, as float32."""
        product: Tensor = torch.ops.onednn.qlinear_pointwise(
            x, 1, 0, self._packed, self._ones, self._zeros, None, 1, 0, torch.float32, "none", [], ""
        )
        return product


@functools.cache
def _packed_is_exact() -> bool:
    return _keeps_extremes(lambda x, weight: _Packed(weight)(x))


@functools.cache
def _native_is_exact() -> bool:
    return _keeps_extremes(lambda x, weight: torch._int_mm(x, weight.t()))


def _keeps_extremes(product: Callable[[Tensor, Tensor], Tensor]) -> bool:
    """Whether a product is exact for the largest int8 values on this CPU, in every class of shapes."""
    try:
        for rows in (1, 3, 16, 33, 64):
            x = torch.full((rows, 576), 127, dtype=torch.int8)
            weight = torch.full((64, 576), 127, dtype=torch.int8)
            weight[1::2] = -127
            x[:, ::3] = -127
            wanted = x.to(torch.int64) @ weight.to(torch.int64).t()
            if not torch.equal(product(x, weight).to(torch.int64), wanted):
                return False
    except (RuntimeError, AttributeError):
        return False
    return True
