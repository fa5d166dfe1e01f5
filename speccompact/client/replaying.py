"""Input in pieces, of which the first ones are kept for as long as a call may have to be repeated."""

import errno
import threading
from typing import Protocol, cast

PIECE_BYTES = 60 << 10
"""Bytes of one message, at most: below the smallest message limit that a service can be configured to."""

REPLAY_BYTES = 16 << 20
"""Bytes that are kept, at most; a frame has half of that."""


class ReplayLog:
    """Pieces by number. Numbers go up by one; only those that are kept can be asked for again.

    Attributes:
        replayable: whether all pieces so far are kept.
    """

    def __init__(self, most: int = REPLAY_BYTES) -> None:
        self._kept: list[bytes] = []
        self._room = most
        self._count = 0
        self.replayable = True

    def get(self, index: int) -> bytes | None:
        """Return a piece that is kept, or None where it has yet to be read."""
        return self._kept[index] if index < self._count else None

    def add(self, piece: bytes) -> bytes:
        """Number a piece that was read, keep it while there is room, and return it."""
        self._count += 1
        self._room -= len(piece)
        if self.replayable:
            self._kept.append(piece)
            if self._room < 0:
                self.forget()
        return piece

    def forget(self) -> None:
        """Keep nothing any more: the call has given output, and will not be repeated."""
        self.replayable = False
        self._kept = []


class Readable(Protocol):
    """What can be read like a file."""

    def read(self, size: int, /) -> bytes | None:
        """Return at most `size` bytes; empty at the end, None where there are none yet."""
        ...


class StreamPieces:
    """The rest of a binary stream. Threads of several tries may ask at once: what one has read, the others get, too."""

    def __init__(self, stream: Readable) -> None:
        self.log = ReplayLog()
        # a pipe gives what it has, without waiting for more
        self._read = getattr(stream, "read1", stream.read)
        self._lock = threading.Lock()

    def piece(self, index: int) -> bytes:
        """Return a piece; empty at the end.

        Raises:
            OSError: the stream cannot be read.
        """
        with self._lock:
            known = self.log.get(index)
            if known is not None:
                return known
            read = cast(bytes | None, self._read(PIECE_BYTES))
            if read is None:
                raise BlockingIOError(errno.EAGAIN, "the input is in non-blocking mode and has nothing to read yet")
            return self.log.add(read)
