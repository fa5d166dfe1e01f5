import numpy as np
import pytest

from speccompact.speculative.calibrating import Calibration
from speccompact.speculative.drafter import NOTHING, Draft, Slot


def draft(*chances: float) -> Draft:
    return Draft(np.arange(len(chances), dtype=np.int32), np.array(chances, np.float32), "mine")


def text(*symbols: int) -> np.ndarray:
    return np.array(symbols, np.int32)


def test_what_is_said_is_believed_at_first() -> None:
    made = Calibration(4)
    slots = [Slot(1, text()), Slot(2, text())]
    given = [draft(0.9, 0.5), NOTHING]
    corrected = made.correct(slots, given)
    assert corrected[0].chances.tolist() == pytest.approx([0.9, 0.5])
    assert corrected[0].symbols.tolist() == [0, 1]
    assert corrected[0].kind == "mine"
    assert corrected[1] is NOTHING


def test_experience_counts_where_it_was_made() -> None:
    made = Calibration(3)
    for _ in range(200):
        made.correct([Slot(7, text())], [draft(0.9, 0.9, 0.2)])
        made.settle([Slot(7, text(0, 5))])  # the first is right, the second is not, the third is never reached
    first, second, third = made.correct([Slot(7, text())], [draft(0.9, 0.9, 0.2)])[0].chances
    assert first > 0.98
    assert second < 0.1
    assert third == pytest.approx(0.2)


def test_what_lies_beyond_what_has_come_is_not_counted() -> None:
    made = Calibration(3)
    for _ in range(50):
        made.correct([Slot(7, text(9))], [draft(0.5, 0.5, 0.5)])
        made.settle([Slot(7, text(9, 0)), Slot(8, text(1))])
        made.settle([Slot(7, text(9, 0, 1))])  # an old draft says nothing any more
    assert made.correct([Slot(7, text())], [draft(0.5, 0.5, 0.5)])[0].chances[1] == pytest.approx(0.5)
