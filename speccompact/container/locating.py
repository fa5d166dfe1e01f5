"""Where the frames of a seekable input are: from the index in one read, or by walking from head to head."""

import bisect
from dataclasses import dataclass

from speccompact.container.format import HEAD_CHECK_BYTES
from speccompact.container.framing import Frame, locate_error, place
from speccompact.container.limits import Limits
from speccompact.container.partindex import read_part_index
from speccompact.container.seekable import FrameReader
from speccompact.container.source import Source
from speccompact.errors import DamagedError, FormatError


@dataclass(frozen=True, slots=True)
class FrameMap:
    """Every frame of an input, in order.

    Attributes:
        offsets: where each frame starts in the input (bytes).
        starts: first content byte of each frame, rising, and the total content bytes at the end.
        parts: (number of the part, first frame, offset of the header, content bytes before it) of every part.
    """

    offsets: list[int]
    starts: list[int]
    parts: list[tuple[int, int, int, int]]

    @property
    def content_bytes(self) -> int:
        """Content bytes of the whole input."""
        return self.starts[-1]

    def find(self, position: int) -> int:
        """Return the number of the frame that holds content byte `position`, which must exist."""
        return bisect.bisect_right(self.starts, position) - 1


def locate(source: Source, limits: Limits) -> FrameMap:
    """Return the frames of `source`, which must be seekable and stand at its start.

    One part with an intact index takes two reads. Anything else is walked: a read for each frame's head.

    Raises:
        FormatError: the structure is damaged.
        LimitError: a frame is larger than the limits allow.
    """
    reader = FrameReader(source, limits)
    index = read_part_index(source, source.tail(0)[1])
    if index is not None and index.start == source.offset:
        return FrameMap(index.offsets[:-1].tolist(), index.starts.tolist(), [(0, 0, 0, 0)])
    offsets: list[int] = []
    starts: list[int] = []
    parts: list[tuple[int, int, int, int]] = []
    part = -1
    while (frame := reader.next()) is not None:
        if frame.part != part:
            part = frame.part
            header_bytes = 0 if frame.header.single else len(frame.header_bytes) + HEAD_CHECK_BYTES
            parts.append((part, len(offsets), frame.offset - header_bytes, reader.base))
        if frame.head.content_bytes:
            offsets.append(frame.offset)
            starts.append(frame.content_start)
        reader.pass_over(frame)
    return FrameMap(offsets, [*starts, reader.base], parts)


def frame_at(source: Source, limits: Limits, frames: FrameMap, number: int) -> tuple[Frame, bytes]:
    """Read frame `number` of a map: the frame and its compressed bytes. Raises what `head_at` does."""
    frame = head_at(source, limits, frames, number)
    return frame, source.peek(frame.compressed_bytes)


def head_at(source: Source, limits: Limits, frames: FrameMap, number: int) -> Frame:
    """Read the head of frame `number` of a map; the source then stands at the frame.

    Raises:
        FormatError: it is damaged, or the map is not of this input.
        LimitError: the frame is larger than the limits allow.
    """
    entry = bisect.bisect_right(frames.parts, number, key=lambda part: part[1]) - 1
    part, first, header_offset, base = frames.parts[entry]
    reader = FrameReader(source, limits)
    reader.part, reader.base = part, base
    source.rewind(header_offset)
    try:
        _begin_part(reader)
        source.rewind(frames.offsets[number])
        reader.ordinal, reader.content_start = number - first, frames.starts[number] - base
        frame = reader.next()
    except FormatError as error:
        raise type(error)(f"{error} (looking for content byte {frames.starts[number]})") from None
    if frame is None or frame.head.content_bytes != frames.starts[number + 1] - frames.starts[number]:
        where = place(part, number - first, frames.offsets[number])
        raise DamagedError(f"the index is damaged: it disagrees with {where}")
    return frame


def _begin_part(reader: FrameReader) -> None:
    where = f"the header at byte {reader.source.offset}"
    try:
        reader.begin_part()
    except FormatError as error:
        raise locate_error(error, where) from None
