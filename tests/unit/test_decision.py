"""docs/decision.py: the table of right and wrong guesses."""

import importlib.util
import sys
from types import ModuleType

import pytest

from tests.source_tree import ROOT
from tests.tiny_model import TINY_EXACT
from tests.tiny_text import READING


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("decision", ROOT / "docs" / "decision.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["decision"] = module
    spec.loader.exec_module(module)
    return module


decision = load()


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
