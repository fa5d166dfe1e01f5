"""Where bytes are: local paths, and whatever else fsspec knows by its URL (`s3://bucket/key`).

A location is a string: a local path in the file system's encoding (surrogates stand for undecodable bytes), or a URL.
"""

import builtins
import errno
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from speccompact.container.rawreading import PositionedReader
from speccompact.errors import ArgumentError, SpecCompactError

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


def filesystem(location: str) -> tuple[Any, str]:
    """Return the fsspec file system of a URL, and the path in it.

    Raises:
        ArgumentError: the protocol is unknown, or what it needs is not installed.
    """
    import fsspec

    try:
        found: tuple[Any, str] = fsspec.core.url_to_fs(location)
    except (ValueError, ImportError) as error:
        hint = "; install speccompact[s3]" if location.startswith(("s3://", "s3a://")) else ""
        raise ArgumentError(f"{location} cannot be reached: {error}{hint}") from None
    return found


@contextmanager
def reaching(location: str) -> Iterator[None]:
    """Let whatever the library of a store raises be an error of the system that names the location."""
    try:
        yield
    except (OSError, SpecCompactError, MemoryError):
        raise
    except Exception as error:  # those libraries have trees of errors of their own
        reason = f"cannot be reached ({type(error).__name__}: {error})"
        raise OSError(errno.EHOSTUNREACH, reason, location) from None


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
        return cast(BinaryIO, _Remote(location))
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


class _Remote(PositionedReader):
    """A file of a store; whatever goes wrong is an error of the system."""

    def __init__(self, location: str) -> None:
        super().__init__()
        self._location = location
        system, path = filesystem(location)
        with reaching(location):
            self._stream = system.open(path, "rb")
            self._size = int(self._stream.seek(0, io.SEEK_END))

    def end(self) -> int:
        """See `PositionedReader`."""
        return self._size

    def read_from(self, position: int, size: int) -> bytes:
        """See `PositionedReader`."""
        with reaching(self._location):
            self._stream.seek(position)
            return bytes(self._stream.read(size))

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            self._stream.close()
        super().close()


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


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file that a URL's file system lists.

    Attributes:
        location: its URL.
        name: its path below the URL that was listed, "/" between components.
        size: bytes.
        mtime_ns: time of last change, 0 where the file system does not tell.
    """

    location: str
    name: str
    size: int
    mtime_ns: int


def list_remote(location: str) -> Iterator[RemoteFile]:
    """Yield the files below a URL, or the one that it names, in order of their names.

    Raises:
        FileNotFoundError: nothing is there.
        OSError: it cannot be listed.
    """
    system, root = filesystem(location)
    protocol = location.partition("://")[0]
    root = root.rstrip("/")
    with reaching(location):
        system.invalidate_cache()
        found = system.find(root, detail=True)
        if not found and not system.exists(root):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), location)
    for path, detail in sorted(found.items()):
        name = path[len(root) :].lstrip("/") if path != root else ""
        yield RemoteFile(f"{protocol}://{path.lstrip('/') if protocol != 'file' else path}", name, *_details(detail))


def remote_status(location: str) -> tuple[int, int]:
    """Return size (bytes) and time of last change (nanoseconds) of a remote file."""
    system, path = filesystem(location)
    with reaching(location):
        system.invalidate_cache()
        return _details(system.info(path))


def remote_place(location: str) -> str:
    """Return the one way to write the URL of a file, however it was written."""
    system, path = filesystem(location)
    return str(system.unstrip_protocol(path))


def _details(detail: dict[str, Any]) -> tuple[int, int]:
    changed: Any = detail.get("LastModified", detail.get("mtime", detail.get("created")))
    if hasattr(changed, "timestamp"):
        changed = changed.timestamp()
    if detail.get("size") is None:
        raise OSError(None, "its server does not say how long it is", detail.get("name"))
    return int(detail["size"]), int(changed or 0) * 1_000_000_000
