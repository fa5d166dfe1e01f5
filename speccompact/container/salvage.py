"""Getting on after damage: where is the next frame that can be trusted, and what lies between?

The index of the part, where it is intact, knows every place, and nothing is searched. Without it a marker counts only
with a valid check behind it (32 bits, over the header of this very part), in order, and at the head of a chain that no
payload could hold (`scanning`): payloads may hold an archive whose header is the same.
"""

import re
from dataclasses import dataclass

from speccompact.container.fields import Cursor
from speccompact.container.format import (
    END,
    HEAD_CHECK_BYTES,
    MAGIC,
    MAX_END_BLOCK_BYTES,
    SYNC,
    TRAILER,
    TRAILER_BYTES,
    parse_end_block,
    parse_header,
    sha_prefix,
)
from speccompact.container.framing import Frame
from speccompact.container.partindex import PartIndex, read_part_index, trailing_parts
from speccompact.container.scanning import Survey, agrees, may_look, part_shift, scan
from speccompact.container.seekable import FrameReader, look_ahead
from speccompact.errors import FormatError, LimitError, TruncatedError

_REPEAT_BUDGET = 1 << 26
"""So many bytes, and those of the input once more, may be looked at in vain and gone through again; after that, a
salvage goes on behind the frame that failed, or at the next header."""

_PROBE_BYTES = 1 << 16
"""What a look at a header that leads nowhere is reckoned to cost, besides what it passes."""

_HEADER = re.compile(re.escape(MAGIC))


@dataclass(frozen=True, slots=True)
class Gap:
    """Content bytes [start, stop) of the whole input that the damage took; stop None where nobody knows.

    An empty gap means that only structure was hurt.
    """

    start: int
    stop: int | None


