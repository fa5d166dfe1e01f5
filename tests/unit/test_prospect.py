"""Guesses at the final size of a frame."""

import pytest

from speccompact.prospect import Prospect


def given_up_at(costs: list[int], budget: int) -> int | None:
    """Return the symbol after which the coding stops, with the cost of each."""
    prospect, bits = Prospect(len(costs), budget), 0
    for settled, cost in enumerate(costs, 1):
        bits += cost
        if prospect.hopeless(settled, bits):
            return settled
    return None


@pytest.mark.parametrize(("rate", "at"), [(100, None), (110, 574), (120, 423), (150, 250), (500, 250)])
def test_the_more_a_steady_rate_exceeds_the_budget_the_sooner_it_is_given_up(rate: int, at: int | None) -> None:
    """Given up once rate * (s + (1 - s) * (1 + s) / 2) exceeds the budget, s being the share that is coded."""
    assert given_up_at([rate] * 1000, 100_000) == at


def test_a_rate_that_falls_as_a_memory_fills_is_kept() -> None:
    assert given_up_at([20 - i // 50 for i in range(1000)], 12_600) is None


def test_a_costly_start_is_forgiven() -> None:
    assert given_up_at([30] * 125 + [7] * 875, 10_000) is None


def test_the_last_eighth_counts() -> None:
    assert given_up_at([5] * 500 + [20] * 500, 10_000) in range(600, 876)


def test_what_exceeds_the_budget_in_the_end_is_noticed_on_the_way() -> None:
    assert given_up_at([9] * 900 + [30] * 100, 10_000) in range(900, 1000)


@pytest.mark.parametrize("symbols", range(1, 20))
def test_short_frames(symbols: int) -> None:
    assert given_up_at([1] * symbols, symbols) is None
    assert given_up_at([2] * symbols, symbols) == -(-symbols // 4)


def test_large_steps() -> None:
    prospect = Prospect(10, 10)
    assert not prospect.hopeless(4, 4)
    assert prospect.hopeless(8, 9)
