"""What the file system says about a path, as an entry. The way back is in `restoring`."""

import errno
import functools
import grp
import os
import pwd
import stat

from speccompact.archive.entries import Entry, FileType

_MOST_SECONDS = 1 << 62  # of a number column

_TYPES = {
    stat.S_IFREG: FileType.FILE,
    stat.S_IFDIR: FileType.FOLDER,
    stat.S_IFLNK: FileType.SYMLINK,
    stat.S_IFIFO: FileType.FIFO,
    stat.S_IFCHR: FileType.CHARACTER,
    stat.S_IFBLK: FileType.BLOCK,
}


def entry_type(mode: int) -> FileType | None:
    """Return the type that a mode of `lstat` says; None for a socket, which nobody can restore."""
    return _TYPES.get(stat.S_IFMT(mode))


def entry_of(path: bytes, location: str, status: os.stat_result, *, xattrs: bool) -> Entry | None:
    """Return the entry of a local path; None for a socket, which nobody can restore.

    Args:
        path: its name in the archive.
        location: where it is; a symbolic link is not followed.
        status: what `lstat` says.
        xattrs: whether to read extended attributes.

    Raises:
        OSError: a link or an attribute cannot be read, or the time of last change is beyond what an archive can hold.
    """
    if abs(status.st_mtime_ns) >= _MOST_SECONDS * 1_000_000_000:
        raise OSError(errno.EOVERFLOW, "its time of last change is no time", location)
    kind = entry_type(status.st_mode)
    if kind is None:
        return None
    return Entry(
        path=path,
        type=kind,
        mode=stat.S_IMODE(status.st_mode),
        mtime_ns=status.st_mtime_ns,
        uid=status.st_uid,
        gid=status.st_gid,
        user=_user(status.st_uid),
        group_name=_group(status.st_gid),
        size=status.st_size if kind == FileType.FILE else 0,
        link=os.fsencode(os.readlink(location)) if kind == FileType.SYMLINK else b"",
        device=status.st_rdev if kind in (FileType.CHARACTER, FileType.BLOCK) else 0,
        segments=_segments(location, status) if kind == FileType.FILE else None,
        xattrs=_xattrs(location) if xattrs else (),
    )


def _segments(location: str, status: os.stat_result) -> tuple[tuple[int, int], ...] | None:
    """Return where a file with holes has data, None for a file without."""
    if status.st_blocks * 512 >= status.st_size:
        return None
    found: list[tuple[int, int]] = []
    descriptor = os.open(location, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        end = 0
        while end < status.st_size:
            try:
                start = os.lseek(descriptor, end, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:  # only a hole is left
                    break
                return None
            if start >= status.st_size:  # it grows while it is looked at
                break
            end = min(os.lseek(descriptor, start, os.SEEK_HOLE), status.st_size)
            found.append((start, end - start))
    finally:
        os.close(descriptor)
    return None if found == [(0, status.st_size)] else tuple(found)


def _xattrs(location: str) -> tuple[tuple[bytes, bytes], ...]:
    try:
        names = sorted(os.listxattr(location, follow_symlinks=False))
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.EPERM):
            return ()
        raise
    return tuple((os.fsencode(name), os.getxattr(location, name, follow_symlinks=False)) for name in names)


@functools.cache
def _user(number: int) -> bytes:
    try:
        return os.fsencode(pwd.getpwuid(number).pw_name)
    except KeyError:
        return b""


@functools.cache
def _group(number: int) -> bytes:
    try:
        return os.fsencode(grp.getgrgid(number).gr_name)
    except KeyError:
        return b""
