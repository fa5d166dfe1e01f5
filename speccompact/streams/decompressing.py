"""Archive to content: in order, a byte range of it, or what can be saved of it."""

import contextlib
import errno
import tempfile
from typing import BinaryIO, cast

from speccompact.container.frames import Kind
from speccompact.container.framing import Frame
from speccompact.container.limits import Limits
from speccompact.container.locating import locate
from speccompact.container.salvage import Gap, Salvage
from speccompact.container.seekable import FrameReader
from speccompact.container.source import Source
from speccompact.container.writing import write_all
from speccompact.errors import FormatError, LimitError
from speccompact.streams.advising import advising
from speccompact.streams.ahead import GroupsAhead
from speccompact.streams.engine import Engines, Tick
from speccompact.streams.framedecoding import FrameDecoder, SeekingDecoder, held_bytes
from speccompact.streams.summary import LostRange, Progress, Summary, Tally

_SPOOL_BYTES = 1 << 20

_GROUP_BYTES = 1 << 26
"""Bytes that frames of a group take at most which are kept while it is not known yet whether they are needed."""


def _spooled(stream: BinaryIO) -> BinaryIO:
    """Return the rest of `stream` as a temporary file without a name, at its start."""
    spool = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115 - the caller closes it
    try:
        while chunk := cast(bytes | None, stream.read(_SPOOL_BYTES)):
            write_all(spool, chunk)
        if chunk is None:
            raise BlockingIOError(errno.EAGAIN, "the input is in non-blocking mode and has nothing to read yet")
        spool.seek(0)
    except BaseException:
        spool.close()
        raise
    return spool


