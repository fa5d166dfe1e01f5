"""Where bytes are: at local paths, in volumes, or in a store that has a URL.

A location is a string: a local path in the file system's encoding (surrogates stand for undecodable bytes), or a URL.
"""

import builtins
import errno
import io
import os
import stat
from typing import BinaryIO, cast

from speccompact.archive.stores import RemoteStream
from speccompact.container.rawreading import PositionedReader

_VOLUME_DIGITS = 3

OF_THE_MACHINE = {
    errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOTCONN, errno.ETIMEDOUT, errno.ENETDOWN, errno.ENETUNREACH,
    errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ECONNREFUSED, errno.ECONNRESET, errno.ECONNABORTED,
}  # fmt: skip
"""Numbers of errors that every file would meet, whichever is read or written."""


def is_remote(location: str) -> bool:
    """Return whether a location is a URL."""
    return "://" in location


def without_protocol(location: str) -> str:
    """Return the path of a `file://` URL, and anything else as it is: links and names are watched on local paths."""
    for protocol in ("file://", "local://"):
        if location.startswith(protocol):
            return location.removeprefix(protocol)
    return location


def concerns_one_file(location: str, error: OSError) -> bool:
    """Return whether an error is of this file alone, and not of the network or the machine, which all would feel."""
    if is_remote(location):
        ours = type(error) is OSError and error.errno is None
        return ours or isinstance(error, FileNotFoundError | PermissionError)
    return error.errno not in OF_THE_MACHINE


def open_read(location: str) -> BinaryIO:
    """Open a file of a tree for reading; the stream can seek.

    Raises:
        OSError: it is not there, cannot be read, or is no regular file: a link is not followed, a pipe not waited for.
    """
    if is_remote(location):
        return cast(BinaryIO, RemoteStream(location))
    try:
        descriptor = os.open(location, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise OSError(None, "is no regular file any more", location) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(None, "is no regular file any more", location)
    return cast(BinaryIO, io.FileIO(descriptor))


def volume_name(location: str, number: int) -> str:
    """Return the name of volume `number` (from 0) of a split archive."""
    return f"{location}.{number + 1:0{_VOLUME_DIGITS}}"


def volumes(location: str) -> list[str]:
    """Return the volumes of a split local archive, named by its own name or that of its first volume; else nothing."""
    base = location.removesuffix(volume_name("", 0))
    found: list[str] = []
    while os.path.exists(name := volume_name(base, len(found))):
        found.append(name)
    return found


def open_archive(location: str) -> BinaryIO:
    """Open an archive for reading, in one piece or in volumes.

    Raises:
        OSError: it is not there, or cannot be read.
    """
    if not is_remote(location) and (location.endswith(volume_name("", 0)) or not os.path.lexists(location)):
        parts = volumes(location)
        if parts:
            return cast(BinaryIO, io.BufferedReader(_Joined(parts)))
    if is_remote(location):
        return open_read(location)
    return builtins.open(location, "rb")


class _Joined(PositionedReader):
    """Volumes as one stream; a read ends with a volume."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self._streams = [io.FileIO(name) for name in names]
        self._sizes = [os.fstat(stream.fileno()).st_size for stream in self._streams]

    def end(self) -> int:
        """See `PositionedReader`."""
        return sum(self._sizes)

    def read_from(self, position: int, size: int) -> bytes:
        """See `PositionedReader`."""
        for stream, length in zip(self._streams, self._sizes, strict=True):
            if position < length:
                stream.seek(position)
                return stream.read(min(size, length - position)) or b""
            position -= length
        return b""

    def close(self) -> None:
        """Close all volumes."""
        for stream in self._streams:
            stream.close()
        super().close()


class Window(PositionedReader):
    """Bytes [start, start + size) of a stream that can seek, as a stream of their own."""

    def __init__(self, stream: BinaryIO, start: int, size: int) -> None:
        super().__init__()
        self._stream, self._start, self._size = stream, start, size

    def end(self) -> int:
        """See `PositionedReader`."""
        return self._size

    def read_from(self, position: int, size: int) -> bytes:
        """See `PositionedReader`."""
        self._stream.seek(self._start + position)
        return self._stream.read(min(size, self._size - position))
