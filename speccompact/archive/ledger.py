"""The ledger of a job: what it is to do and how far it is, in a file beside its output. ARCHIVE.md section 7.

SQLite, because a transaction is whole or absent whatever kills the process, and a plan of millions of files need not
be in memory. One row for each group.
"""

import errno
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from speccompact.archive.entries import Entry
from speccompact.archive.entrytable import pack_entries, unpack_entries
from speccompact.archive.planning import PlannedGroup, PlannedPiece
from speccompact.archive.records import Coding
from speccompact.container.fields import Cursor
from speccompact.container.format import sha_prefix
from speccompact.errors import DamagedError, FormatError, JobError

SUFFIX = ".job"
_VERSION = 1
_MOST = 1 << 24

_SCHEMA = """
CREATE TABLE job (version INTEGER, request TEXT, base INTEGER, generation INTEGER, archive_id BLOB, left_out TEXT);
CREATE TABLE groups (
    number INTEGER PRIMARY KEY, coding INTEGER, pieces TEXT, entries BLOB, content_bytes INTEGER,
    stop INTEGER, record_check BLOB, lost TEXT
);
"""

Loss = tuple[bytes, str]
"""A path and why it is not in the archive."""


@dataclass(frozen=True, slots=True)
class Job:
    """What the ledger says about the job as a whole.

    Attributes:
        request: what was asked for.
        base: bytes of the output that were there before; 0 for a new archive.
        generation: of the records that it writes.
        archive_id: of the archive.
        left_out: what was left out before any group was made.
    """

    request: str
    base: int
    generation: int
    archive_id: bytes
    left_out: tuple[Loss, ...]


@dataclass(frozen=True, slots=True)
class Written:
    """A group that is on disk.

    Attributes:
        number: of the group.
        stop: where its record ends in the output.
        record_check: first 8 bytes of the SHA-256 of the record; empty where nothing was written for the group.
    """

    number: int
    stop: int
    record_check: bytes


