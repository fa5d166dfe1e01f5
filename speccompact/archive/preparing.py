"""Looking at everything that is to be archived, before anything is written: the walk, and every file read once."""

import os
from collections.abc import Mapping

from speccompact.archive.content import Content, examine, unchanged
from speccompact.archive.entries import Entry
from speccompact.archive.events import Event, Listener
from speccompact.archive.ledger import Loss
from speccompact.archive.metadata import entry_of
from speccompact.archive.planning import BUNDLE_BYTES, has_content, text_group_bytes
from speccompact.archive.request import Request
from speccompact.archive.storage import is_remote
from speccompact.archive.treewalk import Found, WalkOptions, walk

Prepared = list[tuple[Found, Content | None]]


def prepare(
    request: Request, avoid: frozenset[str], before: Mapping[bytes, Entry], listener: Listener
) -> tuple[Prepared, list[Loss]]:
    """Return what there is to archive, and what has to be left out.

    Args:
        request: what is asked for.
        avoid: absolute paths that are never taken.
        before: entries that the archive has already; equal ones are passed over unless the request wants them.

    Raises:
        ArgumentError: two sources want the same name.
        OSError: a source is not there.
    """
    lost: list[Loss] = []
    prepared: Prepared = []
    size = 0

    def complain(path: bytes, reason: str) -> None:
        lost.append((path, reason))
        listener(Event("left-out", {"path": path, "reason": reason}))

    options = WalkOptions(request.selection, request.xattrs, avoid)
    for found in walk(request.sources, request.named, options, complain):
        if not request.unchanged and _same(found.entry, before.get(found.entry.path)):
            continue
        try:
            prepared.append(_examined(found, request))
        except OSError as error:
            complain(found.entry.path, error.strerror or str(error))
            continue
        size += found.entry.size
        listener(Event("found", {"entries": len(prepared), "bytes": size, "path": found.entry.path}))
    return prepared, lost


def _examined(found: Found, request: Request) -> tuple[Found, Content | None]:
    """Read a file; one that changes under the eyes is looked at once more."""
    sizes = text_group_bytes(request.params), BUNDLE_BYTES
    if not has_content(found.entry):
        return found, None
    content = examine(found.location, found.entry, *sizes)
    if not is_remote(found.location) and not unchanged(found.location, found.entry):
        status = os.lstat(found.location)
        entry = entry_of(found.entry.path, found.location, status, xattrs=request.xattrs)
        if entry is None or not has_content(entry):
            raise OSError(None, "changed while the archive was made")
        found = Found(entry, found.location)
        content = examine(found.location, entry, *sizes)
    return found, content


def _same(entry: Entry, old: Entry | None) -> bool:
    """Return whether the archive has an entry that differs in nothing but where its bytes are."""
    return old is not None and entry._replace(pieces=old.pieces, digest=old.digest, xattrs=old.xattrs) == old
