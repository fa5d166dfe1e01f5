"""int8 x int8 -> int32 matrix products, exact on every device.

`torch._int_mm` uses the int8 units of CPU and GPU. On a CPU it lays the weights out anew in every call, so a model
that stays in memory is packed once: for a kernel of our own where the CPU has VNNI (`vnniproduct`), which reads weights
as fast as memory gives them; else, and where there are matrix units, for oneDNN's linear operator. That returns
float32, which carries the integers exactly as long as sums stay below 2**24 - the converter's bounds say whether they
do. It takes signed input, or unsigned input with a zero point; on some CPUs only one of the two is vectorised, and the
other a thousand times slower, so both are timed once on a small product.

Some older CPUs have only 8-bit multiply-add instructions that saturate at 16 bits. Both ways are therefore tried once
on extreme values; where neither is exact, float32 carries the integers through an ordinary product: of at most 1,024
products of magnitude <= 127**2 every partial sum is an integer below 2**24, in any order of summation.
"""

import functools
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor

from speccompact.exact import vectors
from speccompact.exact.vnniproduct import PackedProduct

CARRIER_LIMIT = 1 << 24
"""Integers up to this magnitude are exact in float32."""

_CARRIER_INNER = 1024
_ZERO_POINT = 128
_WIDEST = 1536
"""Inner size of the trials: with a zero point, sums on the way then pass 2**24."""
_CUDA_MIN_ROWS = 32
_CUDA_MULTIPLE = 8
"""`_int_mm` on CUDA wants more than 16 rows, and an inner and an outer size that are multiples of 8."""

Product = Callable[[Tensor], Tensor]
"""(rows, inner) int8 -> (rows, out) integers, as int32 or carried by float32."""


def prepare(weight: Tensor, bound: int) -> Product:
    """Make the fastest exact product with a weight that is used many times.

    Args:
        weight: (out, inner) int8.
        bound: largest |sum of products| that any int8 input of magnitude <= 127 can give.
    """
    if weight.device.type == "cpu":
        if vectors.available() and not vectors.matrix_units():
            return PackedProduct(weight)
        if bound < CARRIER_LIMIT and (packing := _packing()):
            return packing(weight)
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
        return _padded_for_cuda(x, weight)
    if _native_is_exact():
        return _native(x, weight)
    return carrier_matmul(x, weight)


def carrier_matmul(x: Tensor, weight: Tensor) -> Tensor:
    """The same product with float32 as the carrier of integers."""
    total = torch.zeros(x.shape[0], weight.shape[0], dtype=torch.int32, device=x.device)
    for start in range(0, x.shape[1], _CARRIER_INNER):
        part = slice(start, start + _CARRIER_INNER)
        total += (x[:, part].to(torch.float32) @ weight[:, part].to(torch.float32).t()).to(torch.int32)
    return total


def _native(x: Tensor, weight: Tensor) -> Tensor:
    """`_int_mm`, kept from single rows and columns.

    The stride of an axis of one entry means nothing, but on CPUs `_int_mm` may take it for an impossible layout, and
    then returns memory that it has not written. Such an axis is widened with zeros.
    """
    (rows, inner), outputs = x.shape, weight.shape[0]
    if 1 in (rows, inner, outputs):
        wide = (0, int(inner == 1), 0, int(rows == 1))
        x = torch.nn.functional.pad(x, wide)
        weight = torch.nn.functional.pad(weight, (0, int(inner == 1), 0, int(outputs == 1)))
        return torch._int_mm(x, weight.t())[:rows, :outputs]
    return torch._int_mm(x, weight.t())


def _padded_for_cuda(x: Tensor, weight: Tensor) -> Tensor:
    """`_int_mm` in the sizes and the layout that CUDA's int8 units take; zeros fill up and do not reach the result."""
    (rows, inner), outputs = x.shape, weight.shape[0]
    more_rows = max(_CUDA_MIN_ROWS, _round_up(rows)) - rows
    more_inner, more_outputs = _round_up(inner) - inner, _round_up(outputs) - outputs
    if more_rows or more_inner:
        x = torch.nn.functional.pad(x, (0, more_inner, 0, more_rows))
    if more_inner or more_outputs:
        weight = torch.nn.functional.pad(weight, (0, more_inner, 0, more_outputs))
    return torch._int_mm(x, weight.contiguous().t())[:rows, :outputs]


def _round_up(size: int) -> int:
    return -(-size // _CUDA_MULTIPLE) * _CUDA_MULTIPLE


class _Packed:
    """A weight in oneDNN's own layout."""

    def __init__(self, weight: Tensor) -> None:
        self._packed = torch.ops.onednn.qlinear_prepack(weight, [1, weight.shape[1]])
        self._ones = torch.ones(weight.shape[0], dtype=torch.float32)
        self._zeros = torch.zeros(weight.shape[0], dtype=torch.int64)

    def __call__(self, x: Tensor) -> Tensor:
        """Product with (rows, inner) int8, as float32."""
        return self._product(x, 0)

    def _product(self, x: Tensor, zero_point: int) -> Tensor:
        product: Tensor = torch.ops.onednn.qlinear_pointwise(
            x, 1, zero_point, self._packed, self._ones, self._zeros, None, 1, 0, torch.float32, "none", [], ""
        )
        return product


class _PackedShifted(_Packed):
    """The same for CPUs that multiply unsigned by signed: the input goes in with 128 added, as the zero point says."""

    def __call__(self, x: Tensor) -> Tensor:
        """Product with (rows, inner) int8, as float32."""
        return self._product(x.view(torch.uint8).bitwise_xor(_ZERO_POINT), _ZERO_POINT)


@functools.cache
def _packing() -> type[_Packed] | None:
    """Return the fastest packing that is exact on this CPU."""
    ways = sorted((_Packed, _PackedShifted), key=_nanoseconds)
    return next((way for way in ways if _keeps_extremes(lambda x, weight: way(weight)(x))), None)  # noqa: B023


def _nanoseconds(way: type[_Packed]) -> int:
    """Return the time of a small product, or more than any takes where there is none."""
    x, weight = torch.ones(8, 576, dtype=torch.int8), torch.ones(64, 576, dtype=torch.int8)
    times = []
    try:
        product = way(weight)
        for _ in range(5):
            began = time.perf_counter_ns()
            product(x)
            times.append(time.perf_counter_ns() - began)
    except (RuntimeError, AttributeError):
        return sys.maxsize
    return min(times)


@functools.cache
def _native_is_exact() -> bool:
    return _keeps_extremes(_native)


def _keeps_extremes(product: Callable[[Tensor, Tensor], Tensor]) -> bool:
    """Whether a product is exact for the largest int8 values on this CPU, in every class of row counts."""
    try:
        return all(_is_exact(product, rows) for rows in (1, 3, 16, 33, 64))
    except (RuntimeError, AttributeError):
        return False


def _is_exact(product: Callable[[Tensor, Tensor], Tensor], rows: int) -> bool:
    x = torch.full((rows, _WIDEST), 127, dtype=torch.int8)
    x[:, ::3] = -127
    weight = torch.full((64, _WIDEST), 127, dtype=torch.int8)
    weight[1::2] = -127
    weight[:, 0] = 1  # odd sums: what is rounded on the way, with or without a zero point, shows
    wanted = (x[:1].to(torch.int64) @ weight.t().to(torch.int64)).expand(rows, -1)
    return torch.equal(product(x, weight).to(torch.int64), wanted)
