"""What differs between an archive and the tree that it was made of."""

from collections.abc import Iterator
from dataclasses import dataclass

from speccompact.archive.archivefile import ArchiveFile
from speccompact.archive.content import stored_digest
from speccompact.archive.entries import Entry, FileType
from speccompact.archive.groupreading import GroupTable
from speccompact.archive.request import Request
from speccompact.archive.storage import concerns_one_file, open_read
from speccompact.archive.treewalk import Found, WalkOptions, walk

_FIELDS = ("type", "size", "mode", "mtime_ns", "uid", "gid", "link", "device")


@dataclass(frozen=True, slots=True)
class Difference:
    """A path that differs.

    Attributes:
        path: of the entry.
        what: "missing" (only in the archive), "new" (only in the tree), "unreadable", or the names of what differs,
            "content" among them.
    """

    path: bytes
    what: tuple[str, ...]


def diff(archive: ArchiveFile, request: Request, *, content: bool = False) -> Iterator[Difference]:
    """Yield what differs, in the order of paths.

    Args:
        archive: open.
        request: the sources that it was made of, with the globs.
        content: also read every file of equal size and compare its digest with the archive's. Nothing is decoded.

    Raises:
        OSError: a source is not there.
    """
    selection = request.selection
    unread: list[tuple[bytes, str]] = []
    options = WalkOptions(selection, xattrs=request.xattrs)
    tree = {
        found.entry.path: found
        for found in walk(request.sources, request.named, options, lambda path, why: unread.append((path, why)))
    }
    old = {path: entry for path, entry in archive.entries.items() if selection.takes(path)}
    tables: dict[int, GroupTable] = {}  # 8 bytes a file: less than the catalogue takes
    unreadable = {path for path, _ in unread}
    for path in sorted(old.keys() | tree.keys()):
        if path in unreadable:
            yield Difference(path, ("unreadable",))
        elif path not in tree:
            yield Difference(path, ("missing",))
        elif path not in old:
            yield Difference(path, ("new",))
        else:
            what = _compared(old[path], tree[path].entry, xattrs=request.xattrs)
            if content and "size" not in what and old[path].pieces:
                group = old[path].pieces[-1].group
                if group not in tables:
                    tables[group] = archive.table(group)
                try:
                    if _digest(tree[path]) != tables[group].digest(old[path]):
                        what.append("content")
                except OSError as error:
                    if not concerns_one_file(tree[path].location, error):
                        raise
                    what = ["unreadable"]
            if what:
                yield Difference(path, tuple(what))


def _compared(old: Entry, new: Entry, *, xattrs: bool) -> list[str]:
    fields = (*_FIELDS, "xattrs") if xattrs else _FIELDS
    return [name.removesuffix("_ns") for name in fields if getattr(old, name) != getattr(new, name)]


def _digest(found: Found) -> bytes:
    if found.entry.type != FileType.FILE:
        return b""
    with open_read(found.location) as stream:
        return stored_digest(stream, found.entry)
