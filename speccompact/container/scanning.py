"""Searching a part without an index: chains of frames that may be its own, told from those inside a payload.

A payload may hold pieces of an archive whose header is the same, so that a frame found by search proves nothing. A
frame at its place is followed by another, and so on to the end of the part; what a payload holds ends before.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from speccompact.container.format import END, HEAD_CHECK_BYTES, MAX_END_BLOCK_BYTES, SYNC, EndBlock, parse_end_block
from speccompact.container.frames import MAX_HEAD_BYTES
from speccompact.container.partindex import MIN_FRAME_BYTES, PartIndex, part_index
from speccompact.container.seekable import FrameReader, look_ahead
from speccompact.container.source import Source
from speccompact.errors import FormatError, LimitError, TruncatedError
from speccompact.params import MAX_FRAME_BYTES, MAX_FRAME_SLOTS

T = TypeVar("T")

_FIRST_WINDOW, _WINDOW = 1 << 12, 1 << 20
"""A search begins small: in hostile data the next marker is near, and there is one after every error."""

_PARSE_BUDGET = 1 << 18
"""Markers are believed worth a look as long as no more than this, and what was passed, went into looking. Hostile data
would else have the whole rest parsed at every marker; chance puts one marker into 4 GiB."""

_LONGEST_FRAME = MAX_FRAME_BYTES + MAX_FRAME_SLOTS + MAX_HEAD_BYTES + MIN_FRAME_BYTES
"""A chain longer than this is inside no payload."""

_SHORTEST_HEAD = 12
"""Marker, head and check: what is inside a payload lies at least so far behind the beginning of the frame."""

_MAX_OPEN = 1 << 12
"""Chains that wait for their next frame; data that are not hostile have a few."""

_FRAME_OR_END = re.compile(b"|".join(map(re.escape, (SYNC, END))))


@dataclass(slots=True)
class Chain:
    """Frames that follow each other exactly.

    Attributes:
        begin: where the first begins in the input.
        last, stop: where the last begins and ends.
        ordinal, start: what the head of the first says.
        next_ordinal, next_start: what a frame at `stop` would say.
    """

    begin: int
    ordinal: int
    start: int
    last: int
    stop: int
    next_ordinal: int
    next_start: int

    @property
    def sure(self) -> bool:
        """Whether no payload can hold it."""
        return self.stop - self.begin > _LONGEST_FRAME


class Survey:
    """One look through the rest of the input for what belongs to the part that `reader` is in.

    The place of the source is behind the last byte afterwards.

    Attributes:
        index: an index further on that puts the part where it is, or None. The last one, if there are several.
        chain: where there is no index, the frames to go on with, or None if none can be told from those of a payload.
    """

    def __init__(self, reader: FrameReader) -> None:
        self._reader = reader
        self._origin = reader.source.offset
        self._open: dict[int, Chain] = {}
        self._ended: list[Chain] = []
        self._next_drop = 0
        self.index: PartIndex | None = None
        self.chain: Chain | None = None

    def run(self, skip: int) -> None:
        """Look at everything from `skip` bytes ahead on."""
        source = self._reader.source
        source.skip(skip)
        scan(source, _FRAME_OR_END, self._look)
        length = source.offset
        for chain in self._open.values():
            reaches = chain.stop == length or (chain.stop > length and chain.last > chain.begin)
            if reaches or chain.sure or (chain.stop < length and self._cut_at(chain.stop)):
                self._ended.append(chain)
        sure = [chain for chain in self._ended if chain.sure]
        if sure:
            self.chain = min(sure, key=lambda chain: chain.begin)
        elif self._ended:
            self.chain = max(self._ended, key=lambda chain: (min(chain.stop, length), -chain.begin))

    def _look(self, marker: bytes) -> None:
        if marker == SYNC:
            self._frame_here()
        else:
            self._end_here()

    def _frame_here(self) -> None:
        reader, here = self._reader, self._reader.source.offset
        try:
            frame = reader.head_at(0)
        except (FormatError, LimitError):
            return
        head, stop = frame.head, here + frame.compressed_bytes
        if head.ordinal < reader.ordinal or head.start < reader.content_start:
            return
        chain = self._open.get(here)
        if chain is None or (chain.next_ordinal, chain.next_start) != (head.ordinal, head.start):
            chain = Chain(here, head.ordinal, head.start, here, here, head.ordinal, head.start)
        else:
            del self._open[here]
        chain.last, chain.stop = here, stop
        chain.next_ordinal, chain.next_start = head.ordinal + 1, head.start + head.content_bytes
        other = self._open.get(stop)
        if len(self._open) >= _MAX_OPEN and here >= self._next_drop:
            self._drop_broken(here)
        if len(self._open) < _MAX_OPEN and (other is None or chain.begin < other.begin):
            self._open[stop] = chain

    def _drop_broken(self, here: int) -> None:
        """Forget chains that nothing has continued."""
        self._ended += [chain for chain in self._open.values() if chain.sure and chain.stop < here]
        self._open = {stop: chain for stop, chain in self._open.items() if stop >= here}
        self._next_drop = here + _WINDOW

    def _end_here(self) -> None:
        reader, here = self._reader, self._reader.source.offset
        try:
            block, raw = look_ahead(reader.source, 0, MAX_END_BLOCK_BYTES, parse_end_block)
        except FormatError:
            return
        if block.header != reader.header_bytes:
            return
        index = part_index(block, here, len(raw))
        if index is not None and index.start == reader.part_offset and agrees(index, reader, self._origin):
            self.index = index
            return
        count, total = len(block.index.content), sum(block.index.content)
        chain = self._open.pop(here, None) or Chain(here, count, total, here, here, count, total)
        fits = (chain.next_ordinal, chain.next_start) == (count, total) and chain.start >= reader.content_start
        # Where bytes went missing, what is left lies before its place. What a payload holds lies behind it.
        if fits and (chain.sure or part_shift(block, here, reader) < _SHORTEST_HEAD):
            self._ended.append(chain)

    def _cut_at(self, offset: int) -> bool:
        """Whether the input ends within the head or the end block that begins at `offset`."""
        source = self._reader.source
        length = source.offset
        if length - offset > MAX_HEAD_BYTES:
            return False
        source.rewind(offset)
        try:
            if source.peek(len(END)) == END:
                look_ahead(source, 0, MAX_END_BLOCK_BYTES, parse_end_block)
            else:
                self._reader.head_at(0)
        except TruncatedError:
            return True
        except (FormatError, LimitError):
            return False
        finally:
            source.rewind(length)
        return False


def agrees(index: PartIndex, reader: FrameReader, offset: int) -> bool:
    """Whether the next frame that `reader` calls for is at `offset` by the index, too, with the content before it."""
    number = reader.ordinal
    if number > index.frames or index.header != reader.header_bytes:
        return False
    return index.offsets[number] == offset and index.starts[number] == reader.content_start


def part_shift(block: EndBlock, offset: int, reader: FrameReader) -> int:
    """Return how many bytes the end block at `offset` lies behind the place that its index and the part call for."""
    return offset - reader.part_offset - len(block.header) - HEAD_CHECK_BYTES - sum(block.index.compressed)


def scan(source: Source, markers: re.Pattern[bytes], look: Callable[[bytes], T | None]) -> T | None:
    """Go from marker to marker until `look`, called with the marker that the source stands at, finds something.

    Returns:
        What it found, or None at the end of the input. All markers are four bytes long.
    """
    size = _FIRST_WINDOW
    while window := source.peek(size):
        size, begin = min(4 * size, _WINDOW), source.offset
        for match in markers.finditer(window):
            source.skip(begin + match.start() - source.offset)
            found = look(match.group()) if may_look(source) else None
            if found is not None:
                return found
        source.skip(begin + max(1, len(window) - len(SYNC) + 1) - source.offset)
    return None


def may_look(source: Source) -> bool:
    """Whether another structure may be looked for: not, once hostile data have had more read than there is of them."""
    return source.parsed <= _PARSE_BUDGET + source.offset
