"""Where the frames of a part are by its index, as far as the index can be believed: it has to add up."""

import itertools
from array import array
from dataclasses import dataclass

from speccompact.container.fields import Cursor
from speccompact.container.format import (
    HEAD_CHECK_BYTES,
    MAX_END_BLOCK_BYTES,
    TRAILER_BYTES,
    EndBlock,
    parse_end_block,
    parse_trailer,
)
from speccompact.container.source import Source
from speccompact.errors import FormatError
from speccompact.params import MAX_FRAME_BYTES

MIN_FRAME_BYTES = 26
"""No frame of a multi-frame part is shorter: marker, head of four, its check, payload section of two, two checks."""

_MAX_PARTS = 1 << 16
"""So many parts at the end of an input are remembered, that hostile data do not fill the memory."""


@dataclass(frozen=True, slots=True)
class PartIndex:
    """The places of a part's frames, all of them and nothing between them.

    Attributes:
        header: bytes of the part's header.
        offsets: where each frame begins in the input, rising, and behind them where the end block does.
        starts: first content byte of each frame within the part, rising, and the content bytes of the part.
        start: where the part begins in the input.
        stop: where the trailer ends.
    """

    header: bytes
    offsets: "array[int]"
    starts: "array[int]"
    start: int
    stop: int

    @property
    def frames(self) -> int:
        """Number of frames."""
        return len(self.starts) - 1


def part_index(block: EndBlock, offset: int, size: int) -> PartIndex | None:
    """Return the places that `block`, of `size` bytes at `offset`, gives the frames; None where it does not add up."""
    sizes = block.index
    before = len(block.header) + HEAD_CHECK_BYTES
    start = offset - sum(sizes.compressed) - before
    sound = min(sizes.compressed) >= MIN_FRAME_BYTES and min(sizes.content) > 0
    if start < 0 or not sound or max(sizes.content) > MAX_FRAME_BYTES:
        return None
    return PartIndex(
        block.header,
        array("Q", itertools.accumulate(sizes.compressed, initial=start + before)),
        array("Q", itertools.accumulate(sizes.content, initial=0)),
        start,
        offset + size + TRAILER_BYTES,
    )


def read_part_index(source: Source, stop: int) -> PartIndex | None:
    """Return the index of the part whose trailer ends at `stop`, if there is one that can be read and believed.

    The position of `source`, which must be seekable, stays.
    """
    if stop < TRAILER_BYTES:
        return None
    try:
        block_bytes, part_bytes = parse_trailer(source.read_at(stop - TRAILER_BYTES, TRAILER_BYTES))
        offset = stop - TRAILER_BYTES - block_bytes
        if not 0 < block_bytes <= min(part_bytes, MAX_END_BLOCK_BYTES) or offset < 0:
            return None
        cursor = Cursor(source.read_at(offset, block_bytes))
        block = parse_end_block(cursor)
    except FormatError:
        return None
    if cursor.position != block_bytes:
        return None
    index = part_index(block, offset, block_bytes)
    return index if index is not None and index.start == stop - part_bytes else None


def trailing_parts(source: Source) -> dict[int, int]:
    """Return where the parts at the end of the input begin and end, from the last on, as far as they have an index."""
    parts: dict[int, int] = {}
    stop = source.tail(0)[1]
    while len(parts) < _MAX_PARTS and (index := read_part_index(source, stop)) is not None:
        parts[index.start] = stop
        stop = index.start
    return parts
