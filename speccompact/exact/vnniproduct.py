"""int8 x int8 -> int32 products for CPUs with AVX-512 VNNI: a packed weight, and compiler intrinsics that read it.

A weight lies in panels of 64 outputs; in each, one step of the loop reads 256 bytes in a row: four inputs of every
output. So a pass over few rows reads the weights once, from one end to the other, as fast as memory gives them, and a
pass over many keeps a panel in the cache of its core. A tile of 6 rows and 64 outputs keeps its sums in registers.

Rows go in as unsigned bytes, 128 above what they mean; sums start at -128 * sum(weights), which takes that back. Sums
wrap around at 2**32 on the way, so that only the result has to fit int32.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from llvmlite import ir
from numba.core import cgutils
from torch import Tensor

from speccompact.exact.fusedscalar import Array, Integer, jit
from speccompact.exact.vectors import LANES, VECTOR, intrinsic_of, load, multiply_add, splat, store

_GROUP: Final = 4
"""Inputs that one instruction takes of each output."""

_VECTORS: Final = 4
"""Vectors of outputs in a panel."""

_PANEL: Final = _VECTORS * LANES

_ROWS: Final = 6
"""Rows of a tile: their 24 sums, a panel's 4 vectors and a row's inputs fit the 32 registers."""

_OFFSET: Final = 128

_I32, _I64 = ir.IntType(32), ir.IntType(64)


def _make_tile(rows: int) -> Callable[..., Any]:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        inputs, stride, weight, groups, start, out, out_stride = args
        totals = [[cgutils.alloca_once(builder, VECTOR) for _ in range(_VECTORS)] for _ in range(rows)]  # type: ignore[no-untyped-call]
        for n in range(_VECTORS):
            begun = load(builder, builder.add(start, _I64(4 * LANES * n)), VECTOR)
            for row in range(rows):
                builder.store(begun, totals[row][n])
        with cgutils.for_range_slice(builder, _I64(0), groups, _I64(1), intp=_I64) as (group, _):
            base = builder.add(weight, builder.mul(group, _I64(_GROUP * _PANEL)))
            signed = [load(builder, builder.add(base, _I64(_GROUP * LANES * n)), VECTOR) for n in range(_VECTORS)]
            at = builder.add(inputs, builder.mul(group, _I64(_GROUP)))
            for row in range(rows):
                four = splat(builder, load(builder, builder.add(at, builder.mul(stride, _I64(row))), _I32))
                for n, vector in enumerate(signed):
                    total = totals[row][n]
                    builder.store(multiply_add(builder, builder.load(total), four, vector), total)
        for row in range(rows):
            place = builder.add(out, builder.mul(out_stride, _I64(row)))
            for n in range(_VECTORS):
                store(builder, builder.load(totals[row][n]), builder.add(place, _I64(4 * LANES * n)))
        return context.get_dummy_value()

    return intrinsic_of(f"product{rows}", 7, emit)


_product1, _product2, _product3, _product4, _product5, _product6 = (_make_tile(rows) for rows in range(1, _ROWS + 1))


class PackedProduct:
    """Products with one weight."""

    def __init__(self, weight: Tensor) -> None:
        """Lay a weight (out, inner) int8 out; outputs and inputs are filled up with zeros."""
        self._outputs, self._inner = weight.shape
        outputs, inner = -(-self._outputs // _PANEL) * _PANEL, -(-self._inner // _GROUP) * _GROUP
        full = np.zeros((outputs, inner), np.int8)
        full[: self._outputs, : self._inner] = weight.numpy()
        panels = full.reshape(outputs // _PANEL, _PANEL, inner // _GROUP, _GROUP).transpose(0, 2, 1, 3)
        self._weight = np.ascontiguousarray(panels).reshape(len(panels), -1)
        self._start: npt.NDArray[np.int32] = -_OFFSET * full.sum(1, dtype=np.int32)

    def __call__(self, x: Tensor) -> Tensor:
        """Product with (rows, inner) int8, as int32."""
        out = torch.empty(x.shape[0], len(self._start), dtype=torch.int32)
        _product(x.numpy(), self._weight, self._start, out.numpy())
        return out[:, : self._outputs].contiguous()


@jit
def _product(x: Array, weight: Array, start: Array, out: Array) -> None:
    """Args: x (rows, inner) int8; weight (panels, bytes) int8; start (outputs,) int32; out (rows, outputs) int32."""
    rows, stride = x.shape[0], weight.shape[1] // _PANEL
    inputs = np.full((rows, stride), np.uint8(_OFFSET), np.uint8)
    for r in range(rows):
        for i in range(x.shape[1]):
            inputs[r, i] = np.uint8(x[r, i]) ^ np.uint8(_OFFSET)
    for panel in range(weight.shape[0]):
        for first in range(0, rows, _ROWS):
            _tile(
                min(_ROWS, rows - first),
                inputs[first].ctypes.data,
                stride,
                weight[panel].ctypes.data,
                stride // _GROUP,
                start[panel * _PANEL :].ctypes.data,
                out[first, panel * _PANEL :].ctypes.data,
                4 * out.shape[1],
            )


@jit
def _tile(
    count: Integer, inputs: Integer, stride: Integer, weight: Integer, groups: Integer, start: Integer, out: Integer,
    out_stride: Integer,
) -> None:  # fmt: skip
    if count == _ROWS:
        _product6(inputs, stride, weight, groups, start, out, out_stride)
    elif count == 1:
        _product1(inputs, stride, weight, groups, start, out, out_stride)
    elif count == 2:
        _product2(inputs, stride, weight, groups, start, out, out_stride)
    elif count == 3:
        _product3(inputs, stride, weight, groups, start, out, out_stride)
    elif count == 4:
        _product4(inputs, stride, weight, groups, start, out, out_stride)
    else:
        _product5(inputs, stride, weight, groups, start, out, out_stride)
