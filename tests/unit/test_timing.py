import numpy as np
import pytest

from speccompact.speculative.timing import PassTimes


def test_before_the_first_pass_only_proportions_are_known() -> None:
    times = PassTimes()
    assert times.expect(1, 16) > times.expect(1, 0)
    assert times.expect(4, np.arange(3)).shape == (3,)


def test_one_pass_tells_the_speed() -> None:
    times = PassTimes()
    times.learn(1, 0, 0.040)
    assert float(times.expect(1, 0)) == pytest.approx(0.040)
    assert 0.040 < float(times.expect(1, 16)) < 0.080


@pytest.mark.parametrize(("each", "row"), [(0.001, 0.0005), (0.002, 0.003), (0.0, 0.0)])
def test_times_are_learned(each: float, row: float) -> None:
    times = PassTimes()
    for n in range(300):
        slots, drafted = 1 + n % 7, n * 5 % 11
        times.learn(slots, drafted, 0.030 + each * slots + row * drafted)
    for slots, drafted in ((1, 0), (4, 6), (7, 20)):
        expected = 0.030 + each * slots + row * drafted
        assert float(times.expect(slots, drafted)) == pytest.approx(expected, rel=0.05)


def test_a_change_of_speed_is_followed() -> None:
    times = PassTimes()
    for speed in (1.0, 3.0, 0.5):
        for n in range(700):
            times.learn(2, n % 5, speed * (0.03 + 0.001 * (n % 5)))
        assert float(times.expect(2, 0)) == pytest.approx(speed * 0.03, rel=0.1)


def test_a_hiccup_counts_little() -> None:
    times = PassTimes()
    for n in range(100):
        times.learn(1, n % 3, 0.030)
    times.learn(1, 0, 60.0)
    assert float(times.expect(1, 0)) < 0.032


def test_no_part_of_a_pass_is_free() -> None:
    times = PassTimes()
    for n in range(100):
        times.learn(1, n % 9, 0.030 - 0.001 * (n % 9))
    assert float(times.expect(1, 9)) > float(times.expect(1, 0)) > 0