class StreamDecompressor:
    """One run, by one of the `run` methods. `target` None checks everything and writes nothing.

    `groups` is how many groups of frames `run` decodes at once, where the input is seekable.
    """

    def __init__(
        self,
        target: BinaryIO | None,
        limits: Limits,
        engines: Engines,
        progress: Progress | None,
        groups: int = 1,
    ) -> None:
        self._target = target
        self._groups = groups
        self._ahead: GroupsAhead | None = None
        self._limits = limits
        self._engines = engines
        self._decoder = FrameDecoder(engines)
        self._progress = progress or (lambda done: None)
        self._tally = Tally()
        self._written = 0

    def run(self, stream: BinaryIO) -> Summary:
        """Decode everything; the first damage raises, that of the structure of a seekable input before all other."""
        source = Source(stream)
        if source.seekable:
            self._check_structure(stream)
        reader = FrameReader(source, self._limits)
        with advising(source), contextlib.ExitStack() as stack:
            if self._groups > 1 and source.seekable:
                self._ahead = stack.enter_context(GroupsAhead(stream, self._limits, self._engines, self._groups))
            while (frame := reader.next()) is not None:
                self._expect(frame.head.content_bytes)
                self._write(self._decode(reader, frame))
        return self._finish(reader)

    def _check_structure(self, stream: BinaryIO) -> None:
        """Go from head to head to the end, so that nobody waits minutes for content that ends in an error.

        The position of `stream`, which is seekable, stays.
        """
        start = stream.tell()
        source = Source(stream)
        reader = FrameReader(source, self._limits)
        with advising(source):
            while (frame := reader.next()) is not None:
                self._expect(reader.base + frame.head.start + frame.head.content_bytes)
                reader.pass_over(frame)
        stream.seek(start)

    def run_salvage(self, stream: BinaryIO) -> Summary:
        """Decode what is intact and list the rest.

        The end of the input, where the index is, is needed first: what cannot seek is copied to an anonymous temporary
        file (in TMPDIR, as large as the archive).
        """
        with contextlib.ExitStack() as stack:
            if not Source(stream).seekable:
                stream = stack.enter_context(_spooled(stream))
            return self._salvage(FrameReader(Source(stream), self._limits))

    def _salvage(self, reader: FrameReader) -> Summary:
        salvage = Salvage(reader)
        doubtful = False  # whether a frame is lost of which nobody knows if it had model slots: frame checks tell
        while True:
            try:
                frame = reader.next()
            except (FormatError, LimitError) as error:
                doubtful = True
                self._lose(salvage.recover(None), reader, str(error))
                continue
            if frame is None:
                return self._finish(reader)
            self._expect(frame.head.content_bytes)
            try:
                content = self._decode(reader, frame)
            except FormatError as error:
                reason = str(error)
                if frame.head.count(Kind.MODEL):
                    if doubtful and frame.head.goes_on:
                        reason += " (or the memory is not the one that it goes on from, for a frame before it is lost)"
                    self._decoder.forget()
                    doubtful = False
                self._lose(salvage.recover(frame), reader, reason)
                continue
            doubtful = doubtful and not frame.head.count(Kind.MODEL)
            self._write(content)

    def run_range(self, stream: BinaryIO, start: int, length: int) -> Summary:
        """Decode the frames that hold content bytes [start, start + length) and write those bytes."""
        source = Source(stream)
        with advising(source):
            if source.seekable:
                return self._run_range_seeking(source, start, length)
            return self._run_range_forward(source, start, start + length)

    def _run_range_seeking(self, source: Source, start: int, length: int) -> Summary:
        frames = locate(source, self._limits)
        decoder = SeekingDecoder(source, self._limits, frames, self._engines)
        stop = min(start + length, frames.content_bytes)
        position = start
        self._expect(max(0, stop - start))
        while position < stop:
            frame, content, effort = decoder.decode(frames.find(position), self._ticker)
            self._tally.add_decoded(frame.head, effort)
            self._write(content[position - frame.content_start : stop - frame.content_start])
            position = frame.content_start + len(content)
        self._tally.parts = len(frames.parts)
        self._tally.compressed_bytes = source.tail(0)[1]
        return self._finish(None)

    def _run_range_forward(self, source: Source, start: int, stop: int) -> Summary:
        """On a pipe: pass over the frames before the range, and stop reading behind it.

        Frames of the group that the range begins in are kept until it is known that they are needed.
        """
        reader = FrameReader(source, self._limits)
        group = _Kept()
        while start < stop and (frame := reader.next()) is not None:
            begin, end = frame.content_start, frame.content_start + frame.head.content_bytes
            if frame.head.count(Kind.MODEL) and not frame.head.goes_on:
                group.clear()
            if end <= start:
                if frame.header.memory and frame.head.count(Kind.MODEL):
                    group.append(frame, reader.data(frame))
                reader.pass_over(frame)
                if not group.frames:
                    self._progress(source.offset)
                elif group.size > _GROUP_BYTES:
                    self._catch_up(group)
                continue
            self._expect(max(0, min(end, stop) - max(begin, start)))
            if frame.head.goes_on:
                self._catch_up(group)
            self._write(self._decode(reader, frame)[max(0, start - begin) : max(0, stop - begin)])
            if end >= stop:
                break
        return self._finish(reader)

    def _catch_up(self, group: "_Kept") -> None:
        """Decode frames for the memory that they leave."""
        for frame, data in group.frames:
            content, effort = self._decoder.decode(frame, data, self._ticker(frame))
            frame.verify(data, content)
            self._tally.add_decoded(frame.head, effort)
        group.clear()

    def _decode(self, reader: FrameReader, frame: Frame) -> bytes:
        """Return the content of the frame that the reader stands at, all its checks compared, and pass it."""
        data, tick = reader.data(frame), self._ticker(frame)
        ahead = self._ahead.take(frame, tick) if self._ahead else None
        content, effort = ahead or self._decoder.decode(frame, data, tick)
        reader.accept(frame, data, content)
        self._tally.add_decoded(frame.head, effort)
        self._progress(reader.source.offset)
        return content

    def _ticker(self, frame: Frame) -> Tick:
        """Return a callback that turns tokens of a frame into bytes of the input."""
        done, tokens = 0, frame.head.tokens

        def tick(count: int) -> None:
            nonlocal done
            done = min(done + count, tokens)
            self._progress(frame.offset + frame.compressed_bytes * done // max(tokens, 1))

        return tick

    def _expect(self, size: int) -> None:
        """Refuse content that would exceed the output limit, before it is decoded."""
        most = self._limits.output_bytes
        if most is not None and self._written + size > most:
            raise LimitError(f"the content is at least {self._written + size} bytes; the output limit is {most}")

    def _write(self, content: bytes) -> None:
        self._written += len(content)
        if self._target is not None:
            write_all(self._target, content)

    def _lose(self, gap: Gap, reader: FrameReader, reason: str) -> None:
        self._tally.lost.append(LostRange(gap.start, gap.stop, reason))
        self._progress(reader.source.offset)

    def _finish(self, reader: FrameReader | None) -> Summary:
        if reader is not None:
            self._tally.parts = reader.part + (reader.header is not None)
            self._tally.compressed_bytes = reader.source.offset
        self._tally.content_bytes = self._written
        self._progress(self._tally.compressed_bytes)
        return self._tally.summary()


class _Kept:
    """Frames of a group, in order, with their compressed bytes.

    Attributes:
        frames: what is kept.
        size: bytes that it takes.
    """

    def __init__(self) -> None:
        self.frames: list[tuple[Frame, bytes]] = []
        self.size = 0

    def append(self, frame: Frame, data: bytes) -> None:
        """Keep one more frame."""
        self.frames.append((frame, data))
        self.size += held_bytes(frame, data)

    def clear(self) -> None:
        """Keep none any more."""
        self.frames.clear()
        self.size = 0
