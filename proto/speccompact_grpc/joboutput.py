"""The output of a job that makes one file.

Commit point: the rename, of a file that is on disk already. Just before it the store is told the identity that the
output will have, so that a service that was killed between the rename and the end of the job knows its own work again.
"""

import errno
import os
from contextlib import suppress
from types import TracebackType
from typing import BinaryIO, Self

from speccompact_grpc.jobpaths import Place

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS)


def identity(status: os.stat_result) -> str:
    """Return what tells a file from all others, as long as nobody writes to it."""
    return f"{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"


class JobOutput:
    """A file that appears under its name only when `commit` has returned; leaving without it changes nothing.

    Args:
        place: where it goes.
        job: name of the job. What an earlier run of it that was killed has left goes.
        force: replace a file of that name.
        like: the file whose permissions and time the new one takes over.

    Raises:
        FileExistsError: the name is taken, and `force` is off or it is no file.
        OSError: the folder cannot be written.
    """

    def __init__(self, place: Place, job: str, *, force: bool, like: os.stat_result) -> None:
        self._place, self._force, self._like = place, force, like
        self._temporary = f".speccompact-{job}.tmp"
        self._parent = place.open_parent()
        try:
            if not force and place.status() is not None:
                raise _taken(place)
            with suppress(FileNotFoundError):
                os.unlink(self._temporary, dir_fd=self._parent)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(self._temporary, flags, 0o600, dir_fd=self._parent)
        except BaseException:
            os.close(self._parent)
            raise
        self.stream: BinaryIO = os.fdopen(descriptor, "wb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Remove what was not committed; an error while closing it must not hide the one that led here."""
        try:
            self.stream.close()
        except OSError:
            if error is None:
                raise
        finally:
            with suppress(FileNotFoundError):
                os.unlink(self._temporary, dir_fd=self._parent)
            os.close(self._parent)

    def seal(self) -> str:
        """Put the content on disk and return the identity that the output will have. Nothing may be written any more.

        Raises:
            OSError: the disk is full.
        """
        self.stream.flush()
        descriptor = self.stream.fileno()
        os.fchmod(descriptor, self._like.st_mode & 0o777)
        os.utime(descriptor, ns=(self._like.st_atime_ns, self._like.st_mtime_ns))
        os.fsync(descriptor)
        return identity(os.fstat(descriptor))

    def commit(self) -> None:
        """Give the file its name.

        Raises:
            FileExistsError: the name was taken meanwhile, and `force` is off.
            OSError: the name cannot be given.
        """
        name = self._place.parts[-1]
        if self._force:
            os.rename(self._temporary, name, src_dir_fd=self._parent, dst_dir_fd=self._parent)
        else:
            try:  # a link fails where the name is taken, which a rename does not
                os.link(self._temporary, name, src_dir_fd=self._parent, dst_dir_fd=self._parent, follow_symlinks=False)
            except FileExistsError:
                raise _taken(self._place) from None
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                if self._place.status() is not None:
                    raise _taken(self._place) from None
                os.rename(self._temporary, name, src_dir_fd=self._parent, dst_dir_fd=self._parent)
        with suppress(OSError):  # some file systems cannot sync a folder
            os.fsync(self._parent)


def remove_temporary(place: Place, job: str) -> None:
    """Remove what a run of a job that was killed has left beside its output."""
    parent = place.open_parent()
    try:
        with suppress(FileNotFoundError):
            os.unlink(f".speccompact-{job}.tmp", dir_fd=parent)
    finally:
        os.close(parent)


def _taken(place: Place) -> FileExistsError:
    return FileExistsError(errno.EEXIST, "already exists", place.name)
