import pytest

from speccompact.container.frames import FrameHead, Kind, Slot
from speccompact.errors import DamagedError, UnsupportedError
from speccompact.speculative.effort import Effort
from speccompact.streams.engine import Engine
from speccompact.streams.framecodec import BuiltFrame, decode_frame, encode_frame, slot_check
from speccompact.text.slots import SlotPlan
from tests.archives import noise
from tests.fakes import FakeEngines, prose


def plan(pieces: list[bytes], engines: FakeEngines) -> list[SlotPlan]:
    slots, at = [], 0
    for piece in pieces:
        text = piece.isascii()
        slots.append(SlotPlan(at, at + len(piece), 0, engines.engine.tokenizer.encode(piece) if text else None))
        at += len(piece)
    return slots


def encode(pieces: list[bytes], engines: FakeEngines) -> BuiltFrame:
    return encode_frame(b"".join(pieces), plan(pieces, engines), lambda: engines.engine)


def kinds(built: BuiltFrame) -> list[Kind]:
    return [slot.kind for slot in built.head.slots]


def no_engine() -> Engine:
    raise AssertionError("the model is not needed here")


def test_each_slot_takes_the_smallest_kind() -> None:
    engines = FakeEngines()
    pieces = [prose(800, 1), noise(12).hex().encode() * 20, prose(800, 2), noise(600), prose(700, 3)]
    built = encode(pieces, engines)
    assert kinds(built) == [Kind.MODEL, Kind.ZSTD, Kind.MODEL, Kind.RAW, Kind.MODEL]
    content, effort = decode_frame(built.head, built.payload, lambda: engines.engine)
    assert content == b"".join(pieces)
    assert effort.passes == built.head.tokens


def test_neighbours_that_the_model_loses_are_merged() -> None:
    engines = FakeEngines()
    digits = noise(100).hex().encode() * 2
    built = encode([prose(3000, 1), digits, digits, digits, prose(3000, 2)], engines)
    assert kinds(built) == [Kind.MODEL, Kind.ZSTD, Kind.MODEL]
    assert built.head.slots[1].content_bytes == 1200


def test_a_frame_that_zstd_does_best_is_one_slot() -> None:
    engines = FakeEngines()
    text = prose(3000)
    built = encode([text, text, text, text], engines)
    assert kinds(built) == [Kind.ZSTD]
    assert engines.codec.encoded == 4
    assert built.passes == engines.codec.passes == 4


def test_what_the_model_made_longer_counts_as_tried() -> None:
    digits = noise(2000).hex().encode()  # a lane of the fake codec is a byte longer
    built = encode([digits, prose(3000)], FakeEngines())
    assert kinds(built) == [Kind.ZSTD, Kind.MODEL]
    assert built.tried_bytes == 7000
    assert built.tried_bits == 8 * 4000 + built.bits


def test_what_needs_no_model_does_not_call_it() -> None:
    engines = FakeEngines()
    for pieces in ([noise(5000)], [b"a" * 5000, b"a" * 5000], [b""]):
        content = b"".join(pieces)
        built = encode_frame(content, plan(pieces, engines), no_engine)
        assert decode_frame(built.head, built.payload, no_engine) == (content, Effort())


def test_symbols_that_do_not_come_back_are_not_trusted() -> None:
    engines = FakeEngines()
    text = prose(900)
    wrong = [SlotPlan(0, len(text), 0, engines.engine.tokenizer.encode(prose(900, 5)))]
    built = encode_frame(text, wrong, lambda: engines.engine)
    assert kinds(built) == [Kind.ZSTD]
    assert built.passes == engines.codec.calls == 0
    assert decode_frame(built.head, built.payload, no_engine)[0] == text


def test_damaged_slots_are_named() -> None:
    engines = FakeEngines()
    pieces = [prose(800, 1), noise(500), prose(800, 2)]
    built = encode(pieces, engines)
    for at, name in ((3, "slot 0 .model"), (built.head.slots[0].payload_bytes + 9, "slot 1 .raw"), (-5, "slot 2")):
        payload = bytearray(built.payload)
        payload[at] ^= 0xFF
        with pytest.raises(DamagedError, match=name):
            decode_frame(built.head, bytes(payload), lambda: engines.engine)


def test_a_wrong_slot_check() -> None:
    engines = FakeEngines()
    built = encode([prose(800)], engines)
    payload = bytes([built.payload[0] ^ 1]) + built.payload[1:]
    with pytest.raises(DamagedError, match=r"slot 0 .model. is damaged: its check fails"):
        decode_frame(built.head, payload, lambda: engines.engine)


def test_more_content_than_declared_is_not_joined() -> None:
    engines = FakeEngines()
    built = encode([prose(5000)], engines)
    short = FrameHead(built.head.slots, 1000)
    with pytest.raises(DamagedError, match="spell more"):
        decode_frame(short, built.payload, lambda: engines.engine)


def test_an_unknown_charset() -> None:
    engines = FakeEngines()
    built = encode([prose(800)], engines)
    slot = built.head.slots[0]
    head = FrameHead((Slot(Kind.MODEL, slot.payload_bytes, None, slot.tokens, 255),), 800)
    with pytest.raises(UnsupportedError, match=r"slot 0 .model.: charset 255"):
        decode_frame(head, built.payload, lambda: engines.engine)


def test_a_text_in_another_charset() -> None:
    engines = FakeEngines()
    text = prose(800)
    content = text.decode().encode("utf-16-le")
    slots = [SlotPlan(0, len(content), 1, engines.engine.tokenizer.encode(text))]
    built = encode_frame(content, slots, lambda: engines.engine)
    assert built.head.slots[0].charset == 1
    assert decode_frame(built.head, built.payload, lambda: engines.engine)[0] == content


def test_the_check_is_over_content() -> None:
    assert slot_check(b"abc") == 0xBA


def test_text_beside_other_data_has_to_win_by_itself() -> None:
    """What the other slots take does not help the model to a larger budget."""
    engines = FakeEngines()
    memory = engines.codec.begin_group(12)
    pieces = [noise(1000).hex().encode(), noise(5000, 1)]
    built = encode_frame(b"".join(pieces), plan(pieces, engines), lambda: engines.engine, memory=lambda: memory)
    assert Kind.MODEL not in kinds(built)
    assert engines.codec.given_up == 1
    assert built.asked_model
    assert decode_frame(built.head, built.payload, no_engine)[0] == b"".join(pieces)


def test_other_data_that_is_there_twice_leaves_nothing_to_win() -> None:
    engines = FakeEngines()
    pieces = [noise(3000), prose(300), noise(3000)]
    built = encode_frame(b"".join(pieces), plan(pieces, engines), lambda: engines.engine, memory=no_memory)
    assert kinds(built) == [Kind.ZSTD]
    assert not built.asked_model
    assert engines.codec.calls == 0


def no_memory() -> None:
    raise AssertionError("the memory is not needed here")
