"""The ledger of a job: what it is to do and how far it is, in a file beside its output. ARCHIVE.md section 7.

SQLite, because a transaction is whole or absent whatever kills the process, and a plan of millions of files need not
be in memory. One row for each group.
"""

import errno
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from speccompact.archive.entries import Loss
from speccompact.archive.planning import PlannedGroup
from speccompact.archive.planrows import pack_group_entries, pack_losses, pack_pieces, unpack_group, unpack_losses
from speccompact.container.format import sha_prefix
from speccompact.errors import JobError

SUFFIX = ".job"
_VERSION = 2

_SCHEMA = (
    "CREATE TABLE job (version INTEGER, request TEXT, base INTEGER, generation INTEGER, archive_id BLOB,"
    " left_out TEXT)",
    "CREATE TABLE groups (number INTEGER PRIMARY KEY, coding INTEGER, pieces TEXT, entries BLOB, content_bytes INTEGER,"
    " stop INTEGER, record_check BLOB, lost TEXT)",
)

_OF_THE_SYSTEM = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_IOERR: errno.EIO,
    sqlite3.SQLITE_READONLY: errno.EROFS,
    sqlite3.SQLITE_NOMEM: errno.ENOMEM,
    sqlite3.SQLITE_CANTOPEN: errno.EACCES,
}
"""Numbers of the system, by what SQLite says: nothing is wrong with the ledger then."""


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
    """Opens or makes the file and locks it; `job` is None until a plan is saved.

    Raises:
        JobError: the file is no ledger, or another process works with it.
        OSError: it can neither be read nor made.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        with self._checked():
            self._base = sqlite3.connect(path, isolation_level=None, timeout=0)
        try:
            with self._checked():
                self._base.execute("PRAGMA synchronous=FULL")
                self._base.execute("PRAGMA locking_mode=EXCLUSIVE")
                self._base.execute("BEGIN EXCLUSIVE")  # the lock is kept until the file is closed
                if not self._base.execute("SELECT name FROM sqlite_master WHERE name = 'job'").fetchone():
                    for statement in _SCHEMA:
                        self._base.execute(statement)
                self._base.execute("COMMIT")
        except BaseException:
            self._base.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._base.close()

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
        rows = self._rows("SELECT * FROM job")
        if not rows:
            return None
        if rows[0][0] != _VERSION:
            raise JobError(f"{self._path} is of another release; finish the job with that one, or delete the file")
        _, request, base, generation, archive_id, left_out = rows[0]
        return Job(request, base, generation, archive_id, unpack_losses(left_out))

    def save_plan(
        self, request: str, base: int, generation: int, known_id: bytes, groups: Iterable[PlannedGroup],
        left_out: Iterable[Loss],
    ) -> Job:  # fmt: skip
        """Save a plan in one transaction: its end is the commit point.

        Args:
            known_id: of the archive; empty for a new one, whose id is made from its entries, wherever they are.
        """
        with self._checked():
            self._base.execute("BEGIN IMMEDIATE")
            self._base.execute("DELETE FROM groups")
            digests: list[bytes] = []
            for group in groups:
                pieces, entries = pack_pieces(group), pack_group_entries(group)
                digests.append(sha_prefix(32, entries))
                self._base.execute(
                    "INSERT INTO groups VALUES (?, ?, ?, ?, ?, NULL, NULL, NULL)",
                    (group.number, group.coding, pieces, entries, group.content_bytes),
                )
            job = Job(request, base, generation, known_id or sha_prefix(8, *digests), tuple(left_out))
            row = (_VERSION, request, base, generation, job.archive_id, pack_losses(job.left_out))
            self._base.execute("INSERT INTO job VALUES (?, ?, ?, ?, ?, ?)", row)
            self._base.execute("COMMIT")
        return job

    def clear(self) -> None:
        """Forget the job, which is over, to begin another one under the same lock."""
        for statement in ("BEGIN IMMEDIATE", "DELETE FROM job", "DELETE FROM groups", "COMMIT"):
            self._rows(statement)

    def pending(self) -> Iterator[PlannedGroup]:
        """Yield the groups that are not written yet, in order."""
        yield from self._groups("SELECT number FROM groups WHERE stop IS NULL ORDER BY number")

    @property
    def all_written(self) -> bool:
        """Whether no group is missing."""
        return not self._rows("SELECT number FROM groups WHERE stop IS NULL LIMIT 1")

    def _groups(self, query: str) -> Iterator[PlannedGroup]:
        for (number,) in self._rows(query):
            yield unpack_group(
                number, *self._rows("SELECT coding, pieces, entries FROM groups WHERE number = ?", number)[0]
            )

    def written(self) -> list[Written]:
        """Return the groups that are written, in order."""
        rows = self._rows("SELECT number, stop, record_check FROM groups WHERE stop IS NOT NULL ORDER BY number")
        return [Written(*row) for row in rows]

    def content_bytes(self) -> tuple[int, int]:
        """Return the content bytes of groups that are written, and of all."""
        done, total = self._rows(
            "SELECT sum(content_bytes) FILTER (WHERE stop IS NOT NULL), sum(content_bytes) FROM groups"
        )[0]
        return done or 0, total or 0

    def planned(self) -> tuple[int, int]:
        """Return the number of entries of all groups, and their content bytes."""
        groups = self._groups("SELECT number FROM groups ORDER BY number")
        entries = sum(len(group.bare) + sum(len(p.entries) for p in group.pieces) for group in groups)
        return entries, self.content_bytes()[1]

    def losses(self) -> list[Loss]:
        """Return what was left out while groups were made."""
        rows = self._rows("SELECT lost FROM groups WHERE lost IS NOT NULL ORDER BY number")
        return [loss for (text,) in rows for loss in unpack_losses(text)]

    def note(self, written: Written, lost: Iterable[Loss]) -> None:
        """Record that a group is on disk: the commit point of the group."""
        self._rows(
            "UPDATE groups SET stop = ?, record_check = ?, lost = ? WHERE number = ?",
            written.stop, written.record_check, pack_losses(lost), written.number,
        )  # fmt: skip

    def forget(self, number: int) -> None:
        """Record that a group and those after it have to be made again."""
        self._rows("UPDATE groups SET stop = NULL, record_check = NULL, lost = NULL WHERE number >= ?", number)

    def remove(self) -> None:
        """Delete the file: the job is over."""
        self._base.close()
        for name in (self._path, self._path + "-journal"):
            with suppress(FileNotFoundError):
                os.unlink(name)

    def _rows(self, statement: str, *values: object) -> list[Any]:
        with self._checked():
            return self._base.execute(statement, values).fetchall()

    @contextmanager
    def _checked(self) -> Iterator[None]:
        """Let what the system refuses be an error of the system, and whatever else SQLite says one of the job."""
        try:
            yield
        except sqlite3.Error as error:
            primary = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
            if primary == sqlite3.SQLITE_BUSY:
                raise JobError(f"{self._path} is in use: another process works on this job") from None
            if primary == sqlite3.SQLITE_CANTOPEN:
                os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666))  # says why it cannot be
            if primary in _OF_THE_SYSTEM:
                number = _OF_THE_SYSTEM[primary]
                raise OSError(
                    number, f"{os.strerror(number)} ({error}); the job can be continued", self._path
                ) from None
            reason = f"{self._path} cannot be used as the ledger of a job ({error}); delete it to begin anew"
            raise JobError(reason) from None
