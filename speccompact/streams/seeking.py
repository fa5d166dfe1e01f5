"""An archive as a seekable file of its content: only what is read is decoded."""

import io
from typing import BinaryIO

from speccompact.container.limits import Limits
from speccompact.container.locating import locate
from speccompact.container.source import Source
from speccompact.errors import ArgumentError
from speccompact.streams.advising import advising
from speccompact.streams.engine import Engines
from speccompact.streams.framedecoding import SeekingDecoder


class SeekableContent(io.RawIOBase):
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
        self._position = 0
        self._number = -1
        self._content = b""

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position in the content (bytes)."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a position in the content; beyond the end is allowed and reads nothing."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._frames.content_bytes}.get(whence)
        if base is None:
            raise ValueError(f"whence is {whence}; choose 0, 1 or 2")
        if base + offset < 0:
            raise ValueError(f"negative seek position {base + offset}")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: "memoryview | bytearray") -> int:  # type: ignore[override]
        """Fill `buffer` from the position on, at most to the end of the frame there. Returns 0 at the end.

        Raises:
            FormatError: the frame there is damaged.
            ModelError: its model is missing or damaged.
        """
        if self._position >= self._frames.content_bytes:
            return 0
        number = self._frames.find(self._position)
        if number != self._number:
            self._number, self._content = -1, b""
            with advising(self._source):
                _, content, _ = self._decoder.decode(number)
            self._number, self._content = number, content
        start = self._position - self._frames.starts[number]
        piece = self._content[start : start + len(buffer)]
        buffer[: len(piece)] = piece
        self._position += len(piece)
        return len(piece)

    def close(self) -> None:
        """Close the reader, and the file if the reader opened it."""
        if not self.closed and self._close_stream:
            self._stream.close()
        super().close()
