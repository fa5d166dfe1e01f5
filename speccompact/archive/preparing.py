"""Looking at everything that is to be archived, before anything is written: the walk, and every file read once."""

import os
from collections.abc import Mapping

from speccompact.archive.content import CHANGED, Content, examine, unchanged
from speccompact.archive.entries import Entry, FileType, Loss
from speccompact.archive.events import Event, Listener
from speccompact.archive.metadata import entry_of
from speccompact.archive.planning import BUNDLE_BYTES, has_content, text_group_bytes
from speccompact.archive.request import Request
from speccompact.archive.storage import concerns_one_file, is_remote
from speccompact.archive.treewalk import Avoided, Found, WalkOptions, walk

_LOOKS = 2  # at a file that changes under the eyes

Prepared = list[tuple[Found, Content | None]]


def prepare(
    request: Request, avoid: Avoided, before: Mapping[bytes, Entry], listener: Listener
) -> tuple[Prepared, list[Loss]]:
    """Return what there is to archive, and what has to be left out.

    Args:
        request: what is asked for.
        avoid: locations that are never taken.
        before: entries that the archive has already; equal ones are passed over unless the request wants them.

    Raises:
        ArgumentError: two sources want the same name.
        OSError: a source is not there, or the network or the machine fails, which is no reason to leave files out.
    """
    lost: list[Loss] = []
    prepared: Prepared = []
    taken: set[bytes] = set()
    size = 0

    def complain(path: bytes, reason: str) -> None:
        lost.append((path, reason))
        listener(Event("left-out", {"path": path, "reason": reason}))

    options = WalkOptions(request.selection, request.xattrs, avoid)
    for found in walk(request.sources, request.named, options, complain):
        again = found.entry.type == FileType.HARDLINK and found.entry.link in taken  # links the file as it is now
        if not (request.unchanged or again) and _same(found.entry, before.get(found.entry.path), request):
            continue
        try:
            prepared.append(_examined(found, request))
        except OSError as error:
            if not concerns_one_file(found.location, error):
                raise
            complain(found.entry.path, error.strerror or str(error))
            continue
        taken.add(found.entry.path)
        size += found.entry.size
        listener(Event("found", {"entries": len(prepared), "bytes": size, "path": found.entry.path}))
    return prepared, lost


def _examined(found: Found, request: Request) -> tuple[Found, Content | None]:
    """Read a file; one that changes under the eyes, be it that it gets shorter, is looked at once more."""
    for _ in range(_LOOKS):
        if not has_content(found.entry):
            return found, None
        try:
            content = examine(found.location, found.entry, text_group_bytes(request.params), BUNDLE_BYTES)
            if is_remote(found.location) or unchanged(found.location, found.entry):
                return found, content
        except OSError:
            if is_remote(found.location) or unchanged(found.location, found.entry):
                raise
        entry = entry_of(found.entry.path, found.location, os.lstat(found.location), xattrs=request.xattrs)
        if entry is None or entry.type == FileType.FOLDER:
            break
        found = Found(entry, found.location)
    raise OSError(None, CHANGED, found.location)


def _same(entry: Entry, old: Entry | None, request: Request) -> bool:
    """Return whether the archive has an entry that differs in nothing but where its bytes are."""
    if old is None:
        return False
    xattrs = entry.xattrs if request.xattrs else old.xattrs
    return entry._replace(pieces=old.pieces, digest=old.digest, xattrs=xattrs) == old
