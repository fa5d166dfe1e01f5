"""All types of entries restored in a folder.

Folders come first, then files, then links: while files are written no link of the archive exists. Folders get their
modes and times at the end.
"""

import os
import stat
from collections.abc import Iterable
from functools import partial

from speccompact.archive.archivefile import ArchiveFile
from speccompact.archive.content import stored_digest
from speccompact.archive.entries import Entry, FileType
from speccompact.archive.events import JobSummary, Listener
from speccompact.archive.extraction import Extraction, Sink
from speccompact.archive.jobrunning import Step
from speccompact.archive.readoptions import ArchiveLimits, RestoreOptions
from speccompact.archive.restoring import (
    OpenFile,
    is_there,
    refuse_taken,
    restore_folder,
    restore_other,
)
from speccompact.archive.safetree import SafeTree


class LocalExtraction(Extraction):
    """Restores all types of entries in a folder.

    Args:
        archive, entries, listener, step, limits: as in `Extraction`.
        tree: the folder.
        restore: what of the metadata to restore, and whether to replace what is there.
    """

    def __init__(
        self,
        archive: ArchiveFile,
        entries: list[Entry],
        tree: SafeTree,
        restore: RestoreOptions,
        listener: Listener,
        step: Step,
        limits: ArchiveLimits,
    ) -> None:
        super().__init__(archive, entries, self._open_local, self._has_local, listener, step, limits)
        self._tree, self._restore = tree, restore
        self._resumed = False

    def _open_local(self, entry: Entry) -> Sink:
        if not self._restore.force:
            refuse_taken(self._tree, entry)
        return OpenFile(self._tree, entry, self._restore)

    def _before(self) -> None:
        for entry in self._of(FileType.FOLDER):
            self._attempt(entry, partial(self._tree.make_folder, entry.path))
            self._step("folder-made")

    def _after(self) -> None:
        for entry in self._entries:
            if entry.type not in (FileType.FILE, FileType.FOLDER):
                self._attempt(entry, partial(self._other, entry))
                self._step("other-made")
        for entry in reversed(list(self._of(FileType.FOLDER))):
            self._attempt(entry, partial(restore_folder, self._tree, entry, self._restore))

    def _other(self, entry: Entry) -> None:
        if self._resumed and is_there(self._tree, entry):
            return
        if entry.type == FileType.HARDLINK and entry.link in self._lost:
            raise OSError(None, "the file that it is a hard link to was left out")  # what is there may be another one
        restore_other(self._tree, entry, self._restore)

    def run(self, resume: bool) -> JobSummary:
        """Restore everything; with `resume` all but what is there already."""
        self._resumed = resume
        return super().run(resume)

    def _of(self, kind: FileType) -> Iterable[Entry]:
        return (entry for entry in self._entries if entry.type == kind)

    def _has_local(self, entry: Entry, digest: bytes) -> bool:
        status = self._tree.status(entry.path)
        if status is None or not stat.S_ISREG(status.st_mode):
            return False
        if (status.st_size, status.st_mtime_ns) != (entry.size, entry.mtime_ns):
            return False
        parent, name = self._tree.parent(entry.path)
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        with os.fdopen(descriptor, "rb") as stream:
            return not entry.pieces or stored_digest(stream, entry) == digest
