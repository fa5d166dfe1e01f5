"""The archive as it is written: grows at its end, in one file or in volumes, and gets its name when it is complete.

Commit points: `sync` for what was written so far; `commit` for the names. Until then every file has the suffix
PARTIAL. With volumes the last one is renamed last, and without it, which has the trailer, there is no archive.
"""

import errno
import fcntl
import os
from contextlib import suppress
from types import TracebackType
from typing import Self

from speccompact.archive.storage import volume_name, volumes
from speccompact.container.rawreading import PositionedReader
from speccompact.errors import JobError

PARTIAL = ".partial"


class Output:
    """Args: `path` is the final name; `volume_bytes` splits; `suffix` is PARTIAL, or nothing to write in place.

    Raises:
        JobError: another process is writing it.
        OSError: it cannot be written.
    """

    def __init__(self, path: str, volume_bytes: int | None = None, suffix: str = PARTIAL) -> None:
        self._path, self._volume_bytes, self._suffix = path, volume_bytes, suffix
        self._volumes: list[int] = []
        self._synced = 0  # volumes from the first on that are on disk
        try:
            while not self._volumes or (volume_bytes and os.path.exists(self._name(len(self._volumes)))):
                self._add()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def size(self) -> int:
        """Bytes written so far, over all volumes."""
        return sum(os.fstat(volume).st_size for volume in self._volumes)

    def append(self, data: bytes) -> None:
        """Write at the end, in new volumes where the last one is full."""
        left = memoryview(data)
        while left:
            last = self._volumes[-1]
            end = os.fstat(last).st_size
            room = len(left) if self._volume_bytes is None else self._volume_bytes - end
            if room <= 0:
                self._add()
                continue
            left = left[os.pwrite(last, left[:room], end) :]
            self._synced = min(self._synced, len(self._volumes) - 1)

    def read_at(self, offset: int, size: int) -> bytes:
        """Return `size` bytes from `offset` on, fewer at the end."""
        parts = []
        for volume in self._volumes:
            length = os.fstat(volume).st_size
            if offset < length and size:
                data = b""
                wanted = min(size, length - offset)
                while len(data) < wanted and (more := os.pread(volume, wanted - len(data), offset + len(data))):
                    data += more
                parts.append(data)
                size -= len(data)
                offset += len(data)
            offset -= length
        return b"".join(parts)

    def truncate(self, size: int) -> None:
        """Cut everything behind the first `size` bytes."""
        for number, volume in enumerate(self._volumes):
            length = os.fstat(volume).st_size
            if number and size <= 0:
                os.close(volume)
                os.unlink(self._name(number))
                self._volumes[number] = -1
            elif size < length:
                os.ftruncate(volume, max(size, 0))
            size -= length
        self._volumes = [volume for volume in self._volumes if volume >= 0]
        self._synced = 0

    def sync(self) -> None:
        """Put on disk what was written since the last time."""
        for volume in self._volumes[self._synced :]:
            os.fsync(volume)
        self._synced = len(self._volumes)

    def commit(self) -> None:
        """Give the files their names."""
        for number, volume in enumerate(self._volumes):
            os.fsync(volume)
            if self._suffix:
                os.replace(self._name(number), self._name(number).removesuffix(self._suffix))
        sync_folder(self._path)

    def close(self) -> None:
        """Close the files and let go of the lock."""
        for volume in self._volumes:
            os.close(volume)
        self._volumes = []

    def _name(self, number: int) -> str:
        return (volume_name(self._path, number) if self._volume_bytes else self._path) + self._suffix

    def _add(self) -> None:
        descriptor = os.open(self._name(len(self._volumes)), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        self._volumes.append(descriptor)
        sync_folder(self._path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise JobError(f"{self._path} is being written by another process") from None
            raise


def take_back(path: str) -> None:
    """Undo a `commit` that came to its end for some of the volumes only: those get their suffix again."""
    renamed = volumes(path)
    if (
        renamed
        and not os.path.exists(renamed[0] + PARTIAL)
        and os.path.exists(volume_name(path, len(renamed)) + PARTIAL)
    ):
        for name in reversed(renamed):
            os.replace(name, name + PARTIAL)


def drop_other_shape(path: str, volume_bytes: int | None) -> None:
    """Remove an archive of that name in the other shape, or with more volumes: it would be taken for the new one."""
    if volume_bytes:
        with suppress(FileNotFoundError):
            os.unlink(path)
    for name in volumes(path):
        os.unlink(name)


def exists(path: str) -> bool:
    """Return whether an archive of that name is there, in one file or in volumes."""
    return os.path.lexists(path) or bool(volumes(path))


def sync_folder(path: str) -> None:
    """Put the names in the folder of a path on disk, where the file system can do so."""
    descriptor = os.open(os.path.dirname(path) or os.curdir, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


class OutputStream(PositionedReader):
    """What an output holds so far, for reading."""

    def __init__(self, output: Output) -> None:
        super().__init__()
        self._output = output

    def end(self) -> int:
        """See `PositionedReader`."""
        return self._output.size

    def read_from(self, position: int, size: int) -> bytes:
        """See `PositionedReader`."""
        return self._output.read_at(position, size)
