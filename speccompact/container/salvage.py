"""Finding the way again after damage: where is the next frame that can be trusted, and what lies between?

Called after `FrameReader.next`, or the decoding of the frame it gave, has failed; the frame is then still ahead in the
source. A marker counts only with a valid check behind it (32 bits, over the header of this very part), and only in
order, so that payloads that happen to contain an archive are not mistaken for frames.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from speccompact.container.fields import Cursor
from speccompact.container.format import (
    END,
    HEAD_CHECK_BYTES,
    MAGIC,
    MAX_END_BLOCK_BYTES,
    SYNC,
    TRAILER,
    TRAILER_BYTES,
    EndBlock,
    parse_end_block,
    parse_header,
    parse_trailer,
    sha_prefix,
)
from speccompact.container.framing import Frame
from speccompact.container.seekable import FrameReader, look_ahead
from speccompact.container.source import Source
from speccompact.errors import FormatError, LimitError

T = TypeVar("T")

_FIRST_WINDOW, _WINDOW = 1 << 12, 1 << 20
"""A search begins small: in hostile data the next marker is near, and there is one after every error."""

_PARSE_BUDGET = 1 << 18
"""Markers are believed worth a look as long as no more than this, and what was passed, went into looking. Hostile data
would else have the whole rest parsed at every marker; chance puts one marker into 4 GiB."""

_REPEAT_BUDGET = 1 << 26
"""Likewise for going back, and for looking again inside a frame that failed; after that, a salvage goes on behind the
frame, or at the next header."""

_FRAME_OR_END = re.compile(b"|".join(map(re.escape, (SYNC, END))))
_HEADER = re.compile(re.escape(MAGIC))


@dataclass(frozen=True, slots=True)
class Gap:
    """Content bytes [start, stop) of the whole input that the damage took; stop None where nobody knows.

    An empty gap means that only structure was hurt.
    """

    start: int
    stop: int | None


def recover(reader: FrameReader, frame: Frame | None) -> Gap:
    """Pass the damage that `reader` stands at, so that its `next` can go on.

    Args:
        reader: after an error.
        frame: the frame that failed after `next` gave it, or None if `next` itself failed.

    Modifies: the reader's place, part and expectations; the content check of the part is given up.
    """
    reader.salvaged = True
    start = reader.base + reader.content_start
    if reader.header is None:
        return _recover_header(reader, start)
    if frame is not None and _continues(reader, frame.compressed_bytes):
        reader.pass_over(frame)
        return Gap(start, frame.content_start + frame.head.content_bytes)
    if frame is not None:
        if not _may_repeat(reader):
            reader.source.skip(len(reader.source.peek(frame.compressed_bytes)) - 1)
        reader.repeated += frame.compressed_bytes
    origin = reader.source.offset
    if not reader.header.single:
        gap = _at_end(reader, start) if frame is None else None
        if gap is None and _may_repeat(reader):
            gap = _scan_part(reader, start, frame is not None)
        if gap is not None:
            return gap
    if reader.source.seekable:
        reader.repeated += reader.source.offset - origin
        reader.source.rewind(origin)
    known = reader.header.single and frame is not None
    if known and frame is not None:
        reader.content_start = frame.head.content_bytes
    reader.finish_part()
    _scan_header(reader)
    return Gap(start, reader.base if known else None)


def _recover_header(reader: FrameReader, start: int) -> Gap:
    """Take the header from its copy in the index, or look for the next part."""
    block = read_last_end_block(reader)
    if block is not None:
        header, header_bytes = parse_header(Cursor(block.header)), block.header
        reader.enter(header, header_bytes)
        gap = _scan_part(reader, start, False)
        if gap is not None:
            return gap
        reader.finish_part()
    else:
        reader.part += 1
        _scan_header(reader)
    return Gap(start, None)


def read_last_end_block(reader: FrameReader) -> EndBlock | None:
    """Return the end block of the part that begins here and ends with the input, if it can be read and trusted."""
    if not reader.source.seekable:
        return None
    tail, length = reader.source.tail(TRAILER_BYTES)
    try:
        block_bytes, part_bytes = parse_trailer(tail)
        if length - part_bytes != reader.source.offset or not 0 < block_bytes <= min(part_bytes, MAX_END_BLOCK_BYTES):
            return None
        tail, _ = reader.source.tail(block_bytes + TRAILER_BYTES)
        block = parse_end_block(Cursor(tail))
    except FormatError:
        return None
    before = len(block.header) + HEAD_CHECK_BYTES + sum(block.index.compressed)
    return block if before + block_bytes + TRAILER_BYTES == part_bytes else None


def _continues(reader: FrameReader, ahead: int) -> bool:
    """Whether the input goes on in an orderly way `ahead` bytes further on."""
    found = reader.source.peek(ahead + len(SYNC))
    if len(found) < ahead:
        return False
    assert reader.header is not None
    markers = (b"", MAGIC) if reader.header.single else (SYNC, END)
    return found[ahead:] in markers


def _at_end(reader: FrameReader, start: int) -> Gap | None:
    """Pass an end block that stands here: a good one after frames that are missing, or a damaged one.

    A damaged one is known by its last bytes, which are in place, and by what follows: nothing, or another part.
    """
    if reader.source.peek(len(END)) == END and _may_look(reader.source):
        gap = _end_here(reader, start)
        if gap is not None:
            return gap
    size = len(reader.expected_end())
    found = reader.source.peek(size + len(MAGIC))
    if found[size - len(TRAILER) : size] != TRAILER or found[size:] not in (b"", MAGIC):
        return None
    reader.source.skip(size)
    reader.finish_part()
    return Gap(start, start)


def _scan_part(reader: FrameReader, start: int, skip: bool) -> Gap | None:
    """Go to the next valid frame or end block of this part, from here or (`skip`) from the next byte on.

    Returns:
        None, at the end of the input, if there is none.
    """
    source = reader.source
    reader.patched = True
    source.skip(1 if skip else 0)
    return _scan(
        source,
        _FRAME_OR_END,
        lambda marker: _frame_here(reader, start) if marker == SYNC else _end_here(reader, start),
    )


def _scan(source: Source, markers: re.Pattern[bytes], look: Callable[[bytes], T | None]) -> T | None:
    """Go from marker to marker until `look`, called with the marker that the source stands at, finds something.

    Returns:
        What it found, or None at the end of the input. All markers are four bytes long.
    """
    size = _FIRST_WINDOW
    while window := source.peek(size):
        size, begin = min(4 * size, _WINDOW), source.offset
        for match in markers.finditer(window):
            source.skip(begin + match.start() - source.offset)
            found = look(match.group()) if _may_look(source) else None
            if found is not None:
                return found
        source.skip(begin + max(1, len(window) - len(SYNC) + 1) - source.offset)
    return None


def _may_look(source: Source) -> bool:
    return source.parsed <= _PARSE_BUDGET + source.offset


def _may_repeat(reader: FrameReader) -> bool:
    return reader.repeated <= _REPEAT_BUDGET + reader.source.offset


def _frame_here(reader: FrameReader, start: int) -> Gap | None:
    try:
        head = reader.head_at(0).head
    except (FormatError, LimitError):
        return None
    if head.ordinal < reader.ordinal or head.start < reader.content_start:
        return None
    reader.ordinal, reader.content_start = head.ordinal, head.start
    return Gap(start, reader.base + head.start)


def _end_here(reader: FrameReader, start: int) -> Gap | None:
    try:
        block, raw = look_ahead(reader.source, 0, MAX_END_BLOCK_BYTES, parse_end_block)
    except FormatError:
        return None
    total = sum(block.index.content)
    if block.header != reader.header_bytes or total < reader.content_start:
        return None
    reader.source.skip(min(len(raw) + TRAILER_BYTES, len(reader.source.peek(len(raw) + TRAILER_BYTES))))
    reader.content_start = total
    reader.finish_part()
    return Gap(start, reader.base)


def _scan_header(reader: FrameReader) -> None:
    """Go to the next valid header, or to the end of the input."""
    source = reader.source
    source.skip(1 if source.peek(1) else 0)
    _scan(source, _HEADER, lambda _: _header_here(reader) or None)


def _header_here(reader: FrameReader) -> bool:
    try:
        header, header_bytes = look_ahead(reader.source, 0, 64, parse_header)
        if header.single:
            reader.enter(header, header_bytes)
            reader.head_at(0)
            return True
    except (FormatError, LimitError):
        return False
    finally:
        reader.header, reader.header_bytes = None, b""
    size = len(header_bytes)
    check = reader.source.peek(size + HEAD_CHECK_BYTES)[size:]
    return check == sha_prefix(HEAD_CHECK_BYTES, header_bytes)
