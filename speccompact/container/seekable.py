"""Parts and frames on streams: the writer and the sequential reader. Payloads and contents are opaque here.

Commit point: a part is complete with the last byte of its trailer (single-frame parts: of the frame check). Whatever
ends earlier is reported as truncated, never decoded to less.
"""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import BinaryIO, TypeVar

from speccompact.container.fields import Cursor
from speccompact.container.format import (
    CONTENT_CHECK_BYTES,
    END,
    HEAD_CHECK_BYTES,
    MAX_END_BLOCK_BYTES,
    NO_FRAMES,
    SINGLE_HEAD_CHECK_BYTES,
    SYNC,
    TRAILER_BYTES,
    EndBlock,
    FileHeader,
    SeekIndex,
    pack_end_block,
    pack_header,
    parse_end_block,
    parse_header,
    sha_prefix,
)
from speccompact.container.frames import MAX_HEAD_BYTES, FrameHead, parse_frame_head
from speccompact.container.framing import Frame, check_limits, locate_error, pack_frame, place
from speccompact.container.limits import Limits
from speccompact.container.source import Source
from speccompact.container.writing import write_all
from speccompact.errors import DamagedError, FormatError, LimitError, NotSpecCompactError, TruncatedError

T = TypeVar("T")

_FIRST_LOOK = 512


class PartWriter:
    """Writes a multi-frame part, front to back, without seeking. `close` is what makes the part complete."""

    def __init__(self, target: BinaryIO, header: FileHeader) -> None:
        self.header = header
        self._target = target
        self._header_bytes = pack_header(header)
        self._index = SeekIndex.empty()
        self._digest = hashlib.sha256()
        self._start = 0
        self.written = 0
        self._write(self._header_bytes + sha_prefix(HEAD_CHECK_BYTES, self._header_bytes))

    def frame(self, head: FrameHead, payload: bytes, content: bytes) -> None:
        """Append a frame. `head` comes without ordinal and start: the writer knows them."""
        placed = replace(head, ordinal=len(self._index.content), start=self._start)
        frame = pack_frame(self._header_bytes, placed, payload, content)
        self._write(frame)
        self._index.add(len(frame), len(content))
        self._digest.update(content)
        self._start += len(content)

    def close(self) -> None:
        """Append the end block and the trailer."""
        check = self._digest.digest()[:CONTENT_CHECK_BYTES]
        self._write(pack_end_block(EndBlock(self._index, self._header_bytes, check)))

    def _write(self, data: bytes) -> None:
        write_all(self._target, data)
        self.written += len(data)


def look_ahead(source: Source, passed: int, most: int, parse: Callable[[Cursor], T]) -> tuple[T, bytes]:
    """Parse a structure that begins `passed` bytes ahead without passing it.

    Returns:
        The structure and its bytes.

    Raises:
        FormatError: what `parse` raises; TruncatedError where `most` bytes are not enough.
    """
    size = min(most, _FIRST_LOOK)
    while True:
        data = source.peek(passed + size)[passed:]
        cursor = Cursor(data)
        try:
            value = parse(cursor)
        except TruncatedError:
            if len(data) < size or size == most:
                raise
            size = min(most, 4 * size)
        else:
            return value, data[: cursor.position]
        finally:
            source.parsed += cursor.position if size <= _FIRST_LOOK else len(data)


