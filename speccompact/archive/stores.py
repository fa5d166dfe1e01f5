"""What fsspec knows by its URL (`s3://bucket/key`): files of a store are found, asked about and read.

The libraries below have errors of their own; all that gets out of here is an OSError.
"""

import errno
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from speccompact.container.rawreading import PositionedReader
from speccompact.errors import ArgumentError, SpecCompactError


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


class RemoteStream(PositionedReader):
    """A file of a store while it is read; whatever goes wrong is an error of the system."""

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
