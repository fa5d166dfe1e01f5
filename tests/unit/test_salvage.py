import io

import pytest

from speccompact import api
from speccompact.container import salvage as salvaging
from speccompact.container.fields import pack_varint
from speccompact.container.format import END, MAGIC, SYNC, TRAILER_BYTES
from speccompact.container.framing import Frame
from speccompact.container.limits import Limits
from speccompact.container.salvage import recover
from speccompact.container.seekable import FrameReader
from speccompact.container.source import Source
from speccompact.errors import DamagedError, FormatError
from speccompact.streams.summary import LostRange, Summary
from tests.archives import Pipe, noise, raw_part, raw_single
from tests.unit.test_seekable import frames_of

CONTENTS = [noise(100, 1), noise(2000, 2), noise(50, 3), noise(70, 4)]
PART = raw_part(CONTENTS)
WHOLE = b"".join(CONTENTS)
STARTS = [0, 100, 2100, 2150]


def salvage(data: bytes) -> tuple[bytes, Summary]:
    target = io.BytesIO()
    summary = api.decompress_stream(io.BytesIO(data), target, salvage=True)
    return target.getvalue(), summary


def ranges(summary: Summary) -> list[tuple[int, int | None]]:
    return [(lost.start, lost.stop) for lost in summary.lost]


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]


def test_nothing_lost() -> None:
    assert salvage(PART) == (WHOLE, api.decompress_stream(io.BytesIO(PART), io.BytesIO()))


def test_every_flipped_byte_costs_at_most_its_frame() -> None:
    pieces = frames_of(PART)
    at = 0
    for number, piece in enumerate(pieces):
        for offset in range(0, len(piece), 1 if len(piece) < 200 else 37):
            content, summary = salvage(flipped(PART, at + offset))
            if number == 0:
                assert content == WHOLE, "the header has a copy"
                assert ranges(summary) == [(0, 0)]
            elif number == 5:
                assert content == WHOLE
                assert ranges(summary) == [(2220, 2220)]
            else:
                assert content == b"".join(CONTENTS[: number - 1] + CONTENTS[number:])
                assert ranges(summary) == [(STARTS[number - 1], STARTS[number - 1] + len(CONTENTS[number - 1]))]
                assert f"frame {number - 1}" in summary.lost[0].reason
        at += len(piece)


def test_removed_bytes() -> None:
    """Where the place of the next frame is wrong too, it is searched for."""
    second = len(frames_of(PART)[0]) + len(frames_of(PART)[1])
    for start, size in ((second + 40, 100), (second - 10, 30), (second + 500, 1000)):
        content, summary = salvage(PART[:start] + PART[start + size :])
        assert content in (b"".join([CONTENTS[0], *CONTENTS[2:]]), b"".join(CONTENTS[2:]))
        assert summary.lost[-1].stop == 2100


@pytest.mark.parametrize("missing", [1, 2, 3, 4])
def test_a_missing_frame(missing: int) -> None:
    pieces = frames_of(PART)
    content, summary = salvage(b"".join(pieces[:missing] + pieces[missing + 1 :]))
    assert content == b"".join(CONTENTS[: missing - 1] + CONTENTS[missing:])
    assert ranges(summary) == [(STARTS[missing - 1], STARTS[missing - 1] + len(CONTENTS[missing - 1]))]


def test_frames_out_of_order() -> None:
    pieces = frames_of(PART)
    content, summary = salvage(b"".join(pieces[index] for index in (0, 1, 3, 2, 4, 5)))
    assert content == b"".join([CONTENTS[0], CONTENTS[2], CONTENTS[3]])
    assert (100, 2100) in ranges(summary)


def test_every_truncation_keeps_the_frames_before_it() -> None:
    pieces = frames_of(PART)
    for size in range(0, len(PART), 13):
        content, summary = salvage(PART[:size])
        ends = [sum(map(len, pieces[: number + 2])) for number in range(4)]
        assert content == b"".join(part for part, end in zip(CONTENTS, ends, strict=True) if end <= size)
        # Only the index, where it is whole, tells that nothing is missing.
        known = size >= len(PART) - TRAILER_BYTES
        assert ranges(summary) == [(len(content), len(content) if known else None)]


