"""What a job tells while it runs and when it is over."""

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TextIO

Value = str | bytes | int | float | None


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened.

    Attributes:
        name: "found", "planned", "progress", "group", "left-out", "file" or "done"; ARCHIVE.md section 9 lists what
            each says.
        values: what is to be said about it; paths are bytes.
    """

    name: str
    values: dict[str, Value]


Listener = Callable[[Event], None]


def silent(event: Event) -> None:
    """Hear nothing."""


@dataclass(frozen=True, slots=True)
class JobSummary:
    """Totals of a job.

    Attributes:
        entries: paths in the archive that the job has written, read or checked.
        content_bytes: of all files, holes and repetitions included.
        stored_bytes: of them those that had to be stored.
        archive_bytes: of the archive, or of what an append has added.
        groups: written, or decoded.
        text_bytes, text_payload: content of text groups, and what it became.
        other_bytes, other_payload: the same for other groups.
        left_out: path and reason of everything that was asked for and is missing.
    """

    entries: int
    content_bytes: int
    stored_bytes: int
    archive_bytes: int
    groups: int
    text_bytes: int = 0
    text_payload: int = 0
    other_bytes: int = 0
    other_payload: int = 0
    left_out: tuple[tuple[bytes, str], ...] = field(default=())

    @property
    def bpb(self) -> float:
        """Bits of the archive for each byte of the files; 0 without any."""
        return 8 * self.archive_bytes / self.content_bytes if self.content_bytes else 0.0


class EventLog:
    """Writes events to a stream, each as a JSON object on a line of its own, with the time it happened."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.time) -> None:
        self._stream, self._clock = stream, clock

    def __call__(self, event: Event) -> None:
        """Write one event, at once. Paths that are no UTF-8 come with surrogate escapes."""
        values = {
            name: os.fsdecode(value) if isinstance(value, bytes) else value for name, value in event.values.items()
        }
        head = {"time": round(self._clock(), 3), "event": event.name}
        line = json.dumps(head | values | head)
        self._stream.write(line + "\n")
        self._stream.flush()
