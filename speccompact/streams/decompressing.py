"""Archive to content: in order, a byte range of it, or what can be saved of it."""

import contextlib
import errno
import functools
import tempfile
from collections.abc import Callable
from typing import BinaryIO, cast

from speccompact.container.format import ModelIdentity
from speccompact.container.framing import Frame
from speccompact.container.limits import Limits
from speccompact.container.locating import frame_at, locate
from speccompact.container.salvage import Gap, Salvage
from speccompact.container.seekable import FrameReader
from speccompact.container.source import Source
from speccompact.container.writing import write_all
from speccompact.errors import FormatError, LimitError, ModelDamagedError, UnsupportedError
from speccompact.params import EXACT_VERSION, PRECISION
from speccompact.streams.advising import advising
from speccompact.streams.engine import Engine, Engines
from speccompact.streams.framecodec import decode_frame
from speccompact.streams.summary import LostRange, Progress, Summary, Tally

_SPOOL_BYTES = 1 << 20


class FrameDecoder:
    """Turns frames into content, with the engine that their part names."""

    def __init__(self, engines: Engines) -> None:
        self._find = functools.cache(functools.partial(_find_engine, engines))

    def decode(self, frame: Frame, data: bytes, tick: Callable[[int], None] | None = None) -> tuple[bytes, int]:
        """Return the content of a frame, whose frame check the caller compares, and the target passes spent.

        Args:
            data: the compressed bytes of the frame.

        Raises:
            FormatError: it cannot be decoded; the message names the frame.
            ModelError: its model is missing or damaged.
        """
        payload = frame.split_payload(data)
        try:
            return decode_frame(frame.head, payload, lambda: self._find(frame.header.model), tick)
        except FormatError as error:
            raise type(error)(f"{frame.name}, {error}") from error


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


def _find_engine(engines: Engines, model: ModelIdentity | None) -> Engine:
    if model is None:
        raise UnsupportedError("a slot needs a model, but the header names none")
    if model.exact_version != EXACT_VERSION:
        raise UnsupportedError(f"exact version is {model.exact_version}; this release reads {EXACT_VERSION}")
    if model.precision != PRECISION:
        raise UnsupportedError(f"precision is {model.precision}; this release reads {PRECISION}")
    engine = engines.for_digest(model.digest)
    target = engine.codec.target
    if not target.digest.startswith(model.digest) or not target.vocabulary_digest.startswith(model.vocabulary_digest):
        raise ModelDamagedError(
            f'model "{target.name}" is not the one that the archive names (digest {model.digest.hex()}, vocabulary '
            f"{model.vocabulary_digest.hex()})"
        )
    return engine


class StreamDecompressor:
    """One run, by one of the `run` methods. `target` None checks everything and writes nothing."""

    def __init__(self, target: BinaryIO | None, limits: Limits, engines: Engines, progress: Progress | None) -> None:
        self._target = target
        self._limits = limits
        self._decoder = FrameDecoder(engines)
        self._progress = progress or (lambda done: None)
        self._tally = Tally()
        self._written = 0

    def run(self, stream: BinaryIO) -> Summary:
        """Decode everything; the first damage raises."""
        source = Source(stream)
        reader = FrameReader(source, self._limits)
        with advising(source):
            while (frame := reader.next()) is not None:
                self._expect(frame.head.content_bytes)
                self._write(self._decode(reader, frame))
        return self._finish(reader)

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
        while True:
            try:
                frame = reader.next()
            except (FormatError, LimitError) as error:
                self._lose(salvage.recover(None), reader, error)
                continue
            if frame is None:
                return self._finish(reader)
            self._expect(frame.head.content_bytes)
            try:
                content = self._decode(reader, frame)
            except FormatError as error:
                self._lose(salvage.recover(frame), reader, error)
                continue
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
        stop = min(start + length, frames.content_bytes)
        position = start
        self._expect(max(0, stop - start))
        while position < stop:
            frame, data = frame_at(source, self._limits, frames, frames.find(position))
            content, passes = self._decoder.decode(frame, data)
            frame.verify(data, content)
            self._tally.add_frame(frame.head, passes)
            self._write(content[position - frame.content_start : stop - frame.content_start])
            position = frame.content_start + len(content)
        self._tally.parts = len(frames.parts)
        self._tally.compressed_bytes = source.tail(0)[1]
        return self._finish(None)

    def _run_range_forward(self, source: Source, start: int, stop: int) -> Summary:
        """On a pipe: pass over the frames before the range, and stop reading behind it."""
        reader = FrameReader(source, self._limits)
        while start < stop and (frame := reader.next()) is not None:
            begin, end = frame.content_start, frame.content_start + frame.head.content_bytes
            if end <= start:
                reader.pass_over(frame)
                self._progress(source.offset)
                continue
            self._expect(min(end, stop) - max(begin, start))
            self._write(self._decode(reader, frame)[max(0, start - begin) : stop - begin])
            if end >= stop:
                break
        return self._finish(reader)

    def _decode(self, reader: FrameReader, frame: Frame) -> bytes:
        """Return the content of the frame that the reader stands at, all its checks compared, and pass it."""
        data = reader.data(frame)
        done, tokens = 0, frame.head.tokens

        def tick(count: int) -> None:
            nonlocal done
            done = min(done + count, tokens)
            self._progress(frame.offset + frame.compressed_bytes * done // max(tokens, 1))

        content, passes = self._decoder.decode(frame, data, tick)
        reader.accept(frame, data, content)
        self._tally.add_frame(frame.head, passes)
        self._progress(reader.source.offset)
        return content

    def _expect(self, size: int) -> None:
        """Refuse content that would exceed the output limit, before it is decoded."""
        most = self._limits.output_bytes
        if most is not None and self._written + size > most:
            raise LimitError(f"the content is at least {self._written + size} bytes; the output limit is {most}")

    def _write(self, content: bytes) -> None:
        self._written += len(content)
        if self._target is not None:
            write_all(self._target, content)

    def _lose(self, gap: Gap, reader: FrameReader, error: Exception) -> None:
        self._tally.lost.append(LostRange(gap.start, gap.stop, str(error)))
        self._progress(reader.source.offset)

    def _finish(self, reader: FrameReader | None) -> Summary:
        if reader is not None:
            self._tally.parts = reader.part + (reader.header is not None)
            self._tally.compressed_bytes = reader.source.offset
        self._tally.content_bytes = self._written
        self._progress(self._tally.compressed_bytes)
        return self._tally.summary()
