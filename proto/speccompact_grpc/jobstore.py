"""Jobs on disk: one row for each, in SQLite with a write-ahead log.

Commit point of everything that is said to a caller: the transaction, which is on disk when a method returns. A service
that was killed leaves jobs that were running; opening the file queues them again.
"""

import errno
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from speccompact.errors import JobError
from speccompact_grpc.jobrecords import JobProgress, JobRecord, JobState

_VERSION: Final = 1
MOST_WAITING: Final = 1000
"""Jobs that wait, of all callers; more are refused."""
_MOST_ENDED: Final = 10_000
"""Jobs that have ended and are still told about; the oldest ones go."""

_SCHEMA: Final = f"""
CREATE TABLE jobs (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, owner TEXT NOT NULL, idempotency_key TEXT,
    priority INTEGER NOT NULL, spec BLOB NOT NULL, state INTEGER NOT NULL,
    done_bytes INTEGER NOT NULL DEFAULT 0, total_bytes INTEGER NOT NULL DEFAULT 0,
    done_groups INTEGER NOT NULL DEFAULT 0, total_groups INTEGER NOT NULL DEFAULT 0,
    created_ms INTEGER NOT NULL, started_ms INTEGER NOT NULL DEFAULT 0, ended_ms INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0, cancel_requested INTEGER NOT NULL DEFAULT 0, mark TEXT NOT NULL DEFAULT '',
    result BLOB NOT NULL DEFAULT x'', error BLOB NOT NULL DEFAULT x'', UNIQUE (owner, idempotency_key)
);
CREATE INDEX jobs_by_state ON jobs (state, number);
CREATE INDEX jobs_by_owner ON jobs (owner, number);
PRAGMA user_version = {_VERSION};
"""

_COLUMNS: Final = (
    "number, id, owner, priority, spec, state, done_bytes, total_bytes, done_groups, total_groups, created_ms, "
    "started_ms, ended_ms, attempts, cancel_requested, mark, result, error"
)


class KeyTaken(Exception):
    """Another request has used the idempotency key."""


class TooManyJobs(Exception):
    """Too many jobs are waiting."""


