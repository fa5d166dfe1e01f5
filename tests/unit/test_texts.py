"""Frames of several texts."""

from collections.abc import Iterator

from speccompact.container.frames import Kind
from speccompact.streams.framecodec import decode_frame, encode_frame
from speccompact.text.texts import plan_texts
from tests.archives import noise
from tests.fakes import FakeEngines, prose

TEXTS = [prose(3000, 1), prose(40, 2), prose(900, 3), prose(2500, 4)]


def planned(texts: list[bytes], frame_slots: int) -> tuple[list[list[bytes]], list[int]]:
    plan, counts = plan_texts(texts, tokenizer=FakeEngines().engine.tokenizer, slot_tokens=128, frame_slots=frame_slots)
    joined, slots = b"".join(texts), iter(plan.slots)
    return [[joined[slot.start : slot.stop] for slot in (next(slots) for _ in range(n))] for n in counts], counts


def test_no_slot_holds_parts_of_two_texts() -> None:
    pieces, counts = planned(TEXTS, 64)
    assert [b"".join(own) for own in pieces] == TEXTS
    assert len(counts) == len(TEXTS)
    assert counts[1] == 1
    assert sum(counts) > len(TEXTS)


def test_as_many_whole_texts_as_fit() -> None:
    _, counts = planned(TEXTS, 64)
    for frame_slots in range(1, sum(counts) + 1):
        pieces, fitting = planned(TEXTS, frame_slots)
        assert fitting == [n for i, n in enumerate(counts) if sum(counts[: i + 1]) <= frame_slots]
        assert [b"".join(own) for own in pieces] == TEXTS[: len(fitting)]


def test_no_more_texts_are_asked_for_than_are_looked_at() -> None:
    def texts() -> Iterator[bytes]:
        yield from TEXTS[:2]
        raise AssertionError("the frame is full")

    plan, counts = plan_texts(texts(), tokenizer=FakeEngines().engine.tokenizer, slot_tokens=128, frame_slots=3)
    assert (plan.consumed, plan.slots, counts) == (0, (), [])


def test_the_frame_comes_back_with_a_memory_of_all_its_texts() -> None:
    engines = FakeEngines()
    texts = [*TEXTS, noise(500), TEXTS[0]]
    plan, counts = plan_texts(texts, tokenizer=engines.engine.tokenizer, slot_tokens=128, frame_slots=64)
    memory = engines.codec.begin_group(12)
    built = encode_frame(b"".join(texts), plan.slots, lambda: engines.engine, memory=lambda: memory)
    kinds = iter(slot.kind for slot in built.head.slots)
    assert [{next(kinds) for _ in range(n)} for n in counts] == [{Kind.MODEL}] * 4 + [{Kind.RAW}, {Kind.MODEL}]
    again = engines.codec.begin_group(12)
    content, _ = decode_frame(built.head, built.payload, lambda: engines.engine, memory=lambda: again)
    assert content == b"".join(texts)
