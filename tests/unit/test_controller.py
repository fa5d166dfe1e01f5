"""Decisions about drafts, with times that are made up."""

import numpy as np
import pytest

from speccompact.speculative.controller import Controller
from speccompact.speculative.drafter import NOTHING, Draft


def draft(*chances: float) -> Draft:
    return Draft(np.arange(len(chances), dtype=np.int32), np.array(chances, np.float32))


def controller(fixed: float = 0.030, each: float = 0.001, row: float = 0.001) -> Controller:
    """Return one that has seen many passes with drafts that just paid."""
    made = Controller()
    for n in range(300):
        slots, drafted = 1 + n % 9, n * 7 % 13
        seconds = fixed + each * slots + row * drafted
        made.learn(slots, slots, drafted, round(seconds / (fixed + each * slots) * slots + 0.5), seconds, 1e-5)
    return made


def sizes(drafts: list[Draft]) -> list[int]:
    return [len(draft) for draft in drafts]


def test_alone_even_doubtful_symbols_pay() -> None:
    assert sizes(controller().choose([draft(0.3, 0.5, 0.5, 0.01)], [16])) == [3]


def test_dear_rows_do_not() -> None:
    assert sizes(controller(row=0.028).choose([draft(0.3, 0.5)], [16])) == [0]
    assert sizes(controller(row=0.028).choose([draft(0.99, 0.3)], [16])) == [1]


def test_the_more_slots_the_surer_a_symbol_must_be() -> None:
    made = controller()
    taken = [sum(sizes(made.choose([draft(*[0.75] * 15)] * slots, [16] * slots))) / slots for slots in (1, 8, 60)]
    assert taken[0] > taken[1] > taken[2]


def test_rows_go_to_the_surest() -> None:
    chosen = controller().choose([draft(0.5, 0.1), draft(*[0.95] * 9), draft(0.02), NOTHING] * 4, [16] * 16)
    assert sizes(chosen)[0] < sizes(chosen)[1]
    assert sizes(chosen)[2:4] == [0, 0]


def test_who_will_wait_gets_less() -> None:
    made = controller()
    far, near = sizes(made.choose([draft(*[0.6] * 12)] * 2, [16, 3]))
    assert far > near


def test_a_draft_is_cut_and_never_rearranged() -> None:
    given = [draft(0.9, 0.2, 0.99, 0.99), draft(0.5, 0.9)]
    for before, after in zip(given, controller().choose(given, [9, 9]), strict=True):
        assert after.symbols.tolist() == before.symbols.tolist()[: len(after)]


def test_without_drafts_nothing_is_decided() -> None:
    assert sizes(Controller().choose([NOTHING, NOTHING], [4, 4])) == [0, 0]


def test_a_slow_drafter_makes_longer_drafts_pay() -> None:
    """What asking has cost is spent: all the more symbols are to be settled by the pass."""
    quick, slow = controller(), controller()
    for _ in range(50):
        slow.learn(1, 1, 5, 6, 0.036, 0.050)
    chances = draft(*[0.6] * 12)
    assert len(slow.choose([chances], [16])[0]) > len(quick.choose([chances], [16])[0])


class Machine:
    """A clock that passes move: what drafts of a quality cost and bring over many passes."""

    def __init__(self, right: float, claimed: float, slots: int, draft_s: float) -> None:
        self.right, self.claimed, self.slots, self.draft_s = right, claimed, slots, draft_s
        self.seconds, self.settled, self.asked = 0.0, 0.0, 0

    def run(self, made: Controller, passes: int) -> None:
        debt = 0.0
        for _ in range(passes):
            drafts, draft_s = [NOTHING] * self.slots, 0.0
            if made.asks():
                self.asked += 1
                draft_s = self.draft_s
                drafts = made.choose([draft(*[self.claimed] * 8)] * self.slots, [1000] * self.slots)
            drafted = sum(map(len, drafts))
            debt += sum(sum(self.right ** (i + 1) for i in range(len(each))) for each in drafts)
            settled, debt = self.slots + int(debt), debt - int(debt)
            pass_s = 0.030 + 0.001 * self.slots + 0.001 * drafted
            made.learn(self.slots, self.slots, drafted, settled, pass_s, draft_s)
            self.seconds += pass_s + draft_s
            self.settled += settled

    @property
    def gain(self) -> float:
        return self.settled / self.slots * (0.030 + 0.001 * self.slots) / self.seconds


@pytest.mark.parametrize("slots", [1, 8, 64])
@pytest.mark.parametrize("draft_s", [0.0, 0.004, 0.05])
@pytest.mark.parametrize("right", [0.0, 0.2, 0.6, 0.95])
@pytest.mark.parametrize("claimed", [0.01, 0.5, 0.99])
def test_never_much_slower_than_without_drafts(slots: int, draft_s: float, right: float, claimed: float) -> None:
    machine = Machine(right, claimed, slots, draft_s)
    machine.run(Controller(), 1000)
    assert machine.gain > 0.97


def test_good_drafts_are_used() -> None:
    machine = Machine(0.9, 0.9, 1, 0.002)
    machine.run(Controller(), 1000)
    assert machine.asked == 1000
    assert machine.gain > 3


def test_a_drafter_that_gets_better_is_found_out() -> None:
    made, bad, good = Controller(), Machine(0.0, 0.9, 1, 0.002), Machine(0.9, 0.9, 1, 0.002)
    bad.run(made, 2000)
    assert bad.asked < 400
    good.run(made, 2000)
    assert good.gain > 2.5


def test_what_comes_from_waiting_is_charged() -> None:
    """Slots that ran ahead wait: passes of the last one alone are what that has cost."""
    made = controller()
    for _ in range(60):
        made.learn(8, 8, 8, 16, 0.046, 0.0)
        for _ in range(8):
            made.learn(1, 8, 0, 1, 0.031, 0.0)
    assert not made.asks()
