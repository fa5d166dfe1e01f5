"""The event log of a job, read back: how far it was at what time, and what it left out."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from speccompact.errors import DamagedError

_MOST = 1 << 40  # seconds; what is later is no time


@dataclass(frozen=True, slots=True)
class JobLog:
    """The last job of a log.

    Attributes:
        points: (seconds since it began, content bytes done, archive bytes) after each group, ascending.
        total: content bytes of the whole job.
        left_out: path and reason of what it left out; bytes of a path that are no UTF-8 are surrogates.
    """

    points: tuple[tuple[float, int, int], ...]
    total: int
    left_out: tuple[tuple[str, str], ...]

    @property
    def seconds(self) -> float:
        """From the first event to the last group, interruptions included."""
        return self.points[-1][0]


def read_log(path: str) -> JobLog:
    """Return the last job of a log that `EventLog` has written.

    Lines that are no events are passed over: a job that was killed can leave half a line.

    Raises:
        DamagedError: no line tells of a group that was written.
        OSError: it cannot be read.
    """
    found: JobLog | None = None
    with open(path, encoding="utf-8", errors="surrogateescape") as lines:
        job: list[dict[str, Any]] = []
        for event in _events(lines):
            job.append(event)
            if event["event"] == "done":
                found, job = _job(job) or found, []
        found = _job(job) or found
    if found is None:
        raise DamagedError(f"{path} tells of no group; name the log that `archive create --events` has written")
    return found


def _events(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and isinstance(event.get("event"), str) and _is_time(event.get("time")):
            yield event


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _MOST


def _job(events: list[dict[str, Any]]) -> JobLog | None:
    groups = [event for event in events if event["event"] == "group" and _is_written(event)]
    if not groups:
        return None
    began, latest, points = events[0]["time"], 0.0, []
    for group in groups:
        latest = max(latest, group["time"] - began)  # a clock that was set back must not turn the line round
        points.append((latest, group["done"], group["archive_bytes"]))
    lost = [
        (event["path"], str(event.get("reason", "")))
        for event in events
        if event["event"] == "left-out" and isinstance(event.get("path"), str)
    ]
    return JobLog(tuple(points), groups[-1]["total"], tuple(dict.fromkeys(lost)))


def _is_written(event: dict[str, Any]) -> bool:
    """Return whether an event is of a group that was written, not of one that was checked."""
    names = ("content_bytes", "done", "total", "archive_bytes")
    return all(isinstance(event.get(name), int) and event[name] >= 0 for name in names)
