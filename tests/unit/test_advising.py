"""Messages of damage: what is damaged, where, and once what to do about it."""

import io
from collections.abc import Callable

import pytest

from speccompact import api
from speccompact.errors import FormatError, NotSpecCompactError
from tests.archives import SLOT_TOKENS, noise, raw_part, raw_single
from tests.fakes import FakeEngines, prose

ADVICE = "decompress --salvage"
PART = raw_part([noise(100, 1), noise(90, 2)])
SINGLE = raw_single(noise(100))
TEXT = api.compress(prose(3000), slot_tokens=SLOT_TOKENS, engines=FakeEngines())


def read(data: bytes) -> None:
    with api.open(io.BytesIO(data), engines=FakeEngines()) as reader:
        reader.read()


def decompress_range(data: bytes) -> None:
    api.decompress_stream(io.BytesIO(data), io.BytesIO(), byte_range=(0, 1 << 20), engines=FakeEngines())


def decompress(data: bytes) -> None:
    api.decompress(data, engines=FakeEngines())


WAYS = pytest.mark.parametrize("way", [decompress, decompress_range, read])


def inspect(data: bytes) -> None:
    api.inspect(data)


def message(way: Callable[[bytes], None], data: bytes) -> str:
    with pytest.raises(FormatError) as caught:
        way(data)
    return str(caught.value)


def flipped(data: bytes, at: int) -> bytes:
    at %= len(data)
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]


@WAYS
def test_every_damage_of_a_part_says_so_and_gives_the_advice_once(way: Callable[[bytes], None]) -> None:
    end = PART.index(b"\xd3\x3e\x69\x1b")
    for at in (11, 14, 20, 40, 140, 160):
        found = message(way, flipped(PART, at))
        assert " is damaged: " in found
        assert found.count(ADVICE) == 1
    if way is decompress:
        for at in range(end, len(PART)):
            assert message(way, flipped(PART, at)).count(ADVICE) == 1
    for size in (12, 30, 150):
        assert message(way, PART[:size]).count(ADVICE) == 1


@WAYS
def test_a_single_frame_has_nothing_to_salvage(way: Callable[[bytes], None]) -> None:
    for at in (8, 30, -1):
        found = message(way, flipped(SINGLE, at))
        assert found.startswith("frame 0 at byte 0")
        assert " is damaged: " in found
        assert ADVICE not in found
    assert ADVICE not in message(way, SINGLE[:50])
    assert message(way, SINGLE + flipped(SINGLE, 30)).count(ADVICE) == 1


def test_inspection_gives_the_advice_too() -> None:
    assert message(inspect, flipped(PART, 20)).count(ADVICE) == 1


def test_a_damaged_lane_says_so() -> None:
    found = message(decompress, flipped(TEXT, len(TEXT) // 2))
    assert "(model) is damaged: " in found


def test_what_salvage_reports_holds_no_advice() -> None:
    for data in (flipped(PART, 40), flipped(PART, 20), flipped(PART, 11), PART[:150], PART + b"junk"):
        summary = api.decompress_stream(io.BytesIO(data), io.BytesIO(), salvage=True)
        assert summary.lost
        assert not any(ADVICE in lost.reason for lost in summary.lost)


@WAYS
def test_what_is_no_archive_says_so_first(way: Callable[[bytes], None]) -> None:
    found = message(way, b"plain text")
    assert found.startswith("this is not a SpecCompact file: it starts with 70")
    assert "frame 0 at byte 0" in found
    assert ADVICE not in found


def test_junk_behind_a_part_says_how_much_is_good() -> None:
    with pytest.raises(NotSpecCompactError) as caught:
        decompress(PART + b"junk")
    assert str(caught.value).startswith(f"what follows behind {len(PART)} good bytes is not a SpecCompact file: ")
    assert str(caught.value).count(ADVICE) == 1
    summary = api.decompress_stream(io.BytesIO(flipped(PART, 40) + b"junk"), io.BytesIO(), salvage=True)
    assert "good" not in summary.lost[-1].reason
