"""The part of a job that writes: groups one after the other, then the catalogue and the trailer.

What is written is a function of the plan, so that a run that goes on from the last good group ends with the same bytes.
"""

import io
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import BinaryIO, cast

from speccompact.archive.catalogue import Catalogue, GroupPlace, pack_catalogue
from speccompact.archive.entries import Entry, Loss
from speccompact.archive.entrymerging import EntryMerger
from speccompact.archive.events import Event, JobSummary, Listener, Value
from speccompact.archive.groupbuilding import BuiltGroup, Coder, GroupTask, join_record
from speccompact.archive.groupexecutors import Executor
from speccompact.archive.ledger import Job, Ledger, Written
from speccompact.archive.outputs import Output, OutputStream
from speccompact.archive.readoptions import ArchiveLimits
from speccompact.archive.recordreading import read_at, read_table
from speccompact.archive.records import (
    CHECK_BYTES,
    HEAD_BYTES,
    HEADER_BYTES,
    TRAILER_BYTES,
    Coding,
    RecordHead,
    RecordKind,
    Trailer,
    pack_header,
    pack_trailer,
    unpack_head,
)
from speccompact.container.format import sha_prefix

Step = Callable[[str], None]
"""Called after each step that a crash could follow, with its name; tests end the process there."""

_INTERVAL = 0.1  # seconds between two events of progress


def no_step(name: str) -> None:
    """Go on."""


