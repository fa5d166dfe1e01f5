"""A batch that runs on: places, slots that are dropped, drafters that are told what is over, passes in numbers."""

from collections.abc import Sequence

import pytest

from speccompact import slotbatch
from speccompact.options import Options
from speccompact.parallel import Workers
from speccompact.slotbatch import DecodedSlot, EncodedSlot, SlotBatch
from speccompact.slotwork import Cohort, Places
from speccompact.speculative.drafter import Draft, Slot
from speccompact.speculative.drafting import Drafting
from speccompact.speculative.suffix import SuffixDrafter
from tests.tiny_model import tiny
from tests.tiny_slots import QUIET, encode, text_symbols

SLOTS = [text_symbols(n, n) for n in (5, 30, 60)]
LANES = encode(SLOTS)


def batch(places: int = 4, drafting: Drafting | None = None, window: int = 0) -> SlotBatch:
    return SlotBatch(tiny(QUIET)[0], Options(threads=1, window=window), Workers(1), places, 100, drafting)


def test_long_slots_go_where_long_ones_have_been() -> None:
    places = Places(3)
    long, short = places.take(50), places.take(5)
    places.free(long)
    places.free(short)
    assert places.take(4) == short
    assert places.take(40) == long
    assert len(places) == 1
    places.free(long)
    assert places.take(60) == long  # rather than touch more


def test_dropped_slots_leave_their_places_to_others() -> None:
    running = batch(places=2)
    tired, other = Cohort(), Cohort()
    for slot, lane in zip(SLOTS[1:], LANES[1:], strict=True):
        running.submit_decode(lane, len(slot), tired)
    ticket = running.submit_decode(LANES[0], len(SLOTS[0]), other)
    running.submit_decode(LANES[0], len(SLOTS[0]), tired)  # waits
    running.step()
    running.drop(tired)
    assert (running.free, tired.works) == (1, [])
    while running.step():
        pass
    results = running.collect()
    assert list(results) == [ticket]
    assert isinstance(result := results[ticket], DecodedSlot)
    assert result.symbols.tolist() == SLOTS[0].tolist()
    assert running.free == 2


def test_passes_of_both_kinds_are_told_apart() -> None:
    running = batch(window=4)
    running.submit_encode(SLOTS[1], 7)
    running.submit_decode(LANES[0], len(SLOTS[0]))
    assert running.step() == 5
    report = running.report
    assert (report.slots, report.encoded, report.decoding, report.decoded, report.drafted) == (2, 4, 1, 1, 0)


def test_lanes_tell_the_frequencies_of_their_symbols() -> None:
    running = batch()
    ticket = running.submit_encode(SLOTS[1], 1)
    running.step()
    made = running.collect()[ticket]
    assert isinstance(made, EncodedSlot)
    assert len(made.frequencies) == len(SLOTS[1])
    assert made.payload == LANES[1]


class Counting(SuffixDrafter):
    """Notes how many slots it knows, and how often it began."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = 0
        self.keys: set[int] = set()
        self.most = 0

    def begin(self, capacity: int) -> None:
        self.begun += 1
        self.keys = set()
        super().begin(capacity)

    def propose(self, slots: Sequence[Slot], limits: Sequence[int]) -> list[Draft]:
        self.keys |= {slot.key for slot in slots}
        self.most = max(self.most, len(self.keys))
        return super().propose(slots, limits)


@pytest.mark.parametrize("together", [True, False])
def test_a_drafter_forgets_slots_that_are_over(monkeypatch: pytest.MonkeyPatch, together: bool) -> None:
    """Whether slots come in a stream that never ends, or one after the other."""
    monkeypatch.setattr(slotbatch, "_FORGET", 16)
    drafter = Counting()
    running = batch(4, Drafting(drafter, "suffix"))
    wanted: dict[int, int] = {}
    for number in range(60):
        wanted[running.submit_decode(LANES[number % 3], len(SLOTS[number % 3]))] = number % 3
        while not together and running.step():
            pass
    while running.step():
        pass
    for ticket, result in running.collect().items():
        assert isinstance(result, DecodedSlot)
        assert result.symbols.tolist() == SLOTS[wanted.pop(ticket)].tolist()
    assert not wanted
    assert drafter.begun > 3
    assert drafter.most <= 16 + 2 * 4