class FrameReader:
    """Reads frames in order from any stream, part after part.

    Use: `next`, then for each frame `data` and `accept`, or `pass_over`; until `next` gives None. Nothing is passed in
    the source before `accept` or `pass_over`, so that after an error the frame is still ahead (see `salvage`).

    Attributes:
        part: number of the part being read, from 0; after the end, the number of parts.
        base: content bytes of the parts before this one.
        part_offset: where this part begins in the input, or, between parts, where one was looked for.
        header, header_bytes: of this part; None and empty between parts.
        index: sizes of this part's frames so far.
        ordinal, content_start: what the next frame of this part must say: frames and content bytes so far.
        complete: whether every frame of this part was accepted, so that the content check can be compared.
        patched: whether a salvage has passed frames unread, so that `index` has holes.
        salvaged: whether a salvage has passed damage in any part.
        limits: bounds of what a frame may declare.
    """

    def __init__(self, source: Source, limits: Limits) -> None:
        self.source = source
        self.part = 0
        self.base = 0
        self.part_offset = 0
        self.header: FileHeader | None = None
        self.header_bytes = b""
        self.ordinal = 0
        self.content_start = 0
        self.index = SeekIndex.empty()
        self.complete = True
        self.patched = False
        self.salvaged = False
        self.limits = limits
        self._digest = hashlib.sha256()

    def next(self) -> Frame | None:
        """Return the next frame, or None after the last part.

        Raises:
            FormatError: the structure is damaged here; the message says where.
            LimitError: the frame is larger than the limits allow.
        """
        while True:
            try:
                if self.header is None and not self.begin_part():
                    return None
                if self.header is None or self.header.single or self.source.peek(len(END)) != END:
                    return self._read_head()
                self._leave_part()
            except NotSpecCompactError as error:
                raise NotSpecCompactError(self._foreign(error)) from None
            except (FormatError, LimitError) as error:
                raise locate_error(error, place(self.part, self.ordinal, self.source.offset)) from None

    def _foreign(self, error: NotSpecCompactError) -> str:
        where = place(self.part, self.ordinal, self.source.offset)
        if not self.part:
            return f"this is not a SpecCompact file: {error} ({where})"
        before = "" if self.salvaged else f" behind {self.source.offset} good bytes"
        return f"what follows{before} is not a SpecCompact file: {error} ({where})"

    def data(self, frame: Frame) -> bytes:
        """Return the compressed bytes of the frame that `next` gave, as far as there are any."""
        return self.source.peek(frame.compressed_bytes)

    def accept(self, frame: Frame, data: bytes, content: bytes) -> None:
        """Check the content of a frame and pass it. Raises DamagedError where a check fails."""
        frame.verify(data, content)
        self._digest.update(content)
        self._pass(frame)

    def pass_over(self, frame: Frame) -> None:
        """Pass a frame undecoded; the content check of this part is then left out.

        Raises:
            TruncatedError: the data ends inside the frame.
        """
        self.complete = False
        self._pass(frame)

    def _pass(self, frame: Frame) -> None:
        try:
            self.source.skip(frame.compressed_bytes)
        except TruncatedError as error:
            raise TruncatedError(f"{frame.name}: {error}") from None
        self.index.add(frame.compressed_bytes, frame.head.content_bytes)
        self.ordinal = frame.head.ordinal + 1
        self.content_start = frame.head.start + frame.head.content_bytes
        if frame.header.single:
            self.finish_part()

    def enter(self, header: FileHeader, header_bytes: bytes) -> None:
        """Begin a part whose header is known."""
        self.header, self.header_bytes = header, header_bytes
        self.ordinal = self.content_start = 0
        self.index = SeekIndex.empty()
        self._digest = hashlib.sha256()
        self.complete, self.patched = True, False

    def finish_part(self) -> None:
        """End the part here."""
        self.base += self.content_start
        self.part += 1
        self.header, self.header_bytes = None, b""
        self.ordinal = self.content_start = 0

    def expected_end(self) -> bytes:
        """Return the end block that the frames read so far call for."""
        check = self._digest.digest()[:CONTENT_CHECK_BYTES]
        return pack_end_block(EndBlock(self.index, self.header_bytes, check))

    def begin_part(self) -> bool:
        """Read the header of the next part; that of a single-frame part stays ahead, as the beginning of its frame.

        Returns:
            False at the end of the input.

        Raises:
            FormatError: no valid header stands here.
        """
        self.part_offset = self.source.offset
        if not self.source.peek(1):
            if self.part == 0:
                raise TruncatedError("there is no data: not even the magic number of an archive")
            return False
        self.source.several |= self.part > 0
        header, header_bytes = look_ahead(self.source, 0, _FIRST_LOOK, parse_header)
        if not header.single:
            self.source.several = True
            check = self.source.peek(len(header_bytes) + HEAD_CHECK_BYTES)[len(header_bytes) :]
            compare("header check", check, sha_prefix(HEAD_CHECK_BYTES, header_bytes))
            self.source.skip(len(header_bytes) + HEAD_CHECK_BYTES)
        self.enter(header, header_bytes)
        return True

    def _read_head(self) -> Frame:
        frame = self.head_at(0)
        if frame.head.ordinal != self.ordinal or frame.head.start != self.content_start:
            raise DamagedError(
                f"frame {frame.head.ordinal} (content from byte {frame.head.start}) stands where frame {self.ordinal} "
                f"(content from byte {self.content_start}) belongs: frames are missing or out of order"
            )
        return frame

    def head_at(self, ahead: int) -> Frame:
        """Return the frame of this part that begins `ahead` bytes further on; its place in the part is not judged.

        Raises:
            FormatError: no valid head begins there.
            LimitError: the frame is larger than the limits allow.
        """
        assert self.header is not None
        single = self.header.single
        before = len(self.header_bytes) if single else len(SYNC)
        if not single:
            compare("sync marker", self.source.peek(ahead + before)[ahead:], SYNC)
        head, head_bytes = look_ahead(
            self.source, ahead + before, MAX_HEAD_BYTES, lambda cursor: parse_frame_head(cursor, single=single)
        )
        size = SINGLE_HEAD_CHECK_BYTES if single else HEAD_CHECK_BYTES
        end = ahead + before + len(head_bytes)
        check = self.source.peek(end + size)[end:]
        compare("head check", check, sha_prefix(size, self.header_bytes, head_bytes))
        if head.goes_on and self.header.memory is None:
            raise DamagedError('field "frame kind" says that the frame goes on, in a part without a memory')
        check_limits(self.header, head, self.limits)
        prelude = before + len(head_bytes) + size
        return Frame(
            self.part,
            self.header,
            self.header_bytes,
            head,
            head_bytes,
            self.source.offset + ahead,
            prelude,
            self.base + head.start,
        )

    def _leave_part(self) -> None:
        if not self.ordinal:
            raise DamagedError(NO_FRAMES)
        if self.patched:
            block, raw = look_ahead(self.source, 0, MAX_END_BLOCK_BYTES, parse_end_block)
            if block.header != self.header_bytes or sum(block.index.content) != self.content_start:
                raise DamagedError("the end block counts other frames: some are missing before it")
            self.source.skip(len(raw) + TRAILER_BYTES)
            self.finish_part()
            return
        expected = self.expected_end()
        found = self.source.peek(len(expected))
        if len(found) == len(expected) and not self.complete:
            # the content check is whatever it is: everything else is known
            try:
                block, _ = look_ahead(self.source, 0, len(expected), parse_end_block)
            except FormatError:
                raise DamagedError('field "end block" is wrong') from None
            expected = pack_end_block(EndBlock(self.index, self.header_bytes, block.content_check))
        compare("end block", found, expected)
        self.source.skip(len(expected))
        self.finish_part()


def compare(field: str, found: bytes, expected: bytes) -> None:
    """Raise TruncatedError or DamagedError, naming the field, unless `found` is `expected`."""
    if found == expected:
        return
    if len(found) < len(expected):
        raise TruncatedError(f'the data ends inside field "{field}"')
    raise DamagedError(f'field "{field}" is wrong')