class Salvage:
    """Passes the damage that `reader` meets. Its source must be seekable, and stand at the beginning of the archive."""

    def __init__(self, reader: FrameReader) -> None:
        self._reader = reader
        self._source = reader.source
        self._length = reader.source.tail(0)[1]
        self._parts: dict[int, int] | None = None
        self._index: PartIndex | None = None
        self._sought = -1
        self._repeated = 0

    def recover(self, frame: Frame | None) -> Gap:
        """Pass the damage that the reader stands at, so that its `next` can go on.

        Args:
            frame: the frame that failed after `next` gave it, or None if `next` itself failed.

        Modifies: the reader's place, part and expectations; the content check of the part is given up.
        """
        reader = self._reader
        reader.salvaged = True
        start = reader.base + reader.content_start
        index = self._known_index()
        if reader.header is None:
            if index is None:
                reader.part += 1
                self._next_part()
                return Gap(start, None)
            reader.enter(parse_header(Cursor(index.header)), index.header)
            reader.patched = True
            self._source.rewind(index.offsets[0])
            return Gap(start, start)
        if index is not None and agrees(index, reader, self._source.offset):
            return self._by_index(index, start)
        if frame is not None and self._continues(frame.compressed_bytes):
            reader.pass_over(frame)
            return Gap(start, frame.content_start + frame.head.content_bytes)
        return self._search(frame, start)

    def _known_index(self) -> PartIndex | None:
        """Return the index of the part that the reader is in, by its place at the end of the input or behind others."""
        begin = self._reader.part_offset
        if self._sought != begin:
            if self._parts is None:
                self._parts = trailing_parts(self._source)
            self._sought = begin
            self._index = read_part_index(self._source, self._parts.get(begin, 0))
        return self._index

    def _by_index(self, index: PartIndex, start: int) -> Gap:
        """Give up the frame that belongs here, and go to the next, or behind the end block."""
        reader, after = self._reader, self._reader.ordinal + 1
        reader.patched = True
        reader.ordinal, reader.content_start = after, index.starts[min(after, index.frames)]
        stop = reader.base + reader.content_start
        if after <= index.frames:
            self._source.rewind(index.offsets[after])
        else:
            self._source.rewind(min(index.stop, self._length))
            reader.finish_part()
        return Gap(start, stop)

    def _search(self, frame: Frame | None, start: int) -> Gap:
        reader, source = self._reader, self._source
        assert reader.header is not None
        single = reader.header.single
        if frame is not None:
            if not self._may_repeat():
                source.skip(len(source.peek(frame.compressed_bytes)) - 1)
            self._repeated += frame.compressed_bytes
        origin = source.offset
        if not single:
            gap = self._at_end(start) if frame is None else None
            if gap is None and self._may_repeat():
                gap = self._survey(start, frame is not None)
            if gap is not None:
                return gap
        self._go_back(origin)
        known = single and frame is not None
        if known and frame is not None:
            reader.content_start = frame.head.content_bytes
        reader.finish_part()
        self._next_part()
        return Gap(start, reader.base if known else None)

    def _continues(self, ahead: int) -> bool:
        """Whether the input goes on in an orderly way `ahead` bytes further on."""
        found = self._source.peek(ahead + len(SYNC))
        if len(found) < ahead:
            return False
        assert self._reader.header is not None
        markers = (b"", MAGIC) if self._reader.header.single else (SYNC, END)
        return found[ahead:] in markers

    def _at_end(self, start: int) -> Gap | None:
        """Pass an end block that stands here: a good one, maybe after frames that are missing, or a damaged one.

        A damaged one is known by its trailer, which is in place and tells how long the part is, and by what follows:
        nothing, or another part. The mark alone proves nothing: it may stand at that place in a payload.
        """
        reader, source = self._reader, self._source
        if source.peek(len(END)) == END and may_look(source):
            try:
                block, raw = look_ahead(source, 0, MAX_END_BLOCK_BYTES, parse_end_block)
            except FormatError:
                block, raw = None, b""
            if block is not None and block.header == reader.header_bytes:
                sizes = block.index.content
                missing = len(sizes) > reader.ordinal and sum(sizes[: reader.ordinal]) == reader.content_start
                # What the index counts too much was there only if it is missing in the input, too.
                if missing and part_shift(block, source.offset, reader) < 0:
                    reader.content_start = sum(sizes)
                source.rewind(min(source.offset + len(raw) + TRAILER_BYTES, self._length))
                reader.finish_part()
                return Gap(start, reader.base)
        size = len(reader.expected_end())
        found = source.peek(size + len(MAGIC))
        part_bytes = (source.offset + size - reader.part_offset).to_bytes(8, "little")
        if found[:size].endswith(part_bytes + TRAILER) and found[size:] in (b"", MAGIC):
            source.skip(size)
            reader.finish_part()
            return Gap(start, start)
        return None

    def _survey(self, start: int, skip: bool) -> Gap | None:
        """Look through the rest of the input for what surely is of this part. Returns None if there is nothing."""
        reader, origin = self._reader, self._source.offset
        survey = Survey(reader)
        survey.run(1 if skip else 0)
        self._go_back(origin)
        if survey.index is not None:
            self._index = survey.index
            return self._by_index(survey.index, start)
        if survey.chain is None:
            return None
        chain = survey.chain
        reader.patched = True
        self._source.rewind(chain.begin)
        reader.ordinal, reader.content_start = chain.ordinal, chain.start
        return Gap(start, reader.base + chain.start)

    def _go_back(self, origin: int) -> None:
        self._repeated += self._source.offset - origin
        self._source.rewind(origin)

    def _may_repeat(self) -> bool:
        return self._repeated <= _REPEAT_BUDGET + self._length

    def _next_part(self) -> None:
        """Go to the next part that is surely one: its end, or what follows it, is in place. Else to the end."""
        origin, source = self._source.offset, self._source
        assert self._parts is not None
        stop = min((begin for begin in self._parts if begin > origin), default=self._length)
        source.skip(1 if source.peek(1) else 0)
        found = scan(source, _HEADER, lambda _: source.offset >= stop or self._leads_to(stop) or None)
        if not found or source.offset > stop:
            source.rewind(stop)

    def _leads_to(self, stop: int) -> bool:
        """Whether the parts from here on, walked from head to head, end exactly at `stop`, or with the input."""
        source, begin = self._source, self._source.offset
        if not self._may_repeat() or not self._header_here():
            return False
        probe = FrameReader(source, self._reader.limits)
        try:
            while source.offset < stop and (frame := probe.next()) is not None:
                probe.pass_over(frame)
            return source.offset == stop
        except TruncatedError:
            return stop == self._length
        except (FormatError, LimitError):
            return False
        finally:
            self._repeated += source.offset - begin + _PROBE_BYTES
            source.rewind(begin)

    def _header_here(self) -> bool:
        """Whether a header with a valid check stands here; that of a single-frame part has its check in the head."""
        try:
            header, header_bytes = look_ahead(self._source, 0, 64, parse_header)
        except (FormatError, LimitError):
            return False
        size = len(header_bytes)
        check = self._source.peek(size + HEAD_CHECK_BYTES)[size:]
        return header.single or check == sha_prefix(HEAD_CHECK_BYTES, header_bytes)
