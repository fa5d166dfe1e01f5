"""The integer rounding of the exact target, simulated in floats: what training needs to know of int8.

Gradients pass a rounding as if it were not there (the straight-through estimator; Bengio, Léonard and Courville, 2013).
Integers up to 127 are exact in bfloat16, so products are taken of the integers themselves and scaled afterwards.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from speccompact.exact.fixedpoint import INT8_MAX

_TINY = 1e-9


def to_int8(x: Tensor) -> tuple[Tensor, Tensor]:
    """Scale rows so that the largest magnitude is 127, and round; the float form of `fixedpoint.quantise`.

    Args:
        x: (..., n) float.

    Returns:
        (..., n) whole numbers as bfloat16, and the scales (..., 1) as float32.
    """
    scale = x.abs().amax(-1, keepdim=True).float().clamp_min(_TINY) / INT8_MAX
    return torch.round(x / scale).to(torch.bfloat16), scale


class _Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        whole, scale = to_int8(x)
        return (whole * scale).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


class _RoundedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        (x_whole, x_scale), (w_whole, w_scale) = to_int8(x), to_int8(weight)
        ctx.save_for_backward(x_whole, x_scale, w_whole, w_scale)
        ctx.dtypes = x.dtype, weight.dtype
        return (functional.linear(x_whole, w_whole) * x_scale * w_scale[:, 0]).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x_whole, x_scale, w_whole, w_scale = ctx.saved_tensors
        by_input = by_weight = None
        if ctx.needs_input_grad[0]:
            by_input = ((grad * w_scale[:, 0]).to(torch.bfloat16) @ w_whole).to(ctx.dtypes[0])
        if ctx.needs_input_grad[1]:
            by_weight = ((grad * x_scale).to(torch.bfloat16).T @ x_whole).to(ctx.dtypes[1])
        return by_input, by_weight


def rounded(x: Tensor) -> Tensor:
    """Round the rows of x to 8 bits; gradients pass unchanged.

    Args:
        x: (..., n) float.
    """
    result: Tensor = _Rounded.apply(x)  # type: ignore[no-untyped-call]
    return result


def rounded_linear(x: Tensor, weight: Tensor) -> Tensor:
    """x @ weight.T with the rows of both rounded to 8 bits; gradients are those of the rounded factors.

    Args:
        x: (rows, inputs) float.
        weight: (outputs, inputs) float.

    Returns:
        (rows, outputs) of the type of x.
    """
    result: Tensor = _RoundedLinear.apply(x, weight)  # type: ignore[no-untyped-call]
    return result
