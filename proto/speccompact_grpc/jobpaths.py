"""Paths of jobs: "ROOT/relative/path", where ROOT names a folder that the operator has opened to jobs.

Invariants (enforced): no component is "..", and none is a symbolic link when a job starts. Links can come to be below a
root only through extraction, and no two jobs run at once of which one writes where the other works (`Claims`), so what
was looked at when a job started stays so while it runs.
"""

import errno
import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from speccompact.archive.ledger import SUFFIX
from speccompact.archive.outputs import PARTIAL
from speccompact.archive.safetree import split_path
from speccompact.archive.storage import volume_name
from speccompact.errors import ArgumentError, DamagedError, LimitError

PATH_BYTES: Final = 4096
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_BESIDE: Final = ".speccompact-"


class PathRefused(Exception):
    """A path is not one that jobs may use; the message says why, for the caller."""


@dataclass(frozen=True, slots=True)
class Place:
    """A path of a job.

    Attributes:
        name: as the caller has written it.
        root: absolute path of the folder that it is below.
        parts: components below the root; none for the root itself.
        inside: whether it was written with "/" at its end.
    """

    name: str
    root: str
    parts: tuple[bytes, ...]
    inside: bool = False

    @property
    def path(self) -> str:
        """Absolute path, without "/" at its end."""
        return os.path.join(self.root, *map(os.fsdecode, self.parts))

    def open_parent(self) -> int:
        """Return a descriptor of the folder that it is in.

        Raises:
            PathRefused: a link is on the way, or it is a root itself.
            FileNotFoundError: that folder is not there.
        """
        if not self.parts:
            raise PathRefused(f"{self.name} is a whole folder for jobs; name something in it")
        descriptor = os.open(self.root, _FOLDER)
        for part in self.parts[:-1]:
            try:
                below = os.open(part, _FOLDER, dir_fd=descriptor)
            except OSError as error:
                raise self._explained(error) from None
            finally:
                os.close(descriptor)
            descriptor = below
        return descriptor

    def status(self) -> os.stat_result | None:
        """Return what is there, or None.

        Raises:
            PathRefused: it is a link, or a link is on the way.
            FileNotFoundError: the folder that it is in is not there.
        """
        if not self.parts:
            return os.stat(self.root)
        parent = self.open_parent()
        try:
            found = os.stat(self.parts[-1], dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError:
            return None
        finally:
            os.close(parent)
        if stat.S_ISLNK(found.st_mode):
            raise PathRefused(f"{self.name} is a symbolic link; jobs follow none")
        return found

    def open_file(self) -> int:
        """Return a descriptor of a regular file, for reading.

        Raises:
            PathRefused: it is no regular file, or a link is on the way.
            OSError: it is not there, or cannot be read.
        """
        parent = self.open_parent()
        try:  # without O_NONBLOCK a pipe without a writer would hold the worker for ever
            descriptor = os.open(
                self.parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent
            )
        except OSError as error:
            raise self._explained(error) from None
        finally:
            os.close(parent)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise PathRefused(f"{self.name} is no regular file")
        return descriptor

    @property
    def base(self) -> str:
        """Absolute path of an archive as its ledger has it: without the number of a first volume."""
        return self.path.removesuffix(volume_name("", 0))

    def check_family(self) -> None:
        """Look at an archive's path and all that archive jobs may open beside it: volumes, ledger, partial file.

        Raises:
            PathRefused: one of them is no regular file.
            FileNotFoundError: the folder that they are in is not there.
        """
        parent = self.open_parent()
        base = os.path.basename(self.base)
        try:
            for name in os.listdir(parent):
                if name == base or name.startswith(base + "."):
                    mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
                    if not stat.S_ISREG(mode) and not (name != base and stat.S_ISDIR(mode)):
                        raise PathRefused(f"{self.name}: what is there, or {name} beside it, is no regular file")
        finally:
            os.close(parent)

    def leftovers(self) -> list[str]:
        """Return the absolute paths of what an archive job that did not end has left beside this path."""
        own = [self.base + suffix for suffix in (PARTIAL, *(SUFFIX + end for end in ("", "-journal", "-wal", "-shm")))]
        return [path for path in own if os.path.lexists(path)]

    def _explained(self, error: OSError) -> Exception:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            return PathRefused(f"{self.name} leads through a symbolic link, or through what is no folder")
        return OSError(error.errno, error.strerror, self.name)


class Roots:
    """The folders that jobs may use, by name.

    Args:
        settings: "NAME=FOLDER", or a folder whose last component is its name.

    Raises:
        ArgumentError: a name is empty, has a "/" or comes twice, or a folder is not there.
    """

    def __init__(self, settings: Iterable[str]) -> None:
        self._folders: dict[str, str] = {}
        for setting in settings:
            name, equals, folder = setting.partition("=")
            if not equals:
                name, folder = os.path.basename(os.path.abspath(setting)), setting
            if not name or "/" in name or name in (".", ".."):
                raise ArgumentError(
                    f'jobs_roots: "{setting}" has no name that a path could begin with; write NAME=FOLDER'
                )
            if name in self._folders:
                raise ArgumentError(f'jobs_roots: two folders are named "{name}"; write NAME=FOLDER for one of them')
            if not os.path.isdir(folder):
                raise ArgumentError(f'jobs_roots: "{folder}" is no folder')
            self._folders[name] = os.path.realpath(folder)

    def place(self, name: str) -> Place:
        """Return the place that a path of a job means. Nothing is looked at.

        Raises:
            PathRefused: it is below no root, or has "..", an empty component or NUL.
        """
        if len(name.encode("utf-8", "surrogateescape")) > PATH_BYTES:
            raise PathRefused(f"a path has more than {PATH_BYTES} bytes")
        root, _, rest = name.partition("/")
        if root not in self._folders:
            raise PathRefused(f'"{root[:64]}" is no folder for jobs; a path is ROOT/relative/path')
        inside = name.endswith("/")
        rest = rest.removesuffix("/")
        if not rest:
            return Place(name, self._folders[root], (), inside)
        try:
            parts = tuple(split_path(os.fsencode(rest), PATH_BYTES))
        except (DamagedError, LimitError) as error:
            raise PathRefused(f'path "{name[:80]}": {error}') from None
        if parts[-1].startswith(os.fsencode(_BESIDE)) or parts[-1].endswith(os.fsencode(PARTIAL)):
            raise PathRefused(f'"{name[:80]}" has a name that unfinished outputs have')
        return Place(name, self._folders[root], parts, inside)

    def holds(self, path: str) -> bool:
        """Return whether a path of the system is one of the folders, or below one."""
        real = os.path.realpath(path)
        return any(os.path.commonpath((real, folder)) == folder for folder in self._folders.values())

    def hidden(self, text: str) -> str:
        """Return a message with the names of folders in place of their paths, which are nobody's business."""
        for name, folder in sorted(self._folders.items(), key=lambda item: -len(item[1])):
            text = text.replace(folder, name)
        return text


@dataclass(frozen=True, slots=True)
class Claim:
    """What a job works on: paths that it reads, and paths that it writes.

    One that ends in "." is every name that begins so: volumes and ledger of an archive.
    """

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()

    def conflicts(self, other: "Claim") -> bool:
        """Return whether one writes where the other works; neither may then run while the other does."""
        return _meet(self.writes, (*other.reads, *other.writes)) or _meet(other.writes, self.reads)


def _meet(left: Sequence[str], right: Sequence[str]) -> bool:
    return any(_within(one, two) or _within(two, one) for one in left for two in right)


def _within(path: str, above: str) -> bool:
    return path == above or path.startswith(above if above.endswith(".") else above.rstrip("/") + "/")
