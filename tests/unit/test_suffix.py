"""The suffix drafter against a model of it in plain Python, which looks at everything for each proposal."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speccompact.speculative.drafter import NOTHING, Slot
from speccompact.speculative.matching import LONGEST, ORDERS, VOID, match
from speccompact.speculative.suffix import MOST, SuffixDrafter
from tests.tiny_model import integers
from tests.tiny_slots import Symbols, text_symbols

ENTRIES = 1 << 17


class Model:
    """Texts, and the order in which their symbols came."""

    def __init__(self) -> None:
        self.texts: dict[int, list[int]] = {}
        self.order: list[tuple[int, int]] = []

    def settle(self, key: int, symbols: Sequence[int]) -> None:
        for symbol in symbols:
            self.order.append((key, len(self.texts.setdefault(key, []))))
            self.texts[key].append(symbol)

    def propose(self, key: int, limit: int) -> tuple[int, list[int]]:
        """Return the length of the match and what followed it, which may reach into itself."""
        own = self.texts.get(key, [])
        best, source = 0, (0, 0)
        for order in ORDERS:
            context = own[-order:]
            for other, position in reversed(self.order):
                text = self.texts[other]
                if len(own) >= order <= position and text[position - order : position] == context:
                    if (other, position) != (key, len(own)) and common(text[:position], own) > best:
                        best, source = common(text[:position], own), (other, position)
                    break
        if not best:
            return 0, []
        text = list(self.texts[source[0]])
        draft: list[int] = []
        while len(draft) < min(limit, MOST) and source[1] + len(draft) < len(text):
            draft.append(text[source[1] + len(draft)])
            if source[0] == key:
                text.append(draft[-1])
        return best, draft


def common(first: list[int], second: list[int]) -> int:
    length = 0
    for a, b in zip(first[::-1], second[::-1], strict=False):
        if a != b or length == LONGEST:
            break
        length += 1
    return length


def check(texts: Sequence[Symbols], steps: Sequence[int], drafter: SuffixDrafter) -> None:
    """Let slots grow by turns and compare each proposal."""
    model, at = Model(), [0] * len(texts)
    drafter.begin(max(map(len, texts)))
    turn = 0
    while any(a < len(text) for a, text in zip(at, texts, strict=True)):
        ready = [key for key, text in enumerate(texts) if at[key] < len(text)]
        slots = [Slot(key, texts[key][: at[key]]) for key in ready]
        limits = [len(texts[key]) - at[key] - 1 for key in ready]
        drafts = drafter.propose(slots, limits)
        for key, limit, draft in zip(ready, limits, drafts, strict=True):
            assert draft.symbols.tolist() == model.propose(key, limit)[1]
            assert ((draft.chances > 0) & (draft.chances < 1)).all()
        for key in ready:
            size = min(steps[turn % len(steps)], len(texts[key]) - at[key])
            turn += 1
            model.settle(key, texts[key][at[key] : at[key] + size].tolist())
            at[key] += size
        drafter.learn([Slot(key, texts[key][: at[key]]) for key in ready], drafts, [0] * len(ready))


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=60), min_size=1, max_size=4),
    st.lists(st.integers(1, 5), min_size=1, max_size=7),
)
def test_as_the_model_says(texts: list[list[int]], steps: list[int]) -> None:
    check([np.array(text, np.int32) for text in texts], steps, SuffixDrafter(room=1000, entries=ENTRIES))


def test_as_the_model_says_about_text() -> None:
    repeated = np.concatenate([text_symbols(60, 1), text_symbols(40, 2), text_symbols(60, 1)])
    texts = [repeated, text_symbols(90, 1), text_symbols(1, 3), repeated[20:]]
    check(texts, [1, 3, 1, 2, 9], SuffixDrafter(entries=ENTRIES))


def test_a_repetition_goes_on_in_the_draft() -> None:
    drafter = SuffixDrafter()
    drafter.begin(100)
    [draft] = drafter.propose([Slot(0, np.array([7, 8, 9, 7, 8], np.int32))], [8])
    assert draft.symbols.tolist() == [9, 7, 8, 9, 7, 8, 9, 7]


def test_nothing_is_proposed_that_has_not_been_seen_or_is_not_wanted() -> None:
    drafter = SuffixDrafter()
    drafter.begin(100)
    empty = np.empty(0, np.int32)
    assert drafter.propose([], []) == []
    slots = [Slot(0, empty), Slot(1, np.array([1, 2, 3], np.int32)), Slot(2, np.array([4, 4, 4], np.int32))]
    assert [len(draft) for draft in drafter.propose(slots, [9, 9, 0])] == [0, 0, 0]
    assert [len(draft) for draft in drafter.propose(slots, [9, 9, 3])] == [0, 0, 3]


def test_earlier_batches_stay_known() -> None:
    drafter = SuffixDrafter()
    text = text_symbols(50, 4)
    drafter.begin(50)
    drafter.propose([Slot(0, text)], [0])
    drafter.begin(80)
    [draft] = drafter.propose([Slot(0, text[:10])], [20])
    assert draft.symbols.tolist() == text[10:30].tolist()


def test_old_text_makes_room() -> None:
    """A table of few entries and a text of little room: whatever is overwritten, proposals are of symbols that came."""
    drafter, source = SuffixDrafter(room=150, entries=16), integers(3)
    for batch in range(40):
        capacity = 20 + next(source) % 60
        drafter.begin(capacity)
        texts = [text_symbols(1 + next(source) % capacity, batch % 5) for _ in range(1 + next(source) % 4)]
        for stop in range(0, capacity, 7):
            slots = [Slot(key, text[:stop]) for key, text in enumerate(texts)]
            drafts = drafter.propose(slots, [capacity] * len(slots))
            assert all((draft.symbols >= 0).all() for draft in drafts)
            drafter.learn(slots, drafts, [0] * len(slots))


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9, 1.0])
def test_chances_are_those_of_the_past(share: float) -> None:
    """Triples whose third symbol is the usual one with a known probability, and nothing else repeats itself."""
    source, drafter = integers(9), SuffixDrafter()
    rare = iter(range(100, 10_000))
    symbols = [[next(rare), 5, 6 if next(source) < share * 65536 else next(rare)] for _ in range(900)]
    text = np.array(symbols, np.int32).reshape(-1)
    drafter.begin(len(text))
    chances = []
    for stop in range(2, len(text), 3):
        [draft] = drafter.propose([Slot(0, text[:stop])], [1])
        drafter.learn([Slot(0, text[: stop + 1])], [draft], [0])
        if stop > 1200:
            chances.append(float(draft.chances[0]))
    expected = share**2  # the last occurrence was the usual one, and so is this
    assert abs(np.mean(chances) - expected) < 0.1


def test_drafts_are_judged_by_their_own_pass_alone() -> None:
    """While a controller pauses, slots grow without being asked about."""
    text = np.tile(text_symbols(9, 2), 12)
    drafter = SuffixDrafter()
    drafter.begin(len(text))
    drafter.propose([Slot(0, text[:40])], [8])
    trials = []
    for stop in (42, 44, 60):
        drafter.learn([Slot(0, text[:stop])], [NOTHING], [0])
        trials.append(float(drafter._trials.sum()))
    assert trials[0] > 0
    assert trials == trials[:1] * 3


def test_a_match_at_the_very_end_of_what_is_kept_ends_there() -> None:
    """A region that is full, and has nothing behind it."""
    capacity = 60
    drafter = SuffixDrafter(room=0)
    drafter.begin(capacity)
    text = text_symbols(capacity, 6)
    drafter.learn([Slot(0, text, capacity)], [NOTHING], [0])
    assert len(drafter._text) == capacity + 2
    assert drafter._text[0] == drafter._text[-1] == VOID
    size, found = np.zeros(1, np.int64), np.zeros(1, np.int64)
    drafts = np.zeros((1, MOST), np.int32)
    begins, lengths = np.ones(1, np.int64), np.full(1, 50, np.int64)
    match(drafter._text, drafter._tables, begins, lengths, np.full(1, MOST, np.int64), drafts, size, found)
    assert drafts[0, : size[0]].tolist() == text[50 : 50 + size[0]].tolist()
    assert size[0] <= 10


def test_slots_take_the_room_of_their_own_length() -> None:
    """One long slot among many short ones, in room for what they are and not for as many long ones."""
    texts = [text_symbols(500, 1), *(text_symbols(20, seed) for seed in range(2, 12))]
    drafter = SuffixDrafter(room=sum(map(len, texts)) + len(texts) + 2)
    drafter.begin(500)
    for stop in (8, 20, 500):
        slots = [Slot(key, text[:stop], len(text)) for key, text in enumerate(texts)]
        assert all(len(draft) <= 4 for draft in drafter.propose(slots, [4] * len(slots)))
    assert [(region.key, region.length) for region in drafter._regions] == [
        (key, len(text)) for key, text in enumerate(texts)
    ]


def test_slots_without_room_get_nothing_until_there_is_some() -> None:
    texts = [np.tile(text_symbols(5, seed), 12) for seed in range(5)]
    drafter = SuffixDrafter(room=2 * 61 + 2)
    drafter.begin(60)
    for stop in (20, 30, 40):  # who has a region keeps it, and nothing is entered twice
        slots = [Slot(key, text[:stop], 60) for key, text in enumerate(texts)]
        assert [len(draft) for draft in drafter.propose(slots, [4] * 5)] == [4, 4, 0, 0, 0]
        assert [region.key for region in drafter._regions] == [0, 1]
    drafter.learn([Slot(key, text, 60) for key, text in enumerate(texts[:2])], [NOTHING] * 2, [0] * 2)
    slots = [Slot(key, texts[key][:50], 60) for key in (2, 3, 4)]
    assert [len(draft) for draft in drafter.propose(slots, [4] * 3)] == [4, 4, 0]


def test_a_slot_that_is_longer_than_it_said_is_cut() -> None:
    drafter = SuffixDrafter(room=0)
    drafter.begin(10)
    text = np.tile(np.array([1, 2], np.int32), 20)
    for stop in (4, 10, 30):
        [draft] = drafter.propose([Slot(0, text[:stop], 10)], [8])
        assert set(draft.symbols.tolist()) <= {1, 2}
    assert drafter._text[-1] == VOID
