import io

import pytest

from speccompact import api
from speccompact.container import salvage as salvaging
from speccompact.container.fields import pack_varint
from speccompact.container.format import END, MAGIC, SYNC, TRAILER_BYTES, EndBlock, SeekIndex, pack_end_block
from speccompact.container.framing import Frame
from speccompact.container.limits import Limits
from speccompact.container.salvage import Salvage
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


def embedded(shape: str) -> tuple[list[bytes], bytes, int, int]:
    """Return contents, the second holds an archive that begins like theirs; theirs; where its frame 1 and end are."""
    inner = raw_part([CONTENTS[0], b"!!OTHER FILE!!" + noise(300, 8), b"more of it"])
    if shape == "piece":
        inner = b"".join(frames_of(inner)[2:4])[:-5]
    elif shape == "first frames":
        inner = inner[:-60]
    contents = [CONTENTS[0], noise(3000, 9) + inner + noise(500, 10), b"the end"]
    data = raw_part(contents)
    pieces = frames_of(data)
    return contents, data, len(pieces[0]) + len(pieces[1]), len(data) - len(pieces[-1])


@pytest.mark.parametrize("piped", [False, True])
@pytest.mark.parametrize("at", [0, 4, 7])
@pytest.mark.parametrize("shape", ["archive", "piece"])
def test_an_archive_inside_that_begins_alike_is_not_taken_for_ours(shape: str, at: int, piped: bool) -> None:
    """Sync marker, head and length of frame 1 are damaged; the header inside equals ours, and so do all its checks."""
    contents, data, second, _ = embedded(shape)
    data = flipped(data, second + at)
    target = io.BytesIO()
    source = Pipe(data, 100) if piped else io.BytesIO(data)
    summary = api.decompress_stream(source, target, salvage=True)  # type: ignore[arg-type]
    assert target.getvalue() == contents[0] + contents[2]
    assert ranges(summary) == [(100, 100 + len(contents[1]))]


@pytest.mark.parametrize("cut", [1, 20, 45, 70])
@pytest.mark.parametrize("shape", ["archive", "first frames", "piece"])
def test_without_an_index_the_chain_that_reaches_the_end_counts(shape: str, cut: int) -> None:
    contents, data, second, end = embedded(shape)
    content, summary = salvage(flipped(data, second)[:-cut])
    whole = len(data) - cut >= end
    assert content == contents[0] + (contents[2] if whole else b"")
    assert ranges(summary)[0] == (100, 100 + len(contents[1]) if whole else ranges(summary)[0][1])


@pytest.mark.parametrize("shape", ["archive", "first frames", "piece"])
def test_without_an_index_and_a_later_frame_everything_is_lost(shape: str) -> None:
    contents = embedded(shape)[0][:2]
    data = raw_part(contents)
    pieces = frames_of(data)
    second = len(pieces[0]) + len(pieces[1])
    for bad in (flipped(data, len(data) - len(pieces[-1]) + 8), data[: -len(pieces[-1])], data[:-400]):
        content, summary = salvage(flipped(bad, second))
        assert content == contents[0]
        assert ranges(summary) == [(100, None)]


def test_an_index_behind_which_a_single_frame_part_stands() -> None:
    """Nothing at the end of the input tells of it: it is found by search, and puts the part where it is."""
    contents, data, second, _ = embedded("archive")
    content, summary = salvage(flipped(data, second) + raw_single(b"tail"))
    assert content == contents[0] + contents[2] + b"tail"
    assert ranges(summary) == [(100, 100 + len(contents[1]))]


def test_two_damaged_heads_cost_two_frames() -> None:
    pieces = frames_of(PART)
    second, fourth = len(pieces[0]) + len(pieces[1]), len(b"".join(pieces[:4]))
    content, summary = salvage(flipped(flipped(PART, second), fourth))
    assert content == CONTENTS[0] + CONTENTS[2]
    assert ranges(summary) == [(100, 2100), (2150, 2220)]


def test_an_index_that_counts_what_never_was_is_not_believed() -> None:
    contents = [b"one frame of the two", b"the other frame"]
    pieces = frames_of(raw_part(contents))
    first, second = len(pieces[1]), len(pieces[2])
    for sizes in (
        [(first, 20), (second - 26, 15), (26, 1000)],
        [(first + 1, 20), (second - 1, 15)],
        [(first, 21), (second, 14)],
        [(first, 20), (second, 15), (0, 100)],
    ):
        index = SeekIndex.empty()
        for size in sizes:
            index.add(*size)
        forged = b"".join(pieces[:3]) + pack_end_block(EndBlock(index, pieces[0][:-4], bytes(8)))
        content, summary = salvage(forged)
        assert content == b"".join(contents)
        assert ranges(summary) == [(35, 35)]


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
    assert content == CONTENTS[0] + CONTENTS[3], "frames are looked for at their places"
    assert ranges(summary) == [(100, 2100), (2100, 2150)]


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


def test_missing_bytes_that_leave_as_many_as_the_end_block_has_are_a_loss() -> None:
    contents = [bytes([65 + number]) * (5 + number) for number in range(6)]
    data, pieces = raw_part(contents), frames_of(raw_part(contents))
    last = len(data) - len(pieces[-1]) - len(pieces[-2])
    for missing in range(len(SYNC), len(pieces[-2])):
        content, summary = salvage(data[: last + 1] + data[last + 1 + missing :])
        assert content == b"".join(contents[:5])
        assert ranges(summary) in ([(35, None)], [(35, 45)]), missing


def test_a_trailer_mark_in_a_payload_is_not_the_end_of_the_part() -> None:
    contents = [b"first frame of text", b"." * 28 + b"\xd3END" + raw_single(b"not of this archive") + bytes(300)]
    data = raw_part(contents)
    damaged = flipped(data, data.index(SYNC, 30) + 5)
    for broken in (damaged, flipped(damaged, len(data) - 1), damaged[:-TRAILER_BYTES]):
        content, summary = salvage(broken)
        assert content == contents[0]
        assert summary.lost[0].start == len(contents[0])
        assert summary.lost[0].stop in (
            len(content) + len(contents[1]),
            None,
        )


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
    salvage = Salvage(reader)
    while True:
        try:
            assert reader.next() is None
            break
        except FormatError:
            salvage.recover(None)
    assert source.parsed <= (1 << 18) + 3 * len(data)
    assert source.peeked <= 600 * len(data)


def test_frames_within_frames_are_not_decoded_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every head is good and promises all that follows, every payload is not what its check says."""
    monkeypatch.setattr(salvaging, "_REPEAT_BUDGET", 1 << 16)
    head = frames_of(raw_part([bytes(20_000)]))[1][:14]
    data = HEADER + head * 2000
    source = CountingSource(io.BytesIO(data))
    reader = FrameReader(source, Limits())
    salvage = Salvage(reader)
    while (frame := next_frame(reader, salvage)) is not None:
        with pytest.raises(DamagedError):
            frame.split_payload(reader.data(frame))
        salvage.recover(frame)
    assert source.peeked <= 60 * len(data)


def next_frame(reader: FrameReader, salvage: Salvage) -> Frame | None:
    while True:
        try:
            return reader.next()
        except FormatError:
            salvage.recover(None)


def test_a_part_without_frames_is_passed() -> None:
    content, summary = salvage(raw_part([]) + PART)
    assert content == WHOLE
    assert ranges(summary) == [(0, 0)]
