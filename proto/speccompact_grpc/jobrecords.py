"""A job as the service knows it: what is kept on disk of it, and how far it is."""

from dataclasses import dataclass, field
from enum import IntEnum


class JobState(IntEnum):
    """Where a job stands. The numbers are those of the proto file, and those on disk."""

    QUEUED = 1
    RUNNING = 2
    SUCCEEDED = 3
    FAILED = 4
    CANCELLED = 5

    @property
    def ended(self) -> bool:
        """Whether nothing will change any more."""
        return self >= JobState.SUCCEEDED


@dataclass(frozen=True, slots=True)
class JobProgress:
    """How far a job is: bytes and groups of an archive, done and to do; a total of 0 is unknown."""

    done_bytes: int = 0
    total_bytes: int = 0
    done_groups: int = 0
    total_groups: int = 0


@dataclass(frozen=True, slots=True)
class JobRecord:
    """One job.

    Attributes:
        number: in the order of submission, from 1.
        id: 32 hexadecimal digits.
        owner: name of the caller who submitted it.
        priority: LOW to HIGH of `callers`; higher ones start first.
        spec: what it is to do, as a serialized `JobSpec`.
        state: where it stands.
        progress: how far it is.
        created_ms, started_ms, ended_ms: milliseconds since 1970; 0 for what has not happened.
        attempts: how often it was started.
        cancel_requested: whether it is to stop.
        mark: identity of the output as it is about to get its name, or nothing; see `joboutput`.
        result: a serialized `JobResult`; empty before the output is complete.
        error: a serialized `ErrorStatus`; empty unless it failed.
    """

    number: int
    id: str
    owner: str
    priority: int
    spec: bytes = field(repr=False)
    state: JobState = JobState.QUEUED
    progress: JobProgress = JobProgress()
    created_ms: int = 0
    started_ms: int = 0
    ended_ms: int = 0
    attempts: int = 0
    cancel_requested: bool = False
    mark: str = ""
    result: bytes = b""
    error: bytes = b""
