"""What a drafter is asked, what becomes of its drafts, and what is counted, by a clock that is made up."""

from collections.abc import Iterator, Sequence

import numpy as np

from speccompact.speculative.controller import MOST_ROWS, Controller
from speccompact.speculative.drafter import Draft, Slot
from speccompact.speculative.drafting import Drafting
from speccompact.speculative.effort import Acceptance


class Scripted:
    """Proposes what it was given, and notes what it is told."""

    def __init__(self, *drafts: Draft) -> None:
        self.drafts = list(drafts)
        self.begun: list[int] = []
        self.asked: list[list[int]] = []
        self.told: list[tuple[list[int], list[int]]] = []

    def begin(self, capacity: int) -> None:
        self.begun.append(capacity)

    def propose(self, slots: Sequence[Slot], limits: Sequence[int]) -> list[Draft]:
        self.asked.append(list(limits))
        return self.drafts[: len(slots)]

    def learn(self, slots: Sequence[Slot], drafts: Sequence[Draft], settled: Sequence[int]) -> None:
        self.told.append(([len(draft) for draft in drafts], list(settled)))


def draft(*symbols: int, kind: str = "", chance: float = 0.9) -> Draft:
    return Draft(np.array(symbols, np.int32), np.full(len(symbols), chance, np.float32), kind)


def slots(count: int) -> list[Slot]:
    return [Slot(key, np.zeros(key, np.int32)) for key in range(count)]


def ticking(step: float) -> Iterator[float]:
    now = 0.0
    while True:
        yield now
        now += step


def test_a_pass_is_counted_by_position_and_drafter() -> None:
    drafter, clock = Scripted(draft(1, 2, 3), draft(4, kind="other"), draft()), ticking(0.5)
    drafting = Drafting(drafter, "mine", clock=lambda: next(clock))
    drafting.begin(100, 50)
    assert [symbols.tolist() for symbols in drafting.propose(slots(3), [9, 9, 9])] == [[1, 2, 3], [4], []]
    drafting.learn(slots(3), [2, 2, 1], 3)
    drafting.propose(slots(1), [9])
    drafting.learn(slots(1), [4], 3)
    assert drafter.begun == [100]
    assert drafter.told == [([3, 1, 0], [1, 1, 0]), ([3], [3])]
    effort = drafting.effort
    assert effort.drafts == {
        "mine": Acceptance((2, 2, 2), (2, 2, 1), (2, 1, 1)),
        "other": Acceptance((1,), (1,), (1,)),
    }
    assert (effort.target_s, effort.draft_s) == (1.0, 2.0)


def test_drafts_are_made_possible() -> None:
    drafting = Drafting(Scripted(draft(1, 50, 2), draft(49, 0, -1), draft(1, 2, 3), draft(60)), "mine")
    drafting.begin(100, 50)
    found = drafting.propose(slots(4), [9, 9, 2, 9])
    assert [symbols.tolist() for symbols in found] == [[1], [49, 0], [1, 2], []]


def test_a_drafter_that_only_costs_is_asked_rarely() -> None:
    drafter, now = Scripted(draft(1, 2, 3)), [0.0]

    def clock() -> float:
        now[0] += 0.010
        return now[0]

    drafting = Drafting(drafter, "mine", Controller(), clock)
    drafting.begin(100, 50)
    for _ in range(1000):
        drafting.propose(slots(1), [9])
        now[0] += 0.030
        drafting.learn(slots(1), [1], 1)
    assert 1 <= len(drafter.asked) < 50
    assert len(drafter.told) == 1000


def test_more_positions_than_are_counted_apart() -> None:
    drafting = Drafting(Scripted(draft(*range(100))), "mine")
    drafting.begin(1000, 500)
    drafting.propose(slots(1), [100])
    drafting.learn(slots(1), [101], 1)
    made = drafting.effort.drafts["mine"]
    assert len(made.proposed) == len(made.right) == 64
    assert set(made.proposed + made.reached + made.right) == {1}


def test_a_pass_never_gets_more_rows_than_it_has_room_for() -> None:
    """An over-confident drafter and many slots, with and without a controller that believes it."""
    confident = [draft(*range(16), chance=1.0)] * 4096
    for controller in (None, Controller()):
        drafting = Drafting(Scripted(*confident), "mine", controller)
        for count, least in ((4096, 0), (600, 600), (64, 960), (40, 640)):
            drafting.begin(100, 50)
            found = sum(map(len, drafting.propose(slots(count), [16] * count)))
            assert (least if controller is None else 0) <= found <= MOST_ROWS


def test_chances_that_are_none_spoil_no_others() -> None:
    """One slot's draft has a chance that is not a number, which a sum over all slots would spread."""
    broken = draft(1, 2, 3)
    broken.chances[1] = np.nan
    drafting = Drafting(Scripted(broken, draft(4, 5, chance=0.99)), "mine", Controller())
    drafting.begin(100, 50)
    assert [symbols.tolist() for symbols in drafting.propose(slots(2), [9, 9])] == [[1], [4, 5]]
