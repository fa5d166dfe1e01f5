"""A binary stream with a look ahead: what a reader of hostile, unseekable input stands on."""

import io
from typing import BinaryIO

from speccompact.errors import TruncatedError

_CHUNK = 1 << 16


class Source:
    """Reads `stream` forward through a buffer. Memory: what was peeked at and not skipped yet, plus one chunk.

    Attributes:
        offset: bytes skipped so far, counted from where the stream stood at the start.
        parsed: bytes that structures were looked for in, ahead of `offset`; a salvage bounds them.
        several: whether a reader has seen that more than one frame may be here: the header of a multi-frame part, or
            data behind a part.
        seekable: whether `rewind` works and long skips cost nothing.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._buffer = bytearray()
        self._ended = False
        self.offset = 0
        self.parsed = 0
        self.several = False
        self.seekable = bool(getattr(stream, "seekable", bool)())
        self._origin = stream.tell() if self.seekable else 0

    def peek(self, size: int) -> bytes:
        """Return the next `size` bytes without passing them; fewer only where the stream ends."""
        while len(self._buffer) < size and not self._ended:
            chunk = self._stream.read(max(size - len(self._buffer), _CHUNK))
            self._buffer += chunk or b""
            self._ended = not chunk
        return bytes(self._buffer[:size])

    def skip(self, size: int) -> None:
        """Pass `size` bytes.

        Raises:
            TruncatedError: the stream ends before.
        """
        if self.seekable and size > len(self._buffer) + _CHUNK:
            self._seek(self.offset + size - 1)
            size = 1
        while size:
            here = len(self.peek(min(size, _CHUNK)))
            if not here:
                raise TruncatedError(f"the data ends at byte {self.offset}")
            here = min(size, len(self._buffer))
            del self._buffer[:here]
            self.offset += here
            size -= here

    def rewind(self, offset: int) -> None:
        """Go to `offset`, forward or back. Only where `seekable`."""
        ahead = offset - self.offset
        if 0 <= ahead <= len(self._buffer):
            del self._buffer[:ahead]
            self.offset = offset
        else:
            self._seek(offset)

    def tail(self, size: int) -> tuple[bytes, int]:
        """Return the last `size` bytes of the stream (fewer if it is shorter) and its length. Only where `seekable`.

        Modifies nothing: the position stays.
        """
        length = self._stream.seek(0, io.SEEK_END) - self._origin
        start = max(0, length - size)
        return self.read_at(start, length - start), length

    def read_at(self, offset: int, size: int) -> bytes:
        """Return `size` bytes from `offset` on, fewer at the end of the stream. Only where `seekable`.

        Modifies nothing: the position stays.
        """
        self._stream.seek(self._origin + offset)
        data = self._stream.read(size)
        self._stream.seek(self._origin + self.offset + len(self._buffer))
        return data

    def _seek(self, offset: int) -> None:
        self._stream.seek(self._origin + offset)
        self._buffer.clear()
        self._ended = False
        self.offset = offset
