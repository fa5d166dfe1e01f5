"""A folder that nothing is written outside of: every name is opened relative to its folder, and no link is followed.

Invariants (enforced): each component of a path is opened with O_NOFOLLOW relative to the one before; a path has no
component "..", is not absolute, and on Windows names no drive and has no backslash.
"""

import errno
import os
from types import TracebackType
from typing import Self

from speccompact.errors import DamagedError, LimitError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_RESERVED = {b"con", b"prn", b"aux", b"nul", *(b"com%d" % n for n in range(10)), *(b"lpt%d" % n for n in range(10))}


def split_path(path: bytes, most: int, *, windows: bool = os.name == "nt") -> list[bytes]:
    """Return the components of an entry's path, if it is one that can be created inside a folder.

    Args:
        most: bytes of a path to accept.
        windows: whether names are for Windows, where more of them lead elsewhere. Elsewhere a backslash or a colon is
            a character like others.

    Raises:
        DamagedError: it leads out of the folder, or is no path.
        LimitError: it is too long.
    """
    if len(path) > most:
        raise LimitError(f"a path of {len(path)} bytes; the limit is {most}")
    parts = path.split(b"/")
    if b"\0" in path or any(part in (b"", b".", b"..") for part in parts):
        raise DamagedError(f"path {path[:80]!r} leads out of the target, or is not in its shortest form")
    if windows:
        for part in parts:
            plain = part.rstrip(b" .")
            if plain != part or set(part) & set(b'\\:*?"<>|') or plain.partition(b".")[0].lower() in _RESERVED:
                raise DamagedError(f"path {path[:80]!r} has a name that means something else on this system")
    return parts


class SafeTree:
    """The target of an extraction.

    Args:
        root: an existing folder, or one to be made. May itself be named through links.
        path_bytes: of a path, at most.
    """

    def __init__(self, root: str, path_bytes: int) -> None:
        os.makedirs(root, exist_ok=True)
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._most = path_bytes
        self._parent: tuple[list[bytes], int] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._forget()
        os.close(self._root)

    def parent(self, path: bytes) -> tuple[int, bytes]:
        """Return the descriptor of the folder that a path is in, made if need be, and the last component.

        The descriptor is good until the next call.

        Raises:
            DamagedError: the path leads out of the target.
            OSError: something that is no folder, such as a link, is in the way.
        """
        *folders, name = split_path(path, self._most)
        if self._parent is None or self._parent[0] != folders:
            self._forget()
            self._parent = folders, self._descend(folders)
        return self._parent[1], name

    def make_folder(self, path: bytes) -> None:
        """Make a folder for the owner alone; it may be there already."""
        parent, name = self.parent(path)
        try:
            os.mkdir(name, 0o700, dir_fd=parent)
        except FileExistsError:
            try:
                descriptor = os.open(name, _FOLDER, dir_fd=parent)
            except PermissionError:
                os.chmod(name, 0o700, dir_fd=parent)  # one of ours that its own mode closes; no link refuses to be read
                return
            except OSError:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path) from None
            try:
                os.fchmod(descriptor, 0o700)
            finally:
                os.close(descriptor)

    def status(self, path: bytes) -> os.stat_result | None:
        """Return what is at a path, links not followed; None if nothing is."""
        parent, name = self.parent(path)
        try:
            return os.stat(name, dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def _descend(self, folders: list[bytes]) -> int:
        descriptor = os.dup(self._root)
        for name in folders:
            try:
                try:
                    below = os.open(name, _FOLDER, dir_fd=descriptor)
                except FileNotFoundError:
                    os.mkdir(name, 0o777, dir_fd=descriptor)
                    below = os.open(name, _FOLDER, dir_fd=descriptor)
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENOTDIR):
                    raise OSError(error.errno, "a link or file is where a folder has to be", name) from None
                raise
            finally:
                os.close(descriptor)
            descriptor = below
        return descriptor

    def _forget(self) -> None:
        if self._parent is not None:
            os.close(self._parent[1])
            self._parent = None
