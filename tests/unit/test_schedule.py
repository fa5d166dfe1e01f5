import pytest

from speccompact.training.schedule import Schedule

PLAN = Schedule(tokens=100_000, batch=1000, learning_rate=0.5, warm_up=5000, rounding_from=0.8)


def test_warm_up_constant_decay() -> None:
    rates = [PLAN.rate(step) for step in range(PLAN.steps)]
    assert rates[:6] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5, 0.5])
    assert set(rates[5:70]) == {0.5}
    assert rates[70:] == pytest.approx([0.5 * (30 - number) / 30 for number in range(30)])
    assert rates[-1] > 0


def test_rounding() -> None:
    assert [PLAN.rounding(step) for step in (0, 79, 80, 99)] == [False, False, True, True]
    assert Schedule(1000, 10, 1.0, 0, 0.0).rounding(0)
    assert not Schedule(1000, 10, 1.0, 0, 1.0).rounding(99)


@pytest.mark.parametrize("rounding_from", [0.0, 0.1, 0.65, 0.8, 1.0])
@pytest.mark.parametrize("tokens", [1, 999, 10_000, 123_456])
def test_up_to_the_branch_a_longer_run_is_the_same(tokens: int, rounding_from: float) -> None:
    short = Schedule(tokens, 1000, 1.0, 3000, rounding_from)
    long = Schedule(3 * tokens, 1000, 1.0, 3000, rounding_from)
    assert 0 <= short.branch <= short.steps
    for step in range(short.branch):
        assert (short.rate(step), short.rounding(step)) == (long.rate(step), long.rounding(step))


def test_the_branch_is_as_late_as_it_can_be() -> None:
    assert PLAN.branch == 70
    assert Schedule(100_000, 1000, 1.0, 0, 0.5).branch == 50
    assert Schedule(100_000, 1000, 1.0, 0, 0.0).branch == 70


def test_the_last_step_may_go_beyond_the_tokens() -> None:
    assert Schedule(10_001, 1000, 1.0, 0, 0.8).steps == 11


@pytest.mark.parametrize(
    ("plan", "peak", "rounded"),
    [
        (PLAN, True, True),
        (Schedule(100_000, 1000, 1.0, 70_000, 0.8), True, True),
        (Schedule(100_000, 1000, 1.0, 72_000, 0.8), False, True),
        (Schedule(4000, 1000, 1.0, 8000, 0.8), False, False),
        (Schedule(5000, 1000, 1.0, 1000, 0.8), True, True),
        (Schedule(1, 1000, 1.0, 0, 0.0), True, True),
        (Schedule(1, 1000, 1.0, 0, 1.0), True, True),
    ],
)
def test_what_a_plan_does_not_come_to_is_told(plan: Schedule, peak: bool, rounded: bool) -> None:
    assert (max(plan.rate(step) for step in range(plan.steps)) == plan.learning_rate) == peak
    said = plan.remarks()
    assert any("peak" in words for words in said) != peak
    assert any("simulated" in words for words in said) != rounded
    assert all("--tokens" in words for words in said)
