import pytest

from speccompact.quantities import amount, duration


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (1234, "1.23 kB"),
        (999_600, "1 MB"),
        (2.5e9, "2.5 GB"),
        (3e15, "3e+03 TB"),
    ],
)
def test_amount(count: float, text: str) -> None:
    assert amount(count) == text


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (7.4, "0:07"), (61, "1:01"), (3600 * 3 + 300, "3:05:00")])
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text
