"""docs/decision.py: the table of right and wrong guesses."""

import pytest

from tests.source_tree import load_script
from tests.tiny_model import TINY_EXACT
from tests.tiny_text import READING

decision = load_script("decision")


def test_frames_are_coded_to_the_end_and_judged() -> None:
    (won,) = decision.outcomes(READING.encode(), str(TINY_EXACT), 5)
    assert won.given_up is None
    assert 0 < won.ratio < 1
    (lost,) = decision.outcomes(("0123456789abcdef" * 40 + READING[:100] + "\n").encode() * 9, str(TINY_EXACT), 5)
    assert lost.given_up is not None
    assert lost.ratio > 1


@pytest.mark.parametrize(
    ("given_up", "ratio", "verdict"),
    [
        (None, 0.5, "kept, rightly"),
        (None, 1.5, "kept in vain"),
        (0.3, 0.5, "given up, wrongly"),
        (0.3, 1.5, "given up, rightly"),
    ],
)
def test_verdicts(given_up: float | None, ratio: float, verdict: str) -> None:
    assert decision.Outcome(given_up, ratio).verdict == verdict
