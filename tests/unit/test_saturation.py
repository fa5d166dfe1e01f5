"""What the memory learns from sums larger than any text gives: the clamps of EXACT.md sections 11.6 and 11.7."""

import numpy as np
import pytest

from speccompact.memory.adaptation import ENERGY_LIMIT, _step
from speccompact.memory.flags import INPUTS
from speccompact.memory.mixer import _descend
from tests.reference.adapting import OutputRow
from tests.reference.mixer import moved_weight

ROWS_OF_AN_EPOCH = 1 << 16
WEIGHT_LIMIT, ROW_LIMIT = 1 << 22, 1 << 30

SLOPES = [0, 1, -1, 1 << 40, -(1 << 40), (1 << 58) - 1, -(1 << 58) + 1]
"""Sums of 2^19 products of errors below 2^22 and log-odds below 2^17, at most."""

GRADIENT = ROWS_OF_AN_EPOCH * (127 << 10)
SQUARE = ROWS_OF_AN_EPOCH << 20


@pytest.mark.parametrize("count", [1, 2, 1 << 10, 1 << 19])
@pytest.mark.parametrize("before", [0, 3277, WEIGHT_LIMIT, -WEIGHT_LIMIT, WEIGHT_LIMIT - 1])
def test_weights(count: int, before: int) -> None:
    weights = np.full((len(SLOPES), INPUTS), before, np.int32)
    slopes = np.repeat(np.array(SLOPES, np.int64)[:, None], INPUTS, 1)
    _descend(weights, slopes, np.full(len(SLOPES), count, np.int64))
    assert weights.tolist() == [[moved_weight(before, slope, count)] * INPUTS for slope in SLOPES]
    assert weights.max() == WEIGHT_LIMIT
    assert weights.min() == -WEIGHT_LIMIT


@pytest.mark.parametrize("square", [0, 1 << 10, 1 << 20, SQUARE])
@pytest.mark.parametrize("energy", [0, 1 << 20, ENERGY_LIMIT - 1, ENERGY_LIMIT])
@pytest.mark.parametrize("before", [0, ROW_LIMIT, -ROW_LIMIT, 12345])
def test_output_rows(before: int, energy: int, square: int) -> None:
    gradient = [0, 1, -1, 1 << 20, GRADIENT, -GRADIENT]
    row = OutputRow([before] * len(gradient), energy)
    total = np.full((1, len(gradient)), before, np.int32)
    weight, largest = np.zeros_like(total, np.int8), np.ones(1, np.int64)
    energies = np.array([energy], np.int64)
    _step(
        np.zeros(1, np.int64), np.array([gradient], np.int64), np.array([square], np.int64), energies, total, weight,
        largest,
    )  # fmt: skip
    row.learn(square, gradient)
    assert total.tolist() == [row.total]
    assert energies.tolist() == [row.energy]
    assert (weight[0].tolist(), int(largest[0])) == row.quantised


def test_the_clamps_of_output_rows_are_reached() -> None:
    row = OutputRow([ROW_LIMIT - 5, 5 - ROW_LIMIT], ENERGY_LIMIT - 1)
    row.learn(SQUARE, [GRADIENT, -GRADIENT])
    assert row.energy == ENERGY_LIMIT
    assert row.total == [ROW_LIMIT, -ROW_LIMIT]