class JobRun:
    """One run of a job whose plan is in the ledger.

    Args:
        ledger, job: what is to be done.
        output: where it goes; open, locked.
        before: the catalogue that an append goes on from.
    """

    def __init__(
        self, ledger: Ledger, job: Job, output: Output, before: Catalogue, listener: Listener, step: Step
    ) -> None:
        self._ledger, self._job, self._output, self._before = ledger, job, output, before
        self._listener, self._step = listener, step
        self._done, self._total = 0, 0
        self._ahead: dict[int, int] = {}  # content bytes done of groups on the way, by number
        self._size = 0  # of the output, with the last group that was written
        self._telling = threading.Lock()  # executors may watch from several threads
        self._told = 0.0

    def write_groups(self, executor: Executor, coder: Coder) -> None:
        """Write all groups that are missing.

        Raises:
            ModelError: the model is needed and missing or damaged.
            OSError: the output cannot be written; what was written before stays.
        """
        self._cut()
        self._done, self._total = self._ledger.content_bytes()
        self._size = self._output.size
        with closing(executor.run(self._tasks(coder), self._watch)) as made:
            for built in made:
                self._write(built)

    def finish(self) -> JobSummary:
        """Write catalogue and trailer, put them on disk, and return the totals."""
        added, merger = self._collect()
        entries, missing = merger.result()
        catalogue = Catalogue(self._before.groups | added, entries)
        table = pack_catalogue(catalogue)
        offset = self._output.size
        job = self._job
        head = RecordHead(
            RecordKind.CATALOGUE, Coding.NONE, job.generation, len(catalogue.groups), len(table), 0, 0, job.archive_id
        )
        record = join_record(head, table, b"")
        self._output.append(record)
        self._step("catalogue-written")
        self._output.sync()  # a trailer that is on disk must not name a catalogue that is not
        self._step("catalogue-synced")
        whole = offset + len(record) + TRAILER_BYTES
        self._output.append(pack_trailer(Trailer(offset, len(record), whole, job.generation, job.archive_id)))
        self._step("trailer-written")
        self._output.sync()
        self._step("trailer-synced")
        known = dict(self._ledger.losses())
        lost = (*job.left_out, *known.items(), *(loss for loss in missing if loss[0] not in known))
        return summarise(entries, added.values(), whole - job.base, lost, self._before.entries)

    def _cut(self) -> None:
        """Check the last group that the ledger names, go back to the last good one, and cut what follows it."""
        if not self._job.base and self._output.read_at(0, HEADER_BYTES) != pack_header(self._job.archive_id):
            self._ledger.forget(0)
            self._output.truncate(0)
            self._output.append(pack_header(self._job.archive_id))
            self._output.sync()
            self._step("header-written")
        written = self._ledger.written()
        while written and not self._sound(written):
            self._ledger.forget(written.pop().number)
        self._output.truncate(written[-1].stop if written else self._job.base or HEADER_BYTES)

    def _sound(self, written: list[Written]) -> bool:
        """Return whether the last group is there as it was noted; one without a record must not lie beyond the end."""
        last = written[-1]
        if not last.record_check:
            return self._output.size >= last.stop
        start = written[-2].stop if len(written) > 1 else self._job.base or HEADER_BYTES
        record = self._output.read_at(start, last.stop - start)
        return len(record) == last.stop - start and _check(record) == last.record_check

    def _tasks(self, coder: Coder) -> Iterator[GroupTask]:
        for plan in self._ledger.pending():
            yield GroupTask(plan, coder, self._job.generation, self._job.archive_id)

    def _write(self, built: BuiltGroup) -> None:
        if built.record:
            self._output.append(built.record)
            self._step("group-written")
            self._output.sync()
            self._step("group-synced")
        self._ledger.note(Written(built.number, self._output.size, _check(built.record)), built.lost)
        self._step("group-noted")
        self._size = self._output.size
        with self._telling:
            self._ahead.pop(built.number, None)
            self._done += built.content_bytes
            for path, reason in built.lost:
                self._listener(Event("left-out", {"path": path, "reason": reason}))
            values: dict[str, Value] = {
                "number": built.number,
                "coding": built.coding.name.lower(),
                "content_bytes": built.content_bytes,
                "payload_bytes": built.payload_bytes,
                "done": self._done,
                "total": self._total,
                "archive_bytes": self._size,
            }
            self._listener(Event("group", values))

    def _watch(self, task: GroupTask, done: int) -> None:
        with self._telling:
            self._ahead[task.plan.number] = done
            now = time.monotonic()
            if now - self._told < _INTERVAL:
                return
            self._told = now
            values = self._progress(task, done)
            if values is not None:
                self._listener(Event("progress", values))

    def _progress(self, task: GroupTask, done: int) -> dict[str, Value] | None:
        """Return what there is to say of a group on the way; None where it is all but written."""
        start = 0
        for piece in task.plan.pieces:
            if done < start + piece.length:
                return {
                    "done": self._done + sum(self._ahead.values()),
                    "total": self._total,
                    "path": piece.entries[0].path,
                    "path_done": piece.start + done - start,
                    "path_total": piece.entries[0].stored_bytes,
                    "archive_bytes": self._size,
                }
            start += piece.length
        return None

    def _collect(self) -> tuple[dict[int, GroupPlace], EntryMerger]:
        """Read the tables of all groups that this job has written."""
        stream = cast(BinaryIO, io.BufferedReader(OutputStream(self._output)))
        merger = EntryMerger(self._before.entries.values())
        places = {}
        offset = self._job.base or HEADER_BYTES
        for written in self._ledger.written():
            if written.stop > offset:
                head = unpack_head(read_at(stream, offset, HEAD_BYTES))
                places[head.number] = GroupPlace(
                    head.number, offset, head.record_bytes, head.content_bytes, head.payload_bytes, head.coding
                )
                merger.add(head.generation, read_table(stream, offset, head, ArchiveLimits()))
            offset = written.stop
        return places, merger


def summarise(
    entries: dict[bytes, Entry],
    places: Iterable[GroupPlace],
    archive_bytes: int,
    lost: Iterable[Loss],
    before: dict[bytes, Entry],
) -> JobSummary:
    """Return the totals of what a job has added to the entries of before."""
    added = [entry for path, entry in entries.items() if before.get(path) is not entry]
    places = list(places)
    text = [place for place in places if place.coding == Coding.TEXT]
    other = [place for place in places if place.coding in (Coding.ZSTD, Coding.RAW)]
    return JobSummary(
        entries=len(added),
        content_bytes=sum(entry.size for entry in added),
        stored_bytes=sum(place.content_bytes for place in places),
        archive_bytes=archive_bytes,
        groups=len(places),
        text_bytes=sum(place.content_bytes for place in text),
        text_payload=sum(place.payload_bytes for place in text),
        other_bytes=sum(place.content_bytes for place in other),
        other_payload=sum(place.payload_bytes for place in other),
        left_out=tuple(dict.fromkeys(lost)),
    )


def _check(record: bytes) -> bytes:
    return sha_prefix(CHECK_BYTES, record) if record else b""
