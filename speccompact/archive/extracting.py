"""Giving files back: all of an archive or some of it, to a folder or a URL."""

import errno
from collections.abc import Iterable, Mapping

from speccompact.archive.archivefile import ArchiveFile
from speccompact.archive.entries import Entry, FileType
from speccompact.archive.events import JobSummary, Listener, silent
from speccompact.archive.extraction import Extraction
from speccompact.archive.jobrunning import Step, no_step
from speccompact.archive.localextraction import LocalExtraction
from speccompact.archive.readoptions import ArchiveLimits, RestoreOptions
from speccompact.archive.remotetarget import RemoteTarget
from speccompact.archive.safetree import SafeTree
from speccompact.archive.selection import Selection
from speccompact.archive.storage import is_remote, without_protocol
from speccompact.errors import LimitError

_LIMITS = ArchiveLimits()
_RESTORE = RestoreOptions()


def selected(entries: Iterable[Entry], paths: Iterable[bytes], selection: Selection) -> list[Entry]:
    """Return the entries that are named, by path or by a folder above, and match the globs; in the order of paths.

    Raises:
        FileNotFoundError: a path is not in the archive.
    """
    wanted = {path.strip(b"/") for path in paths}
    missing = set(wanted)
    found = []
    for entry in entries:
        parts = entry.path.split(b"/")
        above = {b"/".join(parts[:count]) for count in range(1, len(parts) + 1)} & wanted if wanted else set()
        missing -= above
        if (above or not wanted) and selection.takes(entry.path):
            found.append(entry)
    if missing:
        raise FileNotFoundError(errno.ENOENT, "is not in the archive", min(missing))
    return sorted(found, key=lambda entry: entry.path)


def _with_files_of_links(chosen: list[Entry], entries: Mapping[bytes, Entry], *, copies: bool) -> list[Entry]:
    """Let hard links whose file is not chosen be that file: the first of them, which the others link to.

    What is at that path in the target may be anything. Where there are no links, all of them are `copies`.
    """
    paths = {entry.path for entry in chosen}
    firsts: dict[bytes, bytes] = {}
    made = []
    for entry in chosen:
        file = entries.get(entry.link) if entry.type == FileType.HARDLINK else None
        if file is not None and file.type == FileType.FILE and (copies or file.path not in paths):
            first = entry.path if copies else firsts.setdefault(file.path, entry.path)
            entry = file._replace(path=entry.path) if first == entry.path else entry._replace(link=first)
        made.append(entry)
    return made


def extract(
    archive: ArchiveFile,
    target: str,
    paths: Iterable[bytes] = (),
    *,
    selection: Selection | None = None,
    restore: RestoreOptions = _RESTORE,
    resume: bool = False,
    limits: ArchiveLimits = _LIMITS,
    listener: Listener = silent,
    step: Step = no_step,
) -> JobSummary:
    """Write entries of an archive below a folder or a URL.

    Args:
        archive: open.
        target: the folder, made if need be; or a URL, below which files are written, and nothing but files.
        paths: entries, or folders with all in them; nothing means everything.
        selection: globs.
        restore: what of the metadata to restore, and whether to replace what is there.
        resume: pass over files that are there with the right size, time and digest (at a URL: size and digest).
        limits: refused before anything is written: more bytes than these in all.
        listener: told what happens.
        step: see `Step`.

    Returns:
        Totals; `left_out` names every entry that could not be restored, with the reason.

    Raises:
        FileNotFoundError: a path is not in the archive.
        LimitError: a limit would be exceeded.
        ModelError: a model is needed and missing or damaged.
    """
    target = without_protocol(target)
    entries = selected(archive.entries.values(), paths, selection or Selection())
    entries = _with_files_of_links(entries, archive.entries, copies=is_remote(target))
    total = sum(entry.size for entry in entries)
    if limits.output_bytes is not None and total > limits.output_bytes:
        raise LimitError(f"the files have {total} bytes; the output limit is {limits.output_bytes}")
    if is_remote(target):
        remote = RemoteTarget(target, restore.force)
        return Extraction(archive, entries, remote.open, remote.has, listener, step, limits).run(resume)
    with SafeTree(target, limits.path_bytes) as tree:
        return LocalExtraction(archive, entries, tree, restore, listener, step, limits).run(resume)
