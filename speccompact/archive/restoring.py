"""From entries to the file system: one path at a time, inside a `SafeTree`. The way there is in `metadata`.

Commit point of a file: the rename from its temporary name, after its bytes and metadata are on disk.
"""

import errno
import grp
import os
import pwd
import stat
from contextlib import suppress

from speccompact.archive.entries import Entry, FileType
from speccompact.archive.metadata import entry_type
from speccompact.archive.readoptions import RestoreOptions
from speccompact.archive.safetree import SafeTree
from speccompact.container.format import sha_prefix
from speccompact.errors import DamagedError

_PERMISSIONS = 0o777


class OpenFile:
    """A file while it is written, under a temporary name that the same path always gets.

    Args:
        tree: the target.
        entry: what it will be.
    """

    def __init__(self, tree: SafeTree, entry: Entry, options: RestoreOptions) -> None:
        self._tree, self._entry, self._options = tree, entry, options
        parent, name = tree.parent(entry.path)
        self._temporary = b".speccompact-" + sha_prefix(8, name).hex().encode() + b".tmp"
        with suppress(FileNotFoundError):
            os.unlink(self._temporary, dir_fd=parent)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file: int | None = os.open(self._temporary, flags, 0o600, dir_fd=parent)
        self._spans = list(entry.segments) if entry.segments is not None else [(0, entry.size)]
        self._at = 0

    def write(self, data: bytes) -> None:
        """Write the next stored bytes."""
        file = self._opened()
        while data:
            offset, length = self._spans[0]
            taken = min(len(data), length - self._at)
            _write_all(file, data[:taken], offset + self._at)
            data, self._at = data[taken:], self._at + taken
            if self._at == length:
                self._spans.pop(0)
                self._at = 0

    def _opened(self) -> int:
        if self._file is None:
            parent, _ = self._tree.parent(self._entry.path)
            flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(self._temporary, flags, dir_fd=parent)
        return self._file

    def pause(self) -> None:
        """Close the file until more bytes come."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def commit(self) -> None:
        """Give the file its metadata and its name.

        Raises:
            OSError: it could not get its name; or it has, but not all of its metadata.
        """
        entry, file = self._entry, self._opened()
        os.ftruncate(file, entry.size)
        problem = _restore(file, entry, self._options)
        os.fsync(file)
        self.pause()
        parent, name = self._tree.parent(entry.path)
        if not self._options.force:
            refuse_taken(self._tree, entry)
        os.rename(self._temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
        _tell(problem)

    def abort(self) -> None:
        """Remove what was written."""
        self.pause()
        parent, _ = self._tree.parent(self._entry.path)
        with suppress(FileNotFoundError):
            os.unlink(self._temporary, dir_fd=parent)


def is_there(tree: SafeTree, entry: Entry) -> bool:
    """Return whether what is no regular file and no folder is at its path already, as the entry says."""
    status = tree.status(entry.path)
    if status is None:
        return False
    if entry.type == FileType.HARDLINK:
        target = tree.status(entry.link)
        return target is not None and os.path.samestat(status, target)
    if entry.type == FileType.SYMLINK:
        parent, name = tree.parent(entry.path)
        return stat.S_ISLNK(status.st_mode) and os.readlink(name, dir_fd=parent) == entry.link
    return entry_type(status.st_mode) == entry.type and (entry.type == FileType.FIFO or status.st_rdev == entry.device)


def refuse_taken(tree: SafeTree, entry: Entry) -> None:
    """Raise FileExistsError where something is at the path of an entry."""
    if tree.status(entry.path) is not None:
        raise FileExistsError(errno.EEXIST, "already exists; -f overwrites it", entry.path)


def restore_other(tree: SafeTree, entry: Entry, options: RestoreOptions) -> None:
    """Make what is no regular file and no folder, or a hard link to a file that was restored before.

    Raises:
        DamagedError: a hard link leads out of the target, or to something that is no file.
        OSError: it cannot be made.
    """
    parent, name = tree.parent(entry.path)
    if options.force:
        status = tree.status(entry.path)
        if status is not None and not stat.S_ISDIR(status.st_mode):
            os.unlink(name, dir_fd=parent)
    match entry.type:
        case FileType.SYMLINK:
            os.symlink(entry.link, name, dir_fd=parent)
        case FileType.HARDLINK:
            _link(tree, entry)
        case FileType.FIFO:
            os.mkfifo(name, 0o600, dir_fd=parent)
        case FileType.CHARACTER | FileType.BLOCK:
            if not options.special:
                raise OSError(None, "devices are made only if special files are asked for")
            kind = stat.S_IFCHR if entry.type == FileType.CHARACTER else stat.S_IFBLK
            os.mknod(name, kind | 0o600, entry.device, dir_fd=parent)
    if entry.type == FileType.HARDLINK:
        return
    parent, name = tree.parent(entry.path)
    if options.owner:
        uid, gid = _owner(entry, options)
        os.chown(name, uid, gid, dir_fd=parent, follow_symlinks=False)
    if entry.type != FileType.SYMLINK:
        os.chmod(name, _mode(entry, options), dir_fd=parent)
    os.utime(name, ns=(entry.mtime_ns, entry.mtime_ns), dir_fd=parent, follow_symlinks=False)


def restore_folder(tree: SafeTree, entry: Entry, options: RestoreOptions) -> None:
    """Give a folder its metadata, after all that is in it was made."""
    parent, name = tree.parent(entry.path)
    descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        _tell(_restore(descriptor, entry, options))
    finally:
        os.close(descriptor)


def _link(tree: SafeTree, entry: Entry) -> None:
    status = tree.status(entry.link)
    if status is None or not stat.S_ISREG(status.st_mode):
        raise DamagedError(f"entry {entry.path[:80]!r} is a hard link to what is no file of the target")
    parent, name = tree.parent(entry.link)
    held = os.dup(parent)
    try:
        parent, own = tree.parent(entry.path)
        os.link(name, own, src_dir_fd=held, dst_dir_fd=parent, follow_symlinks=False)
    finally:
        os.close(held)


def _restore(descriptor: int, entry: Entry, options: RestoreOptions) -> str:
    """Give a file or folder its metadata as far as the system lets us, and return what it did not.

    Rights that belong to an owner or an attribute are not given where that could not be set.
    """
    problems, mode = [], _mode(entry, options)
    try:
        if options.owner:
            os.fchown(descriptor, *_owner(entry, options))
    except OSError as error:
        problems.append(f"owner: {error.strerror}")
        mode &= _PERMISSIONS
    for name, value in entry.xattrs if options.xattrs or options.special else ():
        if name.startswith(b"user.") or options.special:
            try:
                os.setxattr(descriptor, name, value)
            except (OSError, ValueError) as error:
                problems.append(f"attribute {os.fsdecode(name)}: {getattr(error, 'strerror', None) or error}")
    try:
        os.fchmod(descriptor, mode)
        os.utime(descriptor, ns=(entry.mtime_ns, entry.mtime_ns))
    except OSError as error:
        problems.append(f"mode or time: {error.strerror}")
    return ", ".join(problems)


def _tell(problem: str) -> None:
    """Raise what of the metadata could not be restored; the file is there all the same."""
    if problem:
        raise OSError(None, f"it is there, but not all of its metadata ({problem})")


def _mode(entry: Entry, options: RestoreOptions) -> int:
    return entry.mode if options.special else entry.mode & _PERMISSIONS


def _owner(entry: Entry, options: RestoreOptions) -> tuple[int, int]:
    uid, gid = entry.uid, entry.gid
    if not options.numeric:
        with suppress(KeyError):
            uid = pwd.getpwnam(os.fsdecode(entry.user)).pw_uid
        with suppress(KeyError):
            gid = grp.getgrnam(os.fsdecode(entry.group_name)).gr_gid
    return uid, gid


def _write_all(descriptor: int, data: bytes, offset: int) -> None:
    left = memoryview(data)
    while left:
        count = os.pwrite(descriptor, left, offset)
        left, offset = left[count:], offset + count
