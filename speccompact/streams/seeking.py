"""An archive as a seekable file of its content: only what is read is decoded."""

from typing import BinaryIO

from speccompact.container.limits import Limits
from speccompact.container.locating import locate
from speccompact.container.rawreading import PositionedReader
from speccompact.container.source import Source
from speccompact.errors import ArgumentError
from speccompact.streams.advising import advising
from speccompact.streams.engine import Engines
from speccompact.streams.framedecoding import SeekingDecoder


class SeekableContent(PositionedReader):
    """Raw reads end at the end of a frame, so that a buffer above never decodes a frame nobody asked for.

    Memory: one decoded frame and its compressed bytes, and the memory of the group that it is in.
    """

    def __init__(self, stream: BinaryIO, limits: Limits, engines: Engines, *, close_stream: bool) -> None:
        """Find the frames of `stream`, which is read from its start.

        Raises:
            ArgumentError: the stream is not seekable.
            FormatError: its structure is damaged.
        """
        super().__init__()
        if not stream.seekable():
            raise ArgumentError("the archive must be seekable to be opened; decompress it in order instead")
        stream.seek(0)
        self._stream = stream
        self._close_stream = close_stream
        self._source = Source(stream)
        with advising(self._source):
            self._frames = locate(self._source, limits)
        self._decoder = SeekingDecoder(self._source, limits, self._frames, engines)
        self._number = -1
        self._content = b""

    def end(self) -> int:
        """See `PositionedReader`."""
        return self._frames.content_bytes

    def read_from(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes, at most to the end of the frame there.

        Raises:
            FormatError: the frame there is damaged.
            ModelError: its model is missing or damaged.
        """
        number = self._frames.find(position)
        if number != self._number:
            self._number, self._content = -1, b""
            with advising(self._source):
                _, content, _ = self._decoder.decode(number)
            self._number, self._content = number, content
        start = position - self._frames.starts[number]
        return self._content[start : start + size]

    def close(self) -> None:
        """Close the reader, and the file if the reader opened it."""
        if not self.closed and self._close_stream:
            self._stream.close()
        super().close()
