"""Raw streams that can seek, made of no more than a length and a way to read at a position."""

import io
from abc import abstractmethod


class PositionedReader(io.RawIOBase):
    """Keeps the position; a subclass says where the end is and reads."""

    def __init__(self) -> None:
        super().__init__()
        self._position = 0

    @abstractmethod
    def end(self) -> int:
        """Return how many bytes there are."""

    @abstractmethod
    def read_from(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes from a position before the end on, one at least."""

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position (bytes)."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a position; beyond the end is allowed and reads nothing.

        Raises:
            ValueError: the position is negative, or `whence` is none of 0, 1 and 2.
        """
        if whence == io.SEEK_SET:
            base = 0
        elif whence == io.SEEK_CUR:
            base = self._position
        elif whence == io.SEEK_END:
            base = self.end()
        else:
            raise ValueError(f"whence is {whence}; choose 0, 1 or 2")
        if base + offset < 0:
            raise ValueError(f"negative seek position {base + offset}")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: "memoryview | bytearray") -> int:  # type: ignore[override]
        """Fill `buffer` from the position on; return how many bytes, 0 at the end."""
        if self._position >= self.end() or not len(buffer):
            return 0
        data = self.read_from(self._position, len(buffer))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)