def test_a_single_frame_part_between_others() -> None:
    single = raw_single(noise(500))
    for at in range(0, len(single), 7):
        content, summary = salvage(PART + flipped(single, at) + PART)
        assert content == WHOLE + WHOLE
        assert [lost.start for lost in summary.lost] == [2220]
        assert summary.lost[0].stop in (2720, None)


def test_a_part_whose_end_is_gone_is_followed_by_another() -> None:
    content, summary = salvage(PART[:300] + raw_part([b"next part"], b"more"))
    assert content == CONTENTS[0] + b"next part"
    assert ranges(summary) == [(100, None)]


def test_an_archive_inside_a_damaged_payload_is_not_taken_for_a_frame() -> None:
    contents = [b"before", raw_part([b"inner 1", b"inner 2"], b"innr") + bytes(100), b"after"]
    data = raw_part(contents)
    content, summary = salvage(flipped(data, data.index(bytes(50))))
    assert content == b"beforeafter"
    assert ranges(summary) == [(6, 6 + len(contents[1]))]
    at = data.index(bytes(50))
    content, _ = salvage(data[:at] + data[at + 10 :])
    assert content == b"beforeafter"


def test_through_a_pipe() -> None:
    target = io.BytesIO()
    source = Pipe(flipped(PART, 500), 100)
    summary = api.decompress_stream(source, target, salvage=True)  # type: ignore[arg-type]
    assert target.getvalue() == b"".join([CONTENTS[0], *CONTENTS[2:]])
    assert ranges(summary) == [(100, 2100)]


@pytest.mark.parametrize("data", [b"", b"\xd3", noise(5000), b"\xd3SPC" * 300, b"\xd3\xc1\x96\xe4" * 300])
def test_no_archive_at_all(data: bytes) -> None:
    content, summary = salvage(data)
    assert content == b""
    assert [(lost.start, lost.stop) for lost in summary.lost] == [(0, None)]
    assert isinstance(summary.lost[0], LostRange)


class CountingSource(Source):
    """Counts the bytes that `peek` has handed out."""

    peeked = 0

    def peek(self, size: int) -> bytes:
        data = super().peek(size)
        self.peeked += len(data)
        return data


HEADER = frames_of(PART)[0]
HOSTILE = {
    "end markers": HEADER + (END + pack_varint(1 << 40)) * 3000,
    "sync markers": HEADER + SYNC * 20_000,
    "sync markers that promise many slots": HEADER + (SYNC + b"\x01\0\0" + pack_varint(4096)) * 3000,
    "magic numbers": MAGIC * 20_000,
    "headers": HEADER * 3000,
    "headers with end markers": (HEADER + END + pack_varint(1 << 40)) * 3000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_data_are_looked_at_a_bounded_number_of_times(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(salvaging, "_REPEAT_BUDGET", 1 << 20)
    data = HOSTILE[name]
    source = CountingSource(io.BytesIO(data))
    reader = FrameReader(source, Limits())
    while True:
        try:
            assert reader.next() is None
            break
        except FormatError:
            recover(reader, None)
    assert source.parsed <= (1 << 18) + 3 * len(data)
    assert source.peeked <= 600 * len(data)


def test_frames_within_frames_are_not_decoded_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every head is good and promises all that follows, every payload is not what its check says."""
    monkeypatch.setattr(salvaging, "_REPEAT_BUDGET", 1 << 16)
    head = frames_of(raw_part([bytes(20_000)]))[1][:14]
    data = HEADER + head * 2000
    source = CountingSource(io.BytesIO(data))
    reader = FrameReader(source, Limits())
    while (frame := next_frame(reader)) is not None:
        with pytest.raises(DamagedError):
            frame.split_payload(reader.data(frame))
        recover(reader, frame)
    assert source.peeked <= 30 * len(data)


def next_frame(reader: FrameReader) -> Frame | None:
    while True:
        try:
            return reader.next()
        except FormatError:
            recover(reader, None)


def test_a_part_without_frames_is_passed() -> None:
    content, summary = salvage(raw_part([]) + PART)
    assert content == WHOLE
    assert ranges(summary) == [(0, 0)]
