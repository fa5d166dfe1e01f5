"""The fused kernels give the bits of the reference, on inputs as hostile as the proven bounds allow."""

import pytest
import torch
from torch import Tensor

from speccompact.exact import fused, reference
from speccompact.exact.cache import Cache, Rows, Span
from speccompact.exact.fixedpoint import RESIDUAL_LIMIT
from tests.exact_inputs import products, row_scales, steep_weights, weights
from tests.hostile_integers import hostile_rows


def both(*pairs: tuple[Tensor, Tensor]) -> None:
    for ours, theirs in pairs:
        assert ours.dtype == theirs.dtype
        different = (ours != theirs).nonzero()
        assert not len(different), f"{len(different)} differ, the first at {different[0].tolist()}"


def test_embed() -> None:
    tokens = torch.arange(weights().vocab)
    both((fused.embed(weights(), tokens), reference.embed(weights(), tokens)))


def test_norm() -> None:
    x = hostile_rows(weights().hidden, RESIDUAL_LIMIT)
    both(*zip(fused.norm(weights(), x), reference.norm(weights(), x), strict=True))


@pytest.mark.parametrize("name", ["o", "down"])
def test_add(name: str) -> None:
    planes = 2 if name == "down" else 1
    linear = getattr(weights().layers[0], name)
    acc = torch.stack([products(linear, seed=plane) for plane in range(planes)])
    row = row_scales(acc.shape[1])
    for x in hostile_rows(weights().hidden, RESIDUAL_LIMIT)[:: 9 if planes == 1 else 5]:
        ours = x.repeat(acc.shape[1], 1)
        theirs = ours.clone()
        fused.add(ours, acc, linear, row)
        reference.add(theirs, acc, linear, row)
        both((ours, theirs))


@pytest.mark.parametrize("shift", [6, 20])
def test_add_what_exceeds_the_residual(shift: int) -> None:
    linear = steep_weights(shift).layers[0].down
    acc = torch.stack([products(linear, seed=plane) for plane in range(2)])
    for start in (-RESIDUAL_LIMIT, -1, RESIDUAL_LIMIT):
        ours = torch.full((acc.shape[1], weights().hidden), start, dtype=torch.int32)
        theirs = ours.clone()
        fused.add(ours, acc, linear, row_scales(acc.shape[1]))
        reference.add(theirs, acc, linear, row_scales(acc.shape[1]))
        both((ours, theirs))


@pytest.mark.parametrize("layer", [0, 1])
def test_gate(layer: int) -> None:
    acc = products(weights().layers[layer].gate_up)
    row = row_scales(len(acc))
    ours, theirs = fused.gate(weights(), acc, row, layer), reference.gate(weights(), acc, row, layer)
    both(*zip(ours, theirs, strict=True))


def test_scores() -> None:
    acc = products(weights().head)
    both((fused.scores(weights(), acc, row_scales(len(acc))), reference.scores(weights(), acc, row_scales(len(acc)))))


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("scale", [1, 1 << 12, 1 << 15, 1 << 16])
def test_attention(layer: int, scale: int) -> None:
    """Hostile products, as spans that take every way through the code."""
    compare_attention(layer, scale)


@pytest.mark.parametrize("scale", [1 << 17, 1 << 22, 1 << 26, (1 << 31) - 1])
def test_attention_at_the_limits_of_scores(scale: int) -> None:
    compare_attention(0, scale)


def compare_attention(layer: int, scale: int) -> None:
    acc = products(weights().layers[layer].qkv)
    row = torch.full((len(acc),), scale)
    cached = [Cache(weights(), 3, 400) for _ in range(2)]
    for spans in ([Span(0, 0, 100), Span(2, 0, 1)], [Span(2, 1, 7), Span(0, 100, 1), Span(1, 0, 8)], [Span(1, 8, 63)]):
        rows = Rows.of(spans)
        count = sum(span.count for span in spans)
        order = torch.arange(count) * 37 % len(acc)
        ours, theirs = (
            kernels.attention(weights(), acc[order], row[order], layer, rows, cache)
            for kernels, cache in zip((fused, reference), cached, strict=True)
        )
        both(*zip(ours, theirs, strict=True))