class JobStore:
    """Opens or makes the file. Safe to use from several threads; one process at a time.

    Args:
        path: of the file.
        clock: seconds since 1970.
        most_waiting: jobs that may wait, of all callers.

    Raises:
        JobError: it is no file of jobs, of another release, or in use by another process.
        OSError: its folder cannot be written.
    """

    def __init__(self, path: str, clock: Callable[[], float] = time.time, most_waiting: int = MOST_WAITING) -> None:
        self._path, self._clock, self._most_waiting = path, clock, most_waiting
        self._lock = threading.Lock()
        folder = os.path.dirname(path) or os.curdir
        if not os.access(folder, os.W_OK | os.X_OK):
            raise OSError(errno.EACCES, "cannot be written", folder)
        try:
            self._base = sqlite3.connect(path, isolation_level=None, timeout=0, check_same_thread=False)
            self._base.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._base.execute("PRAGMA journal_mode=WAL")
            self._base.execute("PRAGMA synchronous=FULL")
            self._base.execute("BEGIN EXCLUSIVE")
            (version,) = self._base.execute("PRAGMA user_version").fetchone()
            if not version and not self._base.execute("SELECT 1 FROM sqlite_master").fetchone():
                for statement in _SCHEMA.split(";\n")[:-1]:
                    self._base.execute(statement)
                version = _VERSION
            if version != _VERSION:
                raise JobError(f"{path} is no file of jobs of this release; name another one")
            self._base.execute(
                "UPDATE jobs SET state = ?, started_ms = 0 WHERE state = ?", (JobState.QUEUED, JobState.RUNNING)
            )
            self._base.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._unusable(error) from None

    def close(self) -> None:
        """Let go of the file; no other method may be called any more."""
        with self._lock:
            self._base.close()

    def submit(self, owner: str, key: str, priority: int, spec: bytes) -> tuple[JobRecord, bool]:
        """Keep a new job, or find the one that the same request has made before.

        Args:
            owner: name of the caller.
            key: one for each job that is meant; empty for none.
            priority: LOW to HIGH of `callers`.
            spec: a serialized `JobSpec`.

        Returns:
            The job, and whether it is new.

        Raises:
            KeyTaken: another request has used the key.
            TooManyJobs: too many jobs are waiting.
        """
        with self._saving() as base:
            if key:
                known = self._one("owner = ? AND idempotency_key = ?", owner, key)
                if known is not None:
                    if (known.spec, known.priority) != (spec, priority):
                        raise KeyTaken
                    return known, False
            waiting = base.execute("SELECT count(*) FROM jobs WHERE state = ?", (JobState.QUEUED,)).fetchone()[0]
            if waiting >= self._most_waiting:
                raise TooManyJobs
            number = base.execute(
                "INSERT INTO jobs (id, owner, idempotency_key, priority, spec, state, created_ms) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (secrets.token_hex(16), owner, key or None, priority, spec, JobState.QUEUED, self._now()),
            ).lastrowid
            base.execute(
                "DELETE FROM jobs WHERE number IN (SELECT number FROM jobs WHERE state >= ? "
                "ORDER BY number DESC LIMIT -1 OFFSET ?)",
                (JobState.SUCCEEDED, _MOST_ENDED),
            )
            made = self._one("number = ?", number)
            assert made is not None
            return made, True

    def keyed(self, owner: str, key: str) -> JobRecord | None:
        """Return the job of an owner that was submitted with a key, or None."""
        with self._reading():
            return self._one("owner = ? AND idempotency_key = ?", owner, key) if key else None

    def get(self, id: str) -> JobRecord | None:
        """Return a job, or None."""
        with self._reading():
            return self._one("id = ?", id)

    def page(self, owner: str, states: Sequence[JobState], before: int | None, count: int) -> list[JobRecord]:
        """Return jobs of an owner, newest first.

        Args:
            states: only these; all if there are none.
            before: only jobs with lower numbers; None for no bound.
            count: at most so many.
        """
        chosen = sorted(set(states)) or list(JobState)
        marks = ", ".join("?" * len(chosen))
        query = f"owner = ? AND number < ? AND state IN ({marks}) ORDER BY number DESC LIMIT ?"
        with self._reading():
            return self._many(query, owner, (1 << 62) if before is None else before, *chosen, count)

    def queued(self) -> list[JobRecord]:
        """Return the jobs that wait, without their specs: higher priorities first, then older ones."""
        columns = _COLUMNS.replace(" spec,", " x'',")
        query = f"SELECT {columns} FROM jobs WHERE state = ? ORDER BY priority DESC, number"
        with self._reading() as base:
            return [_record(row) for row in base.execute(query, (JobState.QUEUED,))]

    def counts(self) -> dict[JobState, int]:
        """Return how many jobs are in each state."""
        with self._reading() as base:
            found = dict(base.execute("SELECT state, count(*) FROM jobs GROUP BY state").fetchall())
        return {state: found.get(state, 0) for state in JobState}

    def start(self, id: str) -> JobRecord:
        """Note that a job is under way."""
        return self._update(id, "state = ?, started_ms = ?, attempts = attempts + 1", JobState.RUNNING, self._now())

    def requeue(self, id: str, progress: JobProgress) -> JobRecord:
        """Note that a job was interrupted and has to go on later."""
        return self._update(id, f"state = ?, started_ms = 0, {_PROGRESS}", JobState.QUEUED, *_values(progress))

    def mark(self, id: str, mark: str, result: bytes) -> None:
        """Note that an output is about to get its name, and what is to be said of it then."""
        self._update(id, "mark = ?, result = ?", mark, result)

    def request_cancel(self, id: str) -> JobRecord:
        """Note that a job is to stop; one that has ended stays as it is."""
        return self._update(
            id, "cancel_requested = CASE WHEN state >= ? THEN cancel_requested ELSE 1 END", JobState.SUCCEEDED
        )

    def finish(
        self, id: str, state: JobState, progress: JobProgress, *, result: bytes = b"", error: bytes = b""
    ) -> JobRecord:
        """Note how a job has ended."""
        return self._update(
            id,
            f"state = ?, ended_ms = ?, mark = '', result = ?, error = ?, {_PROGRESS}",
            state,
            self._now(),
            result,
            error,
            *_values(progress),
        )

    def _update(self, id: str, change: str, *values: object) -> JobRecord:
        with self._saving() as base:
            base.execute(f"UPDATE jobs SET {change} WHERE id = ?", (*values, id))
            found = self._one("id = ?", id)
        if found is None:
            raise JobError(f"there is no job {id[:64]}")
        return found

    def _one(self, where: str, *values: object) -> JobRecord | None:
        found = self._many(where, *values)
        return found[0] if found else None

    def _many(self, where: str, *values: object) -> list[JobRecord]:
        rows = self._base.execute(f"SELECT {_COLUMNS} FROM jobs WHERE {where}", values)
        return [_record(row) for row in rows]

    @contextmanager
    def _saving(self) -> Iterator[sqlite3.Connection]:
        """One transaction, all of it or nothing."""
        with self._reading() as base:
            base.execute("BEGIN IMMEDIATE")
            try:
                yield base
                base.execute("COMMIT")
            except BaseException:
                if base.in_transaction:
                    base.execute("ROLLBACK")
                raise

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._base
            except sqlite3.Error as error:
                raise self._unusable(error) from None

    def _unusable(self, error: sqlite3.Error) -> Exception:
        """A full disk is an error of the system; whatever else SQLite says is one of the file."""
        code = getattr(error, "sqlite_errorcode", None)
        if code == sqlite3.SQLITE_FULL:
            return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)
        if code == sqlite3.SQLITE_BUSY:
            return JobError(f"{self._path} is in use by another process")
        return JobError(f"{self._path} cannot be used as a file of jobs: {error}")

    def _now(self) -> int:
        return int(self._clock() * 1000)


_PROGRESS: Final = "done_bytes = ?, total_bytes = ?, done_groups = ?, total_groups = ?"


def _values(progress: JobProgress) -> tuple[int, int, int, int]:
    return progress.done_bytes, progress.total_bytes, progress.done_groups, progress.total_groups


def _record(row: Sequence[Any]) -> JobRecord:
    number, id, owner, priority, spec, state = row[:6]
    created, started, ended, attempts, cancel, mark, result, error = row[10:]
    return JobRecord(
        number, id, owner, priority, spec, JobState(state), JobProgress(*row[6:10]), created, started, ended, attempts,
        bool(cancel), mark, result, error,
    )  # fmt: skip
