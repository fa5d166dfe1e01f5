"""Files of an archive written to a target that holds nothing but files, group by group, each group decoded once."""

import errno
import hashlib
from collections.abc import Callable
from functools import partial
from typing import BinaryIO, Protocol

from speccompact.archive.archivefile import ArchiveFile
from speccompact.archive.archivelimits import ArchiveLimits
from speccompact.archive.entries import DIGEST_BYTES, Entry, FileType
from speccompact.archive.events import Event, JobSummary, Listener, Value
from speccompact.archive.jobrunning import Step
from speccompact.archive.safetree import split_path
from speccompact.errors import DamagedError, FormatError, LimitError

_CHUNK = 1 << 18


class Sink(Protocol):
    """Where the stored bytes of a file go."""

    def write(self, data: bytes) -> None:
        """Take the next bytes."""

    def commit(self) -> None:
        """Let the file appear."""

    def abort(self) -> None:
        """Leave nothing behind."""


class Extraction:
    """Writes files; what else an archive has is reported as left out.

    Args:
        archive: open.
        entries: what is wanted, in the order of paths.
        opener: begins to write a file. Raises OSError where it cannot.
        listener: told what happens.
        step: called after each file.
        limits: of paths.
    """

    def __init__(
        self,
        archive: ArchiveFile,
        entries: list[Entry],
        opener: Callable[[Entry], Sink],
        listener: Listener,
        step: Step,
        limits: ArchiveLimits,
    ) -> None:
        self._archive, self._entries, self._open = archive, entries, opener
        self._listener, self._step, self._limits = listener, step, limits
        self._lost: dict[bytes, str] = {}
        self._done, self._groups = 0, 0
        self._total = sum(entry.stored_bytes for entry in entries)

    def run(self, resume: bool) -> JobSummary:
        """Restore everything."""
        for entry in self._entries:
            self._attempt(entry, partial(split_path, entry.path, self._limits.path_bytes))
        self._before()
        self._files(resume)
        self._after()
        made = [entry for entry in self._entries if entry.path not in self._lost]
        return JobSummary(
            entries=len(made),
            content_bytes=sum(entry.size for entry in made),
            stored_bytes=sum(entry.stored_bytes for entry in made),
            archive_bytes=self._archive.trailer.archive_bytes,
            groups=self._groups,
            left_out=tuple(self._lost.items()),
        )

    def _before(self) -> None:
        """Make what files need."""

    def _after(self) -> None:
        """Make what needs files."""
        for entry in self._entries:
            if entry.type not in (FileType.FILE, FileType.FOLDER):
                self._lose(entry, "the target holds nothing but files")

    def _skips(self, entry: Entry, digest: bytes) -> bool:
        """Return whether a file is there already."""
        return False

    def _files(self, resume: bool) -> None:
        """Write all files, in the order of their first pieces."""
        files = [e for e in self._entries if e.type == FileType.FILE and e.path not in self._lost]
        for entry in (entry for entry in files if not entry.pieces):
            self._attempt(entry, partial(self._write_empty, entry, resume))
        by_group: dict[int, list[Entry]] = {}
        for entry in files:
            for number in dict.fromkeys(piece.group for piece in entry.pieces):
                by_group.setdefault(number, []).append(entry)
        sinks: dict[bytes, tuple[Sink, hashlib._Hash]] = {}
        try:
            for number in sorted(by_group):
                self._group(number, by_group[number], sinks, resume)
        finally:
            for sink, _ in sinks.values():
                sink.abort()

    def _write_empty(self, entry: Entry, resume: bool) -> None:
        if resume and self._skips(entry, b""):
            return
        self._open(entry).commit()
        self._step("file-written")

    def _group(
        self, number: int, entries: list[Entry], sinks: dict[bytes, "tuple[Sink, hashlib._Hash]"], resume: bool
    ) -> None:
        """Write what files have in one group."""
        try:
            digests = {entry.path: entry.digest for entry in self._archive.table(number)}
            content = self._archive.content(number)
        except FormatError as error:
            for entry in entries:
                self._drop(entry, sinks, str(error))
            return
        self._groups += 1
        pieces = sorted((p, e.path, e) for e in entries for p in e.pieces if p.group == number)
        with content:
            for piece, _, entry in pieces:
                if entry.path in self._lost:
                    continue
                digest = digests.get(entry.path, b"")
                try:
                    if piece == entry.pieces[0]:
                        if resume and self._skips(entry, digest):
                            self._lost_or_done(entry)
                            continue
                        sinks[entry.path] = self._open(entry), hashlib.sha256()
                    if entry.path not in sinks:
                        continue
                    self._copy(content, piece.offset, piece.length, entry, sinks[entry.path])
                    if piece == entry.pieces[-1]:
                        self._complete(entry, digest, sinks)
                except (FormatError, OSError, EOFError) as error:
                    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                        raise  # a full disk ends the job: every other file would fail as well
                    self._drop(entry, sinks, getattr(error, "strerror", None) or str(error))

    def _copy(
        self, content: BinaryIO, offset: int, length: int, entry: Entry, to: "tuple[Sink, hashlib._Hash]"
    ) -> None:
        content.seek(offset)
        while length:
            data = content.read(min(length, _CHUNK))
            if not data:
                raise DamagedError("its group ends before it")
            to[0].write(data)
            to[1].update(data)
            length -= len(data)
            self._done += len(data)
            values: dict[str, Value] = {"done": self._done, "total": self._total, "path": entry.path}
            self._listener(Event("progress", values))

    def _complete(self, entry: Entry, digest: bytes, sinks: dict[bytes, "tuple[Sink, hashlib._Hash]"]) -> None:
        sink, found = sinks[entry.path]
        if found.digest()[:DIGEST_BYTES] != digest:
            raise DamagedError("its bytes do not have the digest that the archive says")
        sink.commit()
        del sinks[entry.path]
        self._step("file-written")
        self._listener(Event("file", {"path": entry.path, "bytes": entry.size}))

    def _lost_or_done(self, entry: Entry) -> None:
        self._done += entry.stored_bytes
        self._listener(Event("file", {"path": entry.path, "bytes": entry.size}))

    def _drop(self, entry: Entry, sinks: dict[bytes, "tuple[Sink, hashlib._Hash]"], reason: str) -> None:
        if entry.path in sinks:
            sinks.pop(entry.path)[0].abort()
        self._lose(entry, reason)

    def _lose(self, entry: Entry, reason: str) -> None:
        if entry.path not in self._lost:
            self._lost[entry.path] = reason
            self._listener(Event("left-out", {"path": entry.path, "reason": reason}))

    def _attempt(self, entry: Entry, action: Callable[[], object]) -> None:
        """Do something for an entry; what fails is noted."""
        if entry.path in self._lost:
            return
        try:
            action()
        except (FormatError, LimitError, OSError) as error:
            if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                raise
            self._lose(entry, getattr(error, "strerror", None) or str(error))
