import random
from itertools import pairwise

import pytest

from speccompact.errors import ArgumentError
from speccompact.text.charsets import BYTES, NAMES, UTF16LE, from_utf8
from speccompact.text.runs import BLOCK
from speccompact.text.slots import FRAME_WINDOW, FramePlan, plan_frame
from tests.fakes import prose
from tests.tiny_vocabulary import TRAINING_TEXT, tiny_tokenizer, tiny_vocabulary

RANDOM = random.Random(1).randbytes(3 * BLOCK)
TEXT = prose(40_000, seed=4)
RUSSIAN = "".join(line for line in TRAINING_TEXT.splitlines(keepends=True) if "а" in line) * 20


def plan(data: bytes, slot_tokens: int = 256, frame_slots: int = 64) -> FramePlan:
    """Return the plan of the first frame, checked against everything that a plan promises."""
    window = data[:FRAME_WINDOW]
    found = plan_frame(
        window,
        final=len(window) == len(data),
        tokenizer=tiny_tokenizer(),
        slot_tokens=slot_tokens,
        frame_slots=frame_slots,
    )
    assert len(found.slots) <= frame_slots
    assert [slot.start for slot in found.slots] == [0, *(slot.stop for slot in found.slots)][: len(found.slots)]
    assert found.consumed == (found.slots[-1].stop if found.slots else 0)
    for slot in found.slots:
        if slot.symbols is not None:
            assert 1 <= slot.symbols.size <= slot_tokens
            assert from_utf8(tiny_vocabulary().join(slot.symbols), slot.charset) == data[slot.start : slot.stop]
    return found


def frames(data: bytes, slot_tokens: int, frame_slots: int) -> list[FramePlan]:
    plans = []
    while data:
        plans.append(plan(data, slot_tokens, frame_slots))
        assert plans[-1].consumed > 0
        data = data[plans[-1].consumed :]
    return plans


def sizes(found: FramePlan) -> list[int]:
    return [0 if slot.symbols is None else slot.symbols.size for slot in found.slots]


def test_nothing_has_no_slots() -> None:
    assert plan(b"") == FramePlan(0, ())


def test_a_short_text_is_one_slot() -> None:
    found = plan(b"One short message.\n", slot_tokens=64)
    assert len(found.slots) == 1
    assert found.slots[0].charset == BYTES


def test_slots_are_balanced() -> None:
    found = plan(TEXT[:3000], slot_tokens=512)
    total = sum(sizes(found))
    assert len(found.slots) == -(-total // 512)
    shift = 512 // 16
    assert all(abs(size - total / len(found.slots)) <= 2 * shift + 1 for size in sizes(found))


def test_cuts_prefer_line_ends_then_spaces() -> None:
    lines = plan(TEXT[:20_000], slot_tokens=1024)
    assert len(lines.slots) > 5
    ends = [TEXT[: slot.stop].endswith(b"\n") for slot in lines.slots[:-1]]
    assert sum(ends) >= len(ends) * 3 // 4
    one_line = TEXT[:20_000].replace(b"\n", b" ")
    spaces = plan(one_line, slot_tokens=1024)
    assert all(one_line[slot.stop : slot.stop + 1] == b" " for slot in spaces.slots[:-1])


def test_a_full_frame_leaves_the_rest_for_the_next() -> None:
    plans = frames(TEXT, slot_tokens=128, frame_slots=8)
    assert len(plans) > 3
    assert all(len(found.slots) == 8 for found in plans[:-2])


def test_the_last_two_frames_share_their_text() -> None:
    plans = frames(TEXT[:7000], slot_tokens=256, frame_slots=16)
    totals = [sum(sizes(found)) for found in plans]
    assert len(totals) == 2
    assert max(totals) < 1.25 * min(totals)


def test_the_plan_looks_no_further_than_its_window() -> None:
    data = prose(FRAME_WINDOW + 5000, seed=5)

    def of(buffer: bytes, final: bool) -> int:
        return plan_frame(buffer, final=final, tokenizer=tiny_tokenizer(), slot_tokens=64, frame_slots=4).consumed

    assert of(data, True) == of(data[:FRAME_WINDOW], False) == of(data[:FRAME_WINDOW], True)
    with pytest.raises(ArgumentError, match="buffer"):
        of(data[: FRAME_WINDOW - 1], False)


def test_binary_is_one_slot_whatever_its_length() -> None:
    data = random.Random(6).randbytes(FRAME_WINDOW + 1000)
    found = plan(data)
    assert found.consumed == FRAME_WINDOW
    assert sizes(found) == [0]
    assert sizes(plan(data[FRAME_WINDOW:])) == [0]


def test_text_between_binary_is_found() -> None:
    found = plan(RANDOM + TEXT[: 4 * BLOCK] + RANDOM, slot_tokens=8192)
    assert [size > 0 for size in sizes(found)] == [False, True, False]


def test_a_frame_has_no_more_slots_than_allowed() -> None:
    data = (RANDOM + TEXT[: 3 * BLOCK]) * 3
    plans = frames(data, slot_tokens=4096, frame_slots=2)
    assert len(plans) == 3


@pytest.mark.parametrize("slot_tokens", [16, 17, 100, 1024])
@pytest.mark.parametrize("frame_slots", [1, 3, 64])
@pytest.mark.parametrize("name", ["utf-8", "cp1251", "utf-16-le", "utf-32-be"])
def test_any_size_of_slot_and_frame(slot_tokens: int, frame_slots: int, name: str) -> None:
    data = RUSSIAN[:1500].encode(name)
    charsets = {slot.charset for found in frames(data, slot_tokens, frame_slots) for slot in found.slots}
    assert BYTES in charsets or name != "utf-8"


def test_charsets_are_used() -> None:
    assert {NAMES[slot.charset] for slot in plan(RUSSIAN.encode("koi8-r")).slots} == {"koi8-r"}
    assert {slot.charset for slot in plan(TEXT.decode().encode("utf-16-le")).slots} == {UTF16LE}


def test_an_odd_tail_of_wide_text_is_set_apart() -> None:
    found = plan(TEXT[:3000].decode().encode("utf-16-le") + b"\n", slot_tokens=4096)
    assert [slot.stop - slot.start for slot in found.slots] == [6000, 1]
    assert found.slots[1].symbols is None


def test_the_plan_is_the_same_every_time() -> None:
    data = RANDOM + TEXT + RUSSIAN.encode("cp866") + RANDOM
    first, second = plan(data), plan(data)
    assert [(slot.start, slot.stop, slot.charset) for slot in first.slots] == [
        (slot.start, slot.stop, slot.charset) for slot in second.slots
    ]
    assert sizes(first) == sizes(second)
    assert all(left.stop == right.start for left, right in pairwise(first.slots))