class Ledger:
    """Opens or makes the file; `job` is None until a plan is saved.

    Raises:
        JobError: the file is no ledger, or another process works with it.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            self._base = sqlite3.connect(path, isolation_level=None, timeout=0)
            self._base.execute("PRAGMA synchronous=FULL")
            self._base.execute("PRAGMA locking_mode=EXCLUSIVE")
            known = self._base.execute("SELECT name FROM sqlite_master WHERE name = 'job'").fetchone()
            if not known:
                self._base.executescript(f"BEGIN;{_SCHEMA}COMMIT;")
        except sqlite3.Error as error:
            raise self._unusable(error) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._base.close()

    @contextmanager
    def _saving(self) -> Iterator[None]:
        """Let a full disk be an error of the system, and whatever else SQLite says one of the job."""
        try:
            yield
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path) from None
            raise self._unusable(error) from None

    @contextmanager
    def beginning(self) -> Iterator[None]:
        """While a plan is made: if that fails, the file goes again, for there is nothing to go on with."""
        try:
            yield
        except BaseException:
            self.remove()
            raise

    @property
    def job(self) -> Job | None:
        """The job, once its plan is saved."""
        try:
            row = self._base.execute("SELECT * FROM job").fetchone()
        except sqlite3.Error as error:
            raise self._unusable(error) from None
        if row is None:
            return None
        version, request, base, generation, archive_id, left_out = row
        if version != _VERSION:
            raise JobError(f"{self._path} is of another release; finish the job with that one, or delete the file")
        return Job(request, base, generation, archive_id, _losses(left_out))

    def save_plan(
        self, request: str, base: int, generation: int, known_id: bytes, groups: Iterable[PlannedGroup],
        left_out: Iterable[Loss],
    ) -> Job:  # fmt: skip
        """Save a plan in one transaction: its end is the commit point.

        Args:
            known_id: of the archive; empty for a new one, whose id is made from its entries, wherever they are.
        """
        with self._saving():
            self._base.execute("BEGIN IMMEDIATE")
            self._base.execute("DELETE FROM groups")
            digests: list[bytes] = []
            for group in groups:
                pieces, entries = _pack_pieces(group), _pack_entries(group)
                digests.append(sha_prefix(32, entries))
                self._base.execute(
                    "INSERT INTO groups VALUES (?, ?, ?, ?, ?, NULL, NULL, NULL)",
                    (group.number, group.coding, pieces, entries, group.content_bytes),
                )
            job = Job(request, base, generation, known_id or sha_prefix(8, *digests), tuple(left_out))
            row = (_VERSION, request, base, generation, job.archive_id, _dump_losses(job.left_out))
            self._base.execute("INSERT INTO job VALUES (?, ?, ?, ?, ?, ?)", row)
            self._base.execute("COMMIT")
        return job

    def pending(self) -> Iterator[PlannedGroup]:
        """Yield the groups that are not written yet, in order."""
        yield from self._groups("SELECT number FROM groups WHERE stop IS NULL ORDER BY number")

    def _all(self) -> Iterator[PlannedGroup]:
        yield from self._groups("SELECT number FROM groups ORDER BY number")

    def _groups(self, query: str) -> Iterator[PlannedGroup]:
        for (number,) in self._base.execute(query).fetchall():
            coding, pieces, entries = self._base.execute(
                "SELECT coding, pieces, entries FROM groups WHERE number = ?", (number,)
            ).fetchone()
            yield _unpack_group(number, coding, pieces, entries)

    def written(self) -> list[Written]:
        """Return the groups that are written, in order."""
        rows = self._base.execute(
            "SELECT number, stop, record_check FROM groups WHERE stop IS NOT NULL ORDER BY number"
        )
        return [Written(*row) for row in rows]

    def content_bytes(self) -> tuple[int, int]:
        """Return the content bytes of groups that are written, and of all."""
        done, total = self._base.execute(
            "SELECT sum(content_bytes) FILTER (WHERE stop IS NOT NULL), sum(content_bytes) FROM groups"
        ).fetchone()
        return done or 0, total or 0

    def planned(self) -> tuple[int, int]:
        """Return the number of entries of all groups, and their content bytes."""
        entries = sum(len(group.bare) + sum(len(p.entries) for p in group.pieces) for group in self._all())
        return entries, self.content_bytes()[1]

    def losses(self) -> list[Loss]:
        """Return what was left out while groups were made."""
        rows = self._base.execute("SELECT lost FROM groups WHERE lost IS NOT NULL ORDER BY number").fetchall()
        return [loss for (text,) in rows for loss in _losses(text)]

    def note(self, written: Written, lost: Iterable[Loss]) -> None:
        """Record that a group is on disk: the commit point of the group."""
        with self._saving():
            self._base.execute(
                "UPDATE groups SET stop = ?, record_check = ?, lost = ? WHERE number = ?",
                (written.stop, written.record_check, _dump_losses(lost), written.number),
            )

    def forget(self, number: int) -> None:
        """Record that a group and those after it have to be made again."""
        self._base.execute(
            "UPDATE groups SET stop = NULL, record_check = NULL, lost = NULL WHERE number >= ?", (number,)
        )

    def remove(self) -> None:
        """Delete the file: the job is over."""
        self._base.close()
        os.unlink(self._path)
        with suppress(FileNotFoundError):
            os.unlink(self._path + "-journal")

    def _unusable(self, error: sqlite3.Error) -> JobError:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
            return JobError(f"{self._path} is in use: another process works on this job")
        return JobError(f"{self._path} cannot be used as the ledger of a job ({error}); delete it to begin anew")


def _pack_pieces(group: PlannedGroup) -> str:
    rows = [[p.location, p.start, p.length, p.digest.hex(), len(p.entries)] for p in group.pieces]
    return json.dumps(rows)


def _pack_entries(group: PlannedGroup) -> bytes:
    return pack_entries([*group.bare, *(entry for piece in group.pieces for entry in piece.entries)], digests=True)


def _unpack_group(number: int, coding: int, pieces: str, packed: bytes) -> PlannedGroup:
    """Return a group as it was saved; a ledger that was tampered with must not be taken for a plan."""
    try:
        entries = unpack_entries(Cursor(packed), _MOST)
        rows = json.loads(pieces)
        at = len(entries) - sum(row[4] for row in rows)
        bare, found = tuple(entries[:at]), []
        for location, start, length, digest, count in rows:
            own: tuple[Entry, ...] = tuple(entries[at : at + count])
            found.append(PlannedPiece(location, start, length, bytes.fromhex(digest), own))
            at += count
        return PlannedGroup(number, Coding(coding), tuple(found), bare)
    except (FormatError, ValueError, TypeError) as error:
        raise DamagedError(f"group {number} of the ledger cannot be read ({error}); delete it to begin anew") from None


def _dump_losses(losses: Iterable[Loss]) -> str:
    return json.dumps([[os.fsdecode(path), reason] for path, reason in losses])


def _losses(text: str) -> tuple[Loss, ...]:
    return tuple((os.fsencode(path), reason) for path, reason in json.loads(text))
