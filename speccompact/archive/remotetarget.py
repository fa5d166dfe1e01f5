"""Files written below a URL: object stores have no folders, links or modes, and show a file when it is closed."""

import errno
from typing import Any

from speccompact.archive.entries import Entry
from speccompact.archive.storage import filesystem


class RemoteTarget:
    """Args: `location` is a URL; `force` replaces objects that are there."""

    def __init__(self, location: str, force: bool) -> None:
        self._system, self._root = filesystem(location)
        self._force = force

    def open(self, entry: Entry) -> "RemoteSink":
        """Begin to write a file; its path has been found harmless.

        Raises:
            FileExistsError: it is there already.
            OSError: its name is none that an object can have.
        """
        try:
            path = f"{self._root.rstrip('/')}/{entry.path.decode()}"
        except UnicodeDecodeError:
            raise OSError(errno.EILSEQ, "its name is no UTF-8, which names of objects have to be", entry.path) from None
        if not self._force and self._system.exists(path):
            raise FileExistsError(errno.EEXIST, "already exists; -f overwrites it", entry.path)
        self._system.makedirs(path.rpartition("/")[0], exist_ok=True)
        return RemoteSink(self._system.open(path, "wb"), entry)


class RemoteSink:
    """One file while it is written."""

    def __init__(self, stream: Any, entry: Entry) -> None:
        self._stream, self._entry = stream, entry
        self._spans = list(entry.segments) if entry.segments is not None else [(0, entry.size)]
        self._at, self._written = 0, 0

    def write(self, data: bytes) -> None:
        """Write the next stored bytes; holes become zeros."""
        while data:
            offset, length = self._spans[0]
            self._fill(offset + self._at)
            taken = min(len(data), length - self._at)
            self._stream.write(data[:taken])
            self._written += taken
            data, self._at = data[taken:], self._at + taken
            if self._at == length:
                self._spans.pop(0)
                self._at = 0

    def commit(self) -> None:
        """Close the file: the store shows it now."""
        self._fill(self._entry.size)
        self._stream.close()

    def abort(self) -> None:
        """Let go of what was sent."""
        discard = getattr(self._stream, "discard", None)
        if discard is not None:
            discard()

    def _fill(self, offset: int) -> None:
        while self._written < offset:
            count = min(offset - self._written, 1 << 20)
            self._stream.write(bytes(count))
            self._written += count
