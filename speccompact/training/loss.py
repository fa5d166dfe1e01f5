"""Code length of a text under the output distribution, without a table of all scores in memory."""

import math
from typing import Any

import torch
from torch import Tensor

_ROWS = 256
"""Rows whose scores are held at once: 256 x 49,152 float32 take 50 MB."""

_NATS_TO_BITS = 1.0 / math.log(2.0)


class _CodeLength(torch.autograd.Function):
    """Gradients are taken together with the scores, so that these are computed once and never kept."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, head: Tensor, targets: Tensor) -> Tensor:
        wants_hidden, wants_head = ctx.needs_input_grad[:2]
        by_hidden = torch.empty_like(hidden) if wants_hidden else None
        by_head = torch.zeros_like(head, dtype=torch.float32) if wants_head else None
        total = torch.zeros((), dtype=torch.float32, device=hidden.device)
        kind = hidden.device.type
        weight = head.to(torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else head.dtype)
        for start in range(0, hidden.shape[0], _ROWS):
            rows = hidden[start : start + _ROWS].to(weight.dtype)
            wanted = targets[start : start + _ROWS, None]
            logs = torch.log_softmax(rows @ weight.T, 1, dtype=torch.float32)
            total -= logs.gather(1, wanted).sum()
            if by_hidden is None and by_head is None:
                continue
            # p - 1 of a likely target is small: bfloat16 holds the difference, but would make such a p exactly 1
            slope = logs.exp_().scatter_add_(1, wanted, torch.full_like(wanted, -1, dtype=torch.float32))
            slope = slope.to(weight.dtype)
            if by_hidden is not None:
                by_hidden[start : start + _ROWS] = slope @ weight
            if by_head is not None:
                by_head += (slope.T @ rows).float()
        ctx.save_for_backward(by_hidden, by_head)
        return total * _NATS_TO_BITS

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        by_hidden, by_head = ctx.saved_tensors
        factor = grad * _NATS_TO_BITS
        return (
            None if by_hidden is None else by_hidden * factor,
            None if by_head is None else by_head * factor,
            None,
        )


def code_length(hidden: Tensor, head: Tensor, targets: Tensor) -> Tensor:
    """Sum of -log2 p(target), p = softmax(hidden @ head.T): the bits of an ideal coder (Shannon, 1948).

    Args:
        hidden: (rows, width) float.
        head: (vocab, width) float.
        targets: (rows,) int64.

    Returns:
        A float32 scalar, bits, differentiable in hidden and head.
    """
    if not torch.is_grad_enabled():
        hidden, head = hidden.detach(), head.detach()  # parameters would ask for gradients all the same
    result: Tensor = _CodeLength.apply(hidden, head, targets)  # type: ignore[no-untyped-call]
    return result
