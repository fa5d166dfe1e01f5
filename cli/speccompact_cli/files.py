"""Files in and out: inputs that are what they seem, outputs that appear whole or not at all.

Commit point of an output: the rename in ``AtomicFile.commit``. Before it the final name is as it was (absent, or the
old file); after it the final name holds the complete new content, already on disk. A killed run can leave a hidden
``.speccompact-*.tmp`` beside the target, never a partial file under its name.
"""

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import BinaryIO, Self

from speccompact.errors import ArgumentError
from speccompact_cli.console import standard_input, standard_output
from speccompact_cli.naming import STANDARD, shown

_TEMPORARY = (".speccompact-", ".tmp")
_PERMISSIONS = 0o777
_BUFFER = 1 << 17


@dataclass(frozen=True, slots=True)
class Source:
    """An open input.

    Attributes:
        path: its name as given; "-" for standard input.
        stream: binary, at its start.
        size: bytes, or None where that is unknown (a pipe).
        status: of a regular file, else None.
    """

    path: str
    stream: BinaryIO
    size: int | None
    status: os.stat_result | None


@contextmanager
def open_source(path: str) -> Iterator[Source]:
    """Open an input file, or standard input for "-".

    Raises:
        IsADirectoryError: the path is a directory.
        OSError: it cannot be opened.
    """
    if path == STANDARD:
        stream = standard_input()
        status = os.fstat(stream.fileno())
        regular = stat.S_ISREG(status.st_mode)
        yield Source(path, stream, status.st_size if regular else None, None)
        return
    with open(path, "rb", buffering=_BUFFER) as stream:
        status = os.fstat(stream.fileno())
        regular = stat.S_ISREG(status.st_mode)
        yield Source(path, stream, status.st_size if regular else None, status if regular else None)


class AtomicFile:
    """A file that appears under its name only when ``commit`` has returned; leaving without it changes nothing.

    Args:
        path: the final name. A symbolic link is followed: the file that it points to is replaced.
        overwrite: replace a file of that name. Without it, one that exists now or at the commit is an error.
        like: the file whose permission bits and modification time the new one takes over, or None for the defaults.

    Raises:
        FileExistsError: the name is taken and overwrite is off.
        OSError: the folder cannot be written.
    """

    def __init__(self, path: str, *, overwrite: bool, like: os.stat_result | None) -> None:
        self._path = os.path.realpath(path) if os.path.islink(path) else path
        self._overwrite = overwrite
        self._like = like
        if not overwrite and os.path.lexists(self._path):
            raise _taken(path)
        prefix, suffix = _TEMPORARY
        folder = os.path.dirname(self._path) or os.curdir
        try:
            descriptor, self._temporary = tempfile.mkstemp(suffix=suffix, prefix=prefix, dir=folder)
        except OSError as error:  # the user knows the name of the output, not of what stands in for it
            raise OSError(error.errno, error.strerror, path) from None
        self.stream: BinaryIO = os.fdopen(descriptor, "wb", buffering=_BUFFER)

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
            if self._temporary:
                with suppress(FileNotFoundError):
                    os.unlink(self._temporary)

    def commit(self) -> None:
        """Give the content its final name. Nothing may be written afterwards.

        Raises:
            FileExistsError: another program took the name meanwhile and overwrite is off.
            OSError: the content cannot be put on disk; the final name is untouched.
        """
        self.stream.flush()
        descriptor = self.stream.fileno()
        if self._like is None:
            os.fchmod(descriptor, 0o666 & ~_umask())
        else:
            os.fchmod(descriptor, self._like.st_mode & _PERMISSIONS)
            os.utime(descriptor, ns=(self._like.st_atime_ns, self._like.st_mtime_ns))
        os.fsync(descriptor)
        if self._overwrite:
            os.replace(self._temporary, self._path)
        else:
            self._rename_unless_taken()
        self._temporary = ""
        _sync_folder(os.path.dirname(self._path) or os.curdir)

    def _rename_unless_taken(self) -> None:
        """A link fails where the name exists, which a rename does not; file systems without links get the check."""
        try:
            os.link(self._temporary, self._path)
        except FileExistsError:
            raise _taken(self._path) from None
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS):
                raise
            if os.path.lexists(self._path):
                raise _taken(self._path) from None
            os.replace(self._temporary, self._path)
        else:
            os.unlink(self._temporary)


@contextmanager
def open_target(path: str, *, overwrite: bool, source: Source, binary: bool) -> Iterator[BinaryIO]:
    """Open an output; it is complete when the block ends without an error.

    Args:
        path: the name, or "-" for standard output. A device or pipe is written in place.
        overwrite: replace an existing file, write binary data to a terminal.
        source: the input: its permissions and time are taken over, and it must not be the output.
        binary: whether a terminal must be protected from the content.

    Raises:
        ArgumentError: the output is the input, or a terminal that would get binary data.
        FileExistsError: the name is taken and overwrite is off.
        OSError: it cannot be written.
    """
    if path == STANDARD:
        stream = standard_output()
        if binary and stream.isatty() and not overwrite:
            raise ArgumentError("standard output is a terminal; use -o FILE, or -f to write compressed data to it")
        yield stream
        stream.flush()
        return
    try:
        status = os.stat(path)
    except FileNotFoundError:
        status = None
    if status is not None:
        if source.status is not None and os.path.samestat(status, source.status):
            raise ArgumentError(f"{shown(path)}: input and output are the same file")
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(status.st_mode):
            with open(path, "wb") as stream:
                yield stream
            return
    with AtomicFile(path, overwrite=overwrite, like=source.status) as target:
        yield target.stream
        target.commit()


def remove_source(source: Source) -> None:
    """Delete an input after its output was committed (``--rm``).

    Raises:
        ArgumentError: the input is no regular file under its own name (standard input, a link, a device), or is no
            longer the file that was read: replaced, written to or cut since it was opened.
        OSError: it cannot be removed.
    """
    if source.status is None or os.path.islink(source.path):
        raise ArgumentError(f"{shown(source.path)}: only a regular file can be removed; it is kept")
    now, then = os.lstat(source.path), source.status
    if not os.path.samestat(now, then):
        raise ArgumentError(f"{shown(source.path)}: was replaced meanwhile; it is kept")
    if (now.st_size, now.st_mtime_ns) != (then.st_size, then.st_mtime_ns):
        raise ArgumentError(
            f"{shown(source.path)}: was changed meanwhile; it is kept, and the output has what was read"
        )
    os.unlink(source.path)


def _taken(path: str) -> FileExistsError:
    return FileExistsError(errno.EEXIST, "already exists; -f overwrites it", path)


def _umask() -> int:
    """The process's mask, which can only be read by setting it (one thread does file work here)."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync_folder(folder: str) -> None:
    """Put the rename itself on disk; some file systems cannot sync a folder, and then there is nothing to do."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)
