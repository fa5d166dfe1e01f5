"""Who drafts for which slot, with drafters that say what they are told and a clock that is made up."""

from collections.abc import Sequence

import numpy as np

from speccompact.speculative.drafter import NOTHING, Draft, Slot
from speccompact.speculative.hybrid import HybridDrafter, expected, right

COST = 0.01


class Scripted:
    """Drafts for a slot what it was given under its key, and notes who was asked about."""

    def __init__(self, drafts: dict[int, Draft]) -> None:
        self.drafts = drafts
        self.asked: list[list[int]] = []
        self.told: list[tuple[list[int], list[int]]] = []

    def begin(self, capacity: int) -> None:
        self.asked, self.told = [], []

    def propose(self, slots: Sequence[Slot], limits: Sequence[int]) -> list[Draft]:
        self.asked.append([slot.key for slot in slots])
        return [self.drafts.get(slot.key, NOTHING).cut(limit) for slot, limit in zip(slots, limits, strict=True)]

    def learn(self, slots: Sequence[Slot], drafts: Sequence[Draft], settled: Sequence[int]) -> None:
        self.told.append(([len(draft) for draft in drafts], list(settled)))


def draft(*chances: float, kind: str = "", first: int = 0) -> Draft:
    symbols = np.arange(first, first + len(chances), dtype=np.int32)
    return Draft(symbols, np.array(chances, np.float32), kind)


def slots(*keys: int, length: int = 0) -> list[Slot]:
    return [Slot(key, np.arange(length, dtype=np.int32)) for key in keys]


def test_each_slot_gets_the_draft_that_promises_more() -> None:
    cheap = Scripted({1: draft(0.9, 0.9), 2: draft(0.2), 3: draft(*[0.99] * 9)})
    dear = Scripted({1: draft(0.5, 0.5, kind="dear"), 2: draft(0.6, 0.6, kind="dear")})
    made = HybridDrafter(cheap, dear)
    made.begin(50)
    drafts = made.propose(slots(1, 2, 3, 4, 5), [9, 9, 9, 0, 9])
    assert [part.kind for part in drafts] == ["suffix", "dear", "suffix", "", ""]
    assert [len(part) for part in drafts] == [2, 2, 9, 0, 0]
    assert dear.asked == [[1, 2, 5]]  # one promises enough, one has no room
    made.learn(slots(1, 2, 3, 4, 5, length=1), drafts, [0] * 5)
    assert dear.told == [([0, 2, 0], [0, 0, 0])]
    assert cheap.told == [([2, 0, 9, 0, 0], [0] * 5)]


def test_passes_without_a_question_teach_the_dear_one_nothing() -> None:
    dear = Scripted({})
    made = HybridDrafter(Scripted({}), dear)
    made.propose(slots(1), [9])
    made.learn(slots(1, length=1), [NOTHING], [0])
    made.learn(slots(1, length=2), [NOTHING], [0])
    assert len(dear.told) == 1


def test_a_dear_drafter_that_never_helps_is_left_alone() -> None:
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += COST
        return now

    dear = Scripted({1: draft(0.9, 0.9, first=50, kind="dear")})
    made = HybridDrafter(Scripted({}), dear, clock)
    for _ in range(400):
        drafts = made.propose(slots(1), [9])
        made.learn(slots(1, length=1), drafts, [0])
    assert len(dear.asked) < 40


def test_figures() -> None:
    assert expected(draft(0.5, 0.5)) == 0.75
    assert expected(NOTHING) == 0.0
    assert right(draft(1, 1, 1), np.array([0, 1, 7, 3], np.int32)) == 2
    assert right(draft(1, 1, 1), np.array([0, 1], np.int32)) == 2
    assert right(NOTHING, np.array([0], np.int32)) == 0
