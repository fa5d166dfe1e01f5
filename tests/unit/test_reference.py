"""The reference kernels against their definitions, written once more in Python integers for single rows."""

import torch

from speccompact.exact import fixedpoint, reference
from speccompact.exact.cache import Cache, Rows, Span
from tests.exact_inputs import products, row_scales, weights
from tests.hostile_integers import hostile_rows


def rounded(value: int, shift: int) -> int:
    return (value + (1 << shift >> 1)) >> shift


def clamped(value: int, limit: int) -> int:
    return max(-limit, min(limit, value))


def projected(acc: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
    """Query, key and value projections of layer 0 as real numbers."""
    linear, limit = weights().layers[0].qkv, fixedpoint.PROJECTION_LIMIT
    return fixedpoint.requantise(acc.long(), linear.channel.long(), row, linear.shifts, limit).double() / 4096


def test_embed_shifts_rows_of_the_table() -> None:
    tokens = torch.tensor([0, 459, 7])
    found = reference.embed(weights(), tokens)
    assert found.dtype == torch.int32
    assert torch.equal(found, weights().embed[tokens].int() << weights().embed_shift)


def test_add_joins_planes_and_clamps() -> None:
    linear = weights().layers[1].down
    acc = torch.stack([products(linear, seed=seed)[::5] for seed in (0, 1)])
    row = row_scales(acc.shape[1])
    before = hostile_rows(weights().hidden, fixedpoint.RESIDUAL_LIMIT)[: acc.shape[1]]
    after = before[: acc.shape[1]].clone()
    reference.add(after, acc, linear, row)
    for r in range(acc.shape[1]):
        for c in range(weights().hidden):
            inner = rounded((int(acc[0, r, c]) * 128 + int(acc[1, r, c])) * int(linear.channel[c]), linear.shifts[0])
            delta = clamped(rounded(inner * int(row[r]), linear.shifts[1]), fixedpoint.RESIDUAL_LIMIT)
            assert int(after[r, c]) == clamped(int(before[r, c]) + delta, fixedpoint.RESIDUAL_LIMIT)


def test_the_planes_of_gate_stand_for_values_of_its_row() -> None:
    acc = products(weights().layers[0].gate_up)
    planes, largest = reference.gate(weights(), acc, row_scales(len(acc)), 0)
    value = planes[0].long() * 128 + planes[1]
    assert int(planes[1].min()) >= -64
    assert int(planes[1].max()) <= 63
    assert int(value.abs().max()) == fixedpoint.PLANES_MAX
    assert int(largest.min()) >= 1


def test_gate_is_silu_times_up() -> None:
    linear, ffn = weights().layers[0].gate_up, weights().ffn
    acc = products(linear)
    row = torch.full((len(acc),), 1 << 13)
    planes, largest = reference.gate(weights(), acc, row, 0)
    found = (planes[0].double() * 128 + planes[1].double()) * largest[:, None] / fixedpoint.PLANES_MAX / 2**16
    projected = fixedpoint.requantise(
        acc.long(), linear.channel.long(), row, linear.shifts, fixedpoint.PROJECTION_LIMIT
    ).double()
    gates, ups = projected[:, :ffn] / 4096, projected[:, ffn:] / 4096
    wanted = torch.nn.functional.silu(gates) * ups
    tolerance = 1e-3 * (1 + ups.abs()) + largest[:, None] / 2**16 / fixedpoint.PLANES_MAX
    assert bool(((found - wanted).abs() <= tolerance).all())


def test_scores_are_clamped() -> None:
    acc = products(weights().head)
    found = reference.scores(weights(), acc, torch.full((len(acc),), (1 << 31) - 1))
    assert int(found.abs().max()) == fixedpoint.SCORE_LIMIT


def test_attention_of_the_first_position_is_its_own_value() -> None:
    linear = weights().layers[0].qkv
    acc = products(linear)[40:41]
    cache = Cache(weights(), 1, 1)
    row = torch.tensor([1 << 14])
    found, scale = reference.attention(weights(), acc, row, 0, Rows.of([Span(0, 0, 1)]), cache)
    wanted = projected(acc, row)[0, -2 * 8 :].view(2, 1, 8).expand(2, 3, 8).reshape(-1)
    real = found[0].double() * scale[0] / 127 / 65536
    assert float((real - wanted).abs().max()) <= 0.02 * float(wanted.abs().max())


def test_attention_is_a_softmax() -> None:
    """Against real arithmetic; keys and values are rounded to 8 bits in between."""
    linear, count = weights().layers[0].qkv, 20
    acc = products(linear)[-count:]
    row = torch.full((count,), 1 << 9)
    rows = Rows.of([Span(0, 0, count)])
    found, scale = reference.attention(weights(), acc, row, 0, rows, Cache(weights(), 1, count))
    real = found.double() * scale[:, None] / 127 / 65536
    heads = projected(acc, row).view(count, 10, 8)
    table = weights().rotary[:count].double() / 32768
    cos, sin = table[:, None, :4], table[:, None, 4:]
    low, high = heads[:, :8, :4], heads[:, :8, 4:]
    turned = torch.cat([low * cos - high * sin, low * sin + high * cos], -1)
    query, key = turned[:, :6], turned[:, 6:].repeat_interleave(3, 1)
    scores = torch.einsum("rhc,khc->rhk", query, key) / 8**0.5
    scores = scores.masked_fill(torch.ones(count, count).triu(1).bool()[:, None], -torch.inf)
    wanted = torch.einsum("rhk,khc->rhc", scores.softmax(-1), heads[:, 8:].repeat_interleave(3, 1)).reshape(count, -1)
    assert float((real - wanted).abs().max()) <= 0.03 * float(wanted.abs().max())
