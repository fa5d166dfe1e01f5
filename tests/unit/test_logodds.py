import math

import numpy as np
import pytest

from speccompact.exact.tables import exp2_table, log2_table
from speccompact.memory.logodds import FRAC_ODDS, ODDS_LIMIT, PROBABILITY_ONE, log2, odds_of, squash

LOG2, EXP2 = log2_table(12, FRAC_ODDS), exp2_table(12, 23)


def test_logarithms_are_near_and_never_fall() -> None:
    values = sorted({*range(1, 5000), *(1 << n for n in range(62)), *((1 << n) - 1 for n in range(1, 62))})
    found = [int(log2(np.int64(x), LOG2)) for x in values]
    assert found == sorted(found)
    assert all(abs(have / 4096 - math.log2(x)) < 1 / 2800 for x, have in zip(values, found, strict=True))
    assert [int(log2(np.int64(1 << n), LOG2)) for n in range(62)] == [n << FRAC_ODDS for n in range(62)]


def test_the_table_of_logarithms_is_that_of_the_definition() -> None:
    assert LOG2.tolist() == [round(4096 * math.log2(1 + i / 4096)) for i in range(4096)]


def test_squash_is_near_the_logistic_function_and_odd() -> None:
    odds = list(range(-ODDS_LIMIT, ODDS_LIMIT + 1, 97))
    found = [int(squash(np.int64(x), EXP2)) for x in odds]
    assert found == sorted(found)
    for x, have in zip(odds, found, strict=True):
        assert have == pytest.approx(PROBABILITY_ONE / (1 + 2 ** (-x / 4096)), abs=2)
        assert have + int(squash(np.int64(-x), EXP2)) == PROBABILITY_ONE


def test_odds_and_squash_are_inverse_as_far_as_their_digits_go() -> None:
    for p in (64, 1000, PROBABILITY_ONE // 3, PROBABILITY_ONE // 2, PROBABILITY_ONE - 1000):
        odds = odds_of(np.int64(p), np.int64(PROBABILITY_ONE - p), LOG2)
        assert int(squash(odds, EXP2)) == pytest.approx(p, rel=1e-3)


def test_odds_of_nothing_and_of_all() -> None:
    zero, one = np.int64(0), np.int64(1)
    assert [int(odds_of(a, b, LOG2)) for a, b in ((zero, one), (-one, one), (one, zero), (zero, zero))] == [
        -ODDS_LIMIT,
        -ODDS_LIMIT,
        ODDS_LIMIT,
        -ODDS_LIMIT,
    ]
    assert int(odds_of(np.int64(1) << 61, one, LOG2)) == ODDS_LIMIT
