"""Files of an archive written to a target that holds nothing but files, group by group, each group decoded once."""

import errno
import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

from speccompact.archive.archivefile import ArchiveFile
from speccompact.archive.entries import DIGEST_BYTES, Entry, FileType, Piece
from speccompact.archive.events import Event, JobSummary, Listener, Value
from speccompact.archive.groupreading import PieceReader
from speccompact.archive.jobrunning import Step
from speccompact.archive.readoptions import ArchiveLimits
from speccompact.archive.safetree import split_path
from speccompact.archive.storage import OF_THE_MACHINE
from speccompact.errors import DamagedError, FormatError, LimitError

_OF_ALL = OF_THE_MACHINE | {errno.ENOSPC, errno.EDQUOT, errno.EROFS}
"""Numbers of errors that every other file would meet as well."""


class Sink(Protocol):
    """Where the stored bytes of a file go."""

    def write(self, data: bytes) -> None:
        """Take the next bytes."""

    def pause(self) -> None:
        """Let go of what is open, until more bytes come: many files may wait for a later group."""

    def commit(self) -> None:
        """Let the file appear. Raises OSError where it has appeared, but without all that is to be said of it."""

    def abort(self) -> None:
        """Leave nothing behind."""


class Extraction:
    """Writes files; what else an archive has is reported as left out.

    Args:
        archive: open.
        entries: what is wanted, in the order of paths.
        opener: begins to write a file. Raises OSError where it cannot.
        has: asked, with `resume`, whether a file is there already, with the stored bytes of this digest.
        listener: told what happens.
        step: called after each file.
        limits: of paths.
    """

    def __init__(
        self,
        archive: ArchiveFile,
        entries: list[Entry],
        opener: Callable[[Entry], Sink],
        has: Callable[[Entry, bytes], bool],
        listener: Listener,
        step: Step,
        limits: ArchiveLimits,
    ) -> None:
        self._archive, self._entries, self._open, self._has = archive, entries, opener, has
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
        if resume and self._has(entry, b""):
            return
        self._open(entry).commit()
        self._step("file-written")

    def _group(
        self, number: int, entries: list[Entry], sinks: dict[bytes, "tuple[Sink, hashlib._Hash]"], resume: bool
    ) -> None:
        """Write what files have in one group."""
        try:
            table = self._archive.table(number)
            content = self._archive.content(number)
        except (FormatError, OSError) as error:
            _stop_if_all_would_fail(error)
            for entry in entries:
                self._drop(entry, sinks, _reason(error))
            return
        self._groups += 1
        pieces = sorted((p, e.path, e) for e in entries for p in e.pieces if p.group == number)
        with content:
            reader = PieceReader(content, [piece for piece, _, _ in pieces])
            for piece, _, entry in pieces:
                if entry.path in self._lost:
                    continue
                digest = table.digest(entry)
                try:
                    if piece == entry.pieces[0]:
                        if resume and self._has(entry, digest):
                            self._passed_over(entry)
                            continue
                        sinks[entry.path] = self._open(entry), hashlib.sha256()
                    if entry.path not in sinks:
                        continue
                    self._copy(reader.read(piece), piece, entry, sinks[entry.path])
                    if piece == entry.pieces[-1]:
                        self._complete(entry, digest, sinks)
                    else:
                        sinks[entry.path][0].pause()
                except (FormatError, OSError, EOFError) as error:
                    _stop_if_all_would_fail(error)
                    self._drop(entry, sinks, _reason(error))

    def _copy(self, chunks: Iterator[bytes], piece: Piece, entry: Entry, to: "tuple[Sink, hashlib._Hash]") -> None:
        before = sum(one.length for one in entry.pieces if one < piece)
        for data in chunks:
            to[0].write(data)
            to[1].update(data)
            before += len(data)
            self._done += len(data)
            values: dict[str, Value] = {
                "done": self._done,
                "total": self._total,
                "path": entry.path,
                "path_done": before,
                "path_total": entry.stored_bytes,
            }
            self._listener(Event("progress", values))

    def _complete(self, entry: Entry, digest: bytes, sinks: dict[bytes, "tuple[Sink, hashlib._Hash]"]) -> None:
        sink, found = sinks[entry.path]
        if found.digest()[:DIGEST_BYTES] != digest:
            raise DamagedError("its bytes do not have the digest that the archive says")
        sink.commit()
        del sinks[entry.path]
        self._step("file-written")
        self._listener(Event("file", {"path": entry.path, "bytes": entry.size}))

    def _passed_over(self, entry: Entry) -> None:
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
            _stop_if_all_would_fail(error)
            self._lose(entry, _reason(error))


def _stop_if_all_would_fail(error: Exception) -> None:
    """Raise an error that is not of one file: a full disk, a lost network. The extraction can be gone on with."""
    if isinstance(error, OSError) and error.errno in _OF_ALL:
        raise error


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
