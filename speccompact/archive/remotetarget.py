"""Files written below a URL: object stores have no folders, links or modes, and show a file when it is closed."""

import errno
from contextlib import suppress
from typing import Any

from speccompact.archive.content import stored_digest
from speccompact.archive.entries import Entry
from speccompact.archive.stores import filesystem, reaching


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
        path = self._path(entry)
        with reaching(path):
            if not self._force and self._system.exists(path):
                raise FileExistsError(errno.EEXIST, "already exists; -f overwrites it", entry.path)
            self._system.makedirs(path.rpartition("/")[0], exist_ok=True)
            return RemoteSink(self._system.open(path, "wb"), entry)

    def has(self, entry: Entry, digest: bytes) -> bool:
        """Return whether an object is there with the size and the stored bytes of an entry."""
        path = self._path(entry)
        with reaching(path):
            if not self._system.exists(path) or self._system.size(path) != entry.size:
                return False
            with self._system.open(path, "rb") as stream:
                return not entry.pieces or stored_digest(stream, entry) == digest

    def _path(self, entry: Entry) -> str:
        try:
            return f"{self._root.rstrip('/')}/{entry.path.decode()}"
        except UnicodeDecodeError:
            raise OSError(errno.EILSEQ, "its name is no UTF-8, which names of objects have to be", entry.path) from None


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
            self._send(data[:taken])
            self._written += taken
            data, self._at = data[taken:], self._at + taken
            if self._at == length:
                self._spans.pop(0)
                self._at = 0

    def commit(self) -> None:
        """Close the file: the store shows it now."""
        self._fill(self._entry.size)
        with reaching(str(self._stream)):
            self._stream.close()

    def pause(self) -> None:
        """Keep the upload: it is no file of this machine."""

    def abort(self) -> None:
        """Let go of what was sent."""
        discard = getattr(self._stream, "discard", None)
        if discard is not None:
            with suppress(Exception):  # the store that fails now has failed before, which is what counts
                discard()

    def _fill(self, offset: int) -> None:
        while self._written < offset:
            count = min(offset - self._written, 1 << 20)
            self._send(bytes(count))
            self._written += count

    def _send(self, data: bytes) -> None:
        with reaching(str(self._stream)):
            self._stream.write(data)
