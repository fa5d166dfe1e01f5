"""Every integer function against its definition in Python's unbounded integers."""

import math
from fractions import Fraction

import pytest
import torch

from speccompact.exact import fixedpoint
from speccompact.exact.tables import exp2_table
from tests.hostile_integers import edge_values, hostile_rows

WIDE = edge_values((1 << 62) - 1)
NATURAL = [value for value in WIDE if value >= 0]


def half_up(value: Fraction) -> int:
    return math.floor(value + Fraction(1, 2))


@pytest.mark.parametrize("shift", [1, 2, 7, 16, 31, 33, 61])
def test_shift_round_rounds_half_up(shift: int) -> None:
    bound = (1 << 62) - (1 << (shift - 1))
    values = [value for value in WIDE if abs(value) < bound]
    values += [(k << shift) + (1 << (shift - 1)) + d for k in (-2, -1, 0, 1) for d in (-1, 0, 1)]
    values = [value for value in values if abs(value) < bound]
    found = fixedpoint.shift_round(torch.tensor(values), shift)
    assert found.tolist() == [half_up(Fraction(value, 1 << shift)) for value in values]
    assert torch.equal(fixedpoint.shift_round(torch.tensor(values), torch.tensor(shift)), found)


def test_bit_length_is_that_of_integers() -> None:
    assert fixedpoint.bit_length(torch.tensor(NATURAL)).tolist() == [value.bit_length() for value in NATURAL]


def test_bit_length_leaves_its_argument_alone() -> None:
    x = torch.tensor([5, 9])
    fixedpoint.bit_length(x)
    assert x.tolist() == [5, 9]


def test_isqrt_is_the_largest_root() -> None:
    squares = [root * root + d for root in (1, 2, 3, 1000, 46341, (1 << 31) - 1) for d in (-1, 0, 1)]
    values = [value for value in (*NATURAL, *squares) if value < 1 << 62]
    assert fixedpoint.isqrt(torch.tensor(values)).tolist() == [math.isqrt(value) for value in values]


@pytest.mark.parametrize("divisor", [1, 2, 3, 127, (1 << 31) - 1, (1 << 40) + 1])
def test_floor_div_rounds_down(divisor: int) -> None:
    found = fixedpoint.floor_div(torch.tensor(WIDE), torch.full((len(WIDE),), divisor))
    assert found.tolist() == [value // divisor for value in WIDE]


def quantised(row: list[int], limit: int) -> tuple[list[int], int]:
    largest = max(1, *map(abs, row))
    exponent = largest.bit_length() + 30 - limit.bit_length()
    reciprocal = (limit << exponent) // largest
    return [half_up(Fraction(value * reciprocal, 1 << exponent)) for value in row], largest


@pytest.mark.parametrize("limit", [fixedpoint.INT8_MAX, fixedpoint.PLANES_MAX])
def test_quantise_is_its_definition(limit: int) -> None:
    rows = hostile_rows(5, fixedpoint.RESIDUAL_LIMIT, torch.int64)
    found, scale = fixedpoint.quantise(rows, limit)
    assert [(row, largest) for row, largest in zip(found.tolist(), scale.tolist(), strict=True)] == [
        quantised(row, limit) for row in rows.tolist()
    ]
    assert int(found.abs().max()) == limit
    assert torch.equal(found.abs().amax(-1) == limit, rows.abs().amax(-1) > 0)


def test_norm_quantise_is_its_definition() -> None:
    gain, epsilon = 57203, 2061584
    rows = hostile_rows(6, fixedpoint.RESIDUAL_LIMIT, torch.int64)
    found, scale = fixedpoint.norm_quantise(rows, gain, epsilon)
    for row, values, size in zip(rows.tolist(), found.tolist(), scale.tolist(), strict=True):
        wanted, largest = quantised(row, fixedpoint.INT8_MAX)
        shift = max(0, largest.bit_length() - 15)
        total = sum((value >> shift) ** 2 for value in row) + (epsilon >> 2 * shift)
        divisor = max(1, math.isqrt(total << 18)) << shift
        assert (values, size) == (wanted, ((largest * gain << 11) + divisor // 2) // divisor)
        assert 0 <= size < 1 << 31


def test_norm_quantise_is_an_rms_norm() -> None:
    x = hostile_rows(48, 1 << 24, torch.int64)
    x = x[x.abs().amax(-1) > 1 << 16]
    found, scale = fixedpoint.norm_quantise(x, round(math.sqrt(48) * 2**20 / 127), 0)
    real = found.double() * scale.double()[:, None] / 2**fixedpoint.FRAC_NORM
    wanted = x.double() / x.double().square().mean(-1, keepdim=True).sqrt()
    assert float((real - wanted).abs().max()) < 0.51 * float(wanted.abs().max()) / 127 + 1e-3


@pytest.mark.parametrize("shifts", [(0, 1), (3, 20), (12, 62)])
@pytest.mark.parametrize("limit", [fixedpoint.PROJECTION_LIMIT, fixedpoint.RESIDUAL_LIMIT])
def test_requantise_rounds_twice_and_clamps(shifts: tuple[int, int], limit: int) -> None:
    channel = [1, 777, (1 << 20) - 1]
    most = min((1 << 31) - 1, ((1 << 31) - 1) * 2 ** shifts[0] // channel[-1])
    acc = hostile_rows(3, most, torch.int64)
    row = torch.tensor([(1, 1 << 16, (1 << 31) - 1)[r % 3] for r in range(len(acc))])
    found = fixedpoint.requantise(acc, torch.tensor(channel), row, shifts, limit)
    for values, scale, results in zip(acc.tolist(), row.tolist(), found.tolist(), strict=True):
        for value, size, result in zip(values, channel, results, strict=True):
            inner = half_up(Fraction(value * size, 1 << shifts[0]))
            assert result == max(-limit, min(limit, half_up(Fraction(inner * scale, 1 << shifts[1]))))


def test_exp2_weights_fall_with_distance_to_nothing() -> None:
    table = torch.from_numpy(exp2_table(fixedpoint.EXP2_INDEX_BITS, fixedpoint.EXP2_BITS)).to(torch.int64)
    distance = torch.tensor(sorted({*range(0, 1 << 21, 97), *(v for v in NATURAL if v < 1 << 32)}))
    weights = fixedpoint.exp2_weights(distance, table)
    assert weights[0] == 1 << fixedpoint.EXP2_BITS
    assert bool((weights[1:] <= weights[:-1]).all())
    assert int(weights[distance >= 24 << fixedpoint.FRAC_SCORE].max()) == 0
    real = 2.0 ** (23 - distance.double() / 2**16)
    assert float((weights.double() - real).abs().max()) < 2**23 * 2**-12
