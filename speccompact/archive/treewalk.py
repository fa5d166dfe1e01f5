"""What there is to archive: a walk over sources, in the order of names, and what it had to leave out."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from speccompact.archive.entries import Entry, FileType
from speccompact.archive.metadata import entry_of
from speccompact.archive.selection import Selection
from speccompact.archive.storage import is_remote
from speccompact.archive.stores import list_remote, remote_place
from speccompact.errors import ArgumentError

Complain = Callable[[bytes, str], None]
"""Called with the path and the reason of everything that is left out."""


@dataclass(frozen=True, slots=True)
class Found:
    """A path to archive, and where it is."""

    entry: Entry
    location: str


def _place(location: str) -> str:
    """Return the one path or URL of a location: no link on the way; one at its end is not followed."""
    if is_remote(location):
        return remote_place(location)
    folder, name = os.path.split(os.path.abspath(location))
    return os.path.join(os.path.realpath(folder), name)


class Avoided:
    """Locations that are never taken, by whatever links or in whatever spelling they are reached."""

    def __init__(self, locations: Iterable[str]) -> None:
        self._places = set(map(_place, locations))
        self._names = set(map(os.path.basename, self._places))

    def __contains__(self, location: str) -> bool:
        """Return whether a location is one of them."""
        return os.path.basename(location) in self._names and _place(location) in self._places


NOTHING = Avoided(())


@dataclass(frozen=True, slots=True)
class WalkOptions:
    """How to walk.

    Attributes:
        selection: which paths to take.
        xattrs: whether extended attributes are kept.
        avoid: what is never taken: the archive itself.
    """

    selection: Selection
    xattrs: bool = False
    avoid: Avoided = NOTHING


def walk(sources: Sequence[str], named: Sequence[str], options: WalkOptions, complain: Complain) -> Iterator[Found]:
    """Yield everything in sources, each below the last component of its name, and the paths of a list.

    A source that ends in "/" or "/." gives what is in it without a name of its own above.

    Args:
        sources: local paths and URLs; folders with all that is in them.
        named: local relative paths, each for itself, under the names as given.

    Raises:
        ArgumentError: two of them want the same name, or one is absolute or leads out of the current folder.
        OSError: a source is not there.
    """
    seen: set[bytes] = set()
    links: dict[tuple[int, int], bytes] = {}
    for found in _all(sources, named, options, links, complain):
        if found.entry.path in seen:
            raise ArgumentError(f"{os.fsdecode(found.entry.path)!r} would be in the archive twice; rename a source")
        seen.add(found.entry.path)
        yield found


def _all(
    sources: Sequence[str],
    named: Sequence[str],
    options: WalkOptions,
    links: dict[tuple[int, int], bytes],
    complain: Complain,
) -> Iterator[Found]:
    for source in sources:
        if is_remote(source):
            yield from _remote(source, options, complain)
            continue
        os.lstat(source)  # one that is missing is a mistake, not something that has vanished on the way
        yield from _local(_base_name(source), source, options, links, complain, deep=True)
    for name in named:
        parts = name.split("/")
        if name.startswith("/") or ".." in parts:
            raise ArgumentError(f"{name!r} is absolute or leads out of the current folder; name it as a SOURCE")
        path = os.fsencode("/".join(part for part in parts if part not in ("", ".")))
        yield from _local(path, name, options, links, complain, deep=False)


def _base_name(source: str) -> bytes:
    if source.endswith(("/", "/.")) or source == ".":
        return b""
    name = os.path.basename(source)
    return os.fsencode(os.path.basename(os.path.realpath(source)) if name == ".." else name)


def _local(
    path: bytes,
    location: str,
    options: WalkOptions,
    links: dict[tuple[int, int], bytes],
    complain: Complain,
    *,
    deep: bool,
) -> Iterator[Found]:
    """Yield a path and, if deep, all below it. A stack and not recursion: trees may be deeper than Python's calls."""
    stack = [(path, location)]
    while stack:
        path, location = stack.pop()
        if (path and options.selection.excludes(path)) or location in options.avoid:
            continue
        try:
            status = os.stat(location) if not path else os.lstat(location)
            entry = entry_of(path or b".", location, status, xattrs=options.xattrs)
            inside = os.listdir(location) if deep and entry and entry.type == FileType.FOLDER else []
        except OSError as error:
            complain(path, error.strerror or str(error))
            continue
        if entry is None:
            complain(path, "sockets cannot be restored")
            continue
        names = sorted(map(os.fsencode, inside), reverse=True)
        stack += [(path + b"/" * bool(path) + name, os.path.join(location, os.fsdecode(name))) for name in names]
        if not path or not options.selection.takes(path):
            continue
        if entry.type == FileType.FILE and status.st_nlink > 1:
            first = links.setdefault((status.st_dev, status.st_ino), path)
            if first != path:
                entry = entry._replace(type=FileType.HARDLINK, link=first, size=0, segments=None)
        yield Found(entry, location)


def _remote(source: str, options: WalkOptions, complain: Complain) -> Iterator[Found]:
    base = source.rstrip("/").rpartition("/")[2].encode("utf-8", "surrogateescape")
    for file in list_remote(source):
        name = file.name.encode("utf-8", "surrogateescape")
        above = base if not name or not source.endswith("/") else b""
        path = b"/".join(part for part in (above, name) if part)
        if not options.selection.takes(path) or file.location in options.avoid:
            continue
        if {b"", b".", b".."} & set(path.split(b"/")) or b"\0" in path:
            complain(path, "its key is no path that could be created in a folder")
        else:
            yield Found(Entry(path, mtime_ns=file.mtime_ns, size=file.size), file.location)
