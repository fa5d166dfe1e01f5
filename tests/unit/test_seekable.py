import io

import pytest

from speccompact import api
from speccompact.container.format import SYNC, FileHeader
from speccompact.container.framing import Frame
from speccompact.container.limits import Limits
from speccompact.container.seekable import FrameReader, PartWriter
from speccompact.container.source import Source
from speccompact.errors import (
    ArgumentError,
    DamagedError,
    FormatError,
    LimitError,
    NotSpecCompactError,
    TruncatedError,
)
from tests.archives import MODEL, Pipe, noise, raw_frame, raw_part, raw_single

CONTENTS = [noise(100, 1), noise(2000, 2), noise(1, 3)]


def read(data: bytes, limits: Limits | None = None) -> list[tuple[Frame, bytes]]:
    """Return frames and contents of an archive of raw slots."""
    reader = FrameReader(Source(io.BytesIO(data)), limits or Limits())
    found = []
    while (frame := reader.next()) is not None:
        compressed = reader.data(frame)
        content = frame.split_payload(compressed)[:-1]
        reader.accept(frame, compressed, content)
        found.append((frame, content))
    return found


def test_a_part_comes_back() -> None:
    found = read(raw_part(CONTENTS))
    assert [content for _, content in found] == CONTENTS
    assert [(frame.head.ordinal, frame.head.start) for frame, _ in found] == [(0, 0), (1, 100), (2, 2100)]
    assert found[0][0].header == FileHeader(0, None, b"test")


def test_parts_follow_each_other() -> None:
    found = read(raw_part(CONTENTS) + raw_single(b"middle") + raw_part(CONTENTS[:1]))
    assert [content for _, content in found] == [*CONTENTS, b"middle", CONTENTS[0]]
    assert [frame.part for frame, _ in found] == [0, 0, 0, 1, 2]
    assert [frame.content_start for frame, _ in found] == [0, 100, 2100, 2101, 2107]


def test_the_same_bytes_through_a_pipe() -> None:
    data = raw_part(CONTENTS)
    reader = FrameReader(Source(Pipe(data, 1)), Limits())  # type: ignore[arg-type]
    names = []
    while (frame := reader.next()) is not None:
        names.append(frame.name)
        reader.pass_over(frame)
    assert names == [frame.name for frame, _ in read(data)]
    assert reader.source.offset == len(data)


@pytest.mark.parametrize("data", [raw_part(CONTENTS), raw_single(CONTENTS[1])], ids=["part", "single"])
def test_every_truncation_is_an_error(data: bytes) -> None:
    for size in range(len(data)):
        with pytest.raises(TruncatedError):
            read(data[:size])


@pytest.mark.parametrize("data", [raw_part(CONTENTS), raw_single(CONTENTS[1])], ids=["part", "single"])
def test_every_flipped_byte_is_an_error(data: bytes) -> None:
    for at in range(len(data)):
        with pytest.raises((FormatError, LimitError)):
            read(data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :])


def test_passing_over_still_compares_the_index() -> None:
    data = raw_part(CONTENTS)
    end = data.index(b"\xd3\x3e\x69\x1b")
    for at in range(end, len(data)):
        reader = FrameReader(Source(io.BytesIO(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])), Limits())
        with pytest.raises(FormatError):
            while (frame := reader.next()) is not None:
                reader.pass_over(frame)


def frames_of(data: bytes) -> list[bytes]:
    """Return header, frames and end block of a part as pieces."""
    cuts = [0, *(frame.offset for frame, _ in read(data))]
    end = cuts[-1] + read(data)[-1][0].compressed_bytes
    return [data[start:stop] for start, stop in zip(cuts, [*cuts[1:], end], strict=True)] + [data[end:]]


@pytest.mark.parametrize("order", [(0, 2, 1, 3, 4), (0, 1, 3, 4), (0, 1, 1, 2, 3, 4), (0, 2, 3, 4), (0, 1, 2, 4)])
def test_frames_out_of_order_are_named(order: tuple[int, ...]) -> None:
    pieces = frames_of(raw_part(CONTENTS))
    with pytest.raises(DamagedError, match=r"frame \d"):
        read(b"".join(pieces[index] for index in order))


def test_a_frame_of_another_file_is_refused() -> None:
    mine, other = frames_of(raw_part(CONTENTS)), frames_of(raw_part(CONTENTS, b"else"))
    with pytest.raises(DamagedError, match="head check"):
        read(b"".join([mine[0], mine[1], other[2], mine[3], mine[4]]))


def test_garbage_behind_a_part() -> None:
    with pytest.raises(NotSpecCompactError, match="part 1, frame 0 at byte"):
        read(raw_single(b"content") + b"garbage")


def test_limits_are_checked_before_the_payload_is_read() -> None:
    data = raw_part(CONTENTS)
    with pytest.raises(LimitError, match="frame 1 at byte"):
        read(data, Limits(frame_bytes=1999))
    with pytest.raises(LimitError, match="slots"):
        read(data, Limits(frame_slots=0))
    assert read(data, Limits(frame_bytes=2000))


@pytest.mark.parametrize("values", [{"output_bytes": -1}, {"frame_bytes": 1 << 40}, {"frame_slots": -2}])
def test_limits_make_sense(values: dict[str, int]) -> None:
    with pytest.raises(ArgumentError, match=next(iter(values))):
        Limits(**values)


def test_a_bomb_takes_no_memory() -> None:
    head = bytes([0x12]) + (1 << 62).to_bytes(9, "little")
    with pytest.raises(FormatError):
        read(raw_single(b"x")[:6] + head + bytes(20))


def test_a_model_in_the_header_costs_twelve_bytes() -> None:
    sizes = []
    for model in (None, MODEL):
        target = io.BytesIO()
        writer = PartWriter(target, FileHeader(5, model, b"test"))
        writer.frame(*raw_frame(b"content"), b"content")
        writer.close()
        assert writer.written == len(target.getvalue())
        sizes.append(writer.written)
    assert sizes[1] - sizes[0] == 2 * 12


def test_sync_marker_inside_a_payload() -> None:
    contents = [SYNC * 10, raw_part([b"inner"]), b"last"]
    assert [content for _, content in read(raw_part(contents))] == contents


def test_a_part_without_frames_is_refused() -> None:
    with pytest.raises(DamagedError, match="without a frame"):
        read(raw_part([]))
    with pytest.raises(DamagedError, match="without a frame"):
        api.open(io.BytesIO(raw_part([])))
