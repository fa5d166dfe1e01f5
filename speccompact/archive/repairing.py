"""A new archive from what is left of a damaged one: every sound group, and a catalogue made of their tables.

Groups are copied byte for byte, so nothing is decoded and no model is needed.
"""

import io
import os
from collections import Counter
from collections.abc import Iterator
from typing import BinaryIO

from speccompact.archive.catalogue import Catalogue, GroupPlace, pack_catalogue, unpack_catalogue
from speccompact.archive.entries import Entry
from speccompact.archive.entrymerging import EntryMerger
from speccompact.archive.events import Event, JobSummary, Listener, silent
from speccompact.archive.groupbuilding import join_record
from speccompact.archive.jobrunning import summarise
from speccompact.archive.outputs import Output, drop_other_shape
from speccompact.archive.readoptions import ArchiveLimits
from speccompact.archive.recordreading import check_payload, naming, read_at, read_section, read_table
from speccompact.archive.records import (
    HEAD_BYTES,
    HEADER_BYTES,
    MARKER,
    TRAILER_BYTES,
    Coding,
    RecordHead,
    RecordKind,
    Trailer,
    pack_header,
    pack_trailer,
    unpack_head,
    unpack_header,
)
from speccompact.archive.storage import is_remote, open_archive, volumes, without_protocol
from speccompact.errors import ArgumentError, DamagedError, FormatError, LimitError

_CHUNK = 1 << 20
_LIMITS = ArchiveLimits()


def repair(
    damaged: str, output: str, *, volume_bytes: int | None = None, limits: ArchiveLimits = _LIMITS,
    listener: Listener = silent,
) -> JobSummary:  # fmt: skip
    """Write what can be saved of an archive to another.

    Args:
        damaged: local path or URL; need not have a header, a catalogue or a trailer.
        output: local path; replaced if it is there.
        volume_bytes: size of the volumes of the new archive.
        limits: of the tables.
        listener: told what happens.

    Returns:
        Totals of the new archive; `left_out` names every entry that is known of and could not be saved.

    Raises:
        ArgumentError: the output is at a URL, or is the damaged archive.
        DamagedError: no group is left.
        LimitError: it has more entries than the limits allow.
        OSError: something cannot be read or written.
    """
    output = without_protocol(output)
    if is_remote(output):
        raise ArgumentError(f"output is {output}; repair to a local archive and upload that")
    if _files(damaged) & _files(output):
        raise ArgumentError(f"output is {output}, which is the damaged archive; choose another name, to lose nothing")
    with naming(damaged), open_archive(damaged) as stream:
        records = list(_records(stream))
        archive_id = _archive_id(stream, records)
        groups: dict[int, tuple[int, RecordHead]] = {}
        merger, known = EntryMerger(), dict[bytes, Entry]()
        for offset, head in records:
            if head.archive_id != archive_id or (head.kind == RecordKind.GROUP and head.number in groups):
                continue  # of another archive, or a second copy
            try:
                if head.kind == RecordKind.CATALOGUE:
                    known = unpack_catalogue(read_section(stream, offset, head), offset, limits).entries
                    continue
                check_payload(stream, offset, head)
                merger.add(head.generation, read_table(stream, offset, head, limits))
                groups[head.number] = offset, head
            except FormatError as error:
                reason = f"group {head.number} at byte {offset}: {error}"
                listener(Event("left-out", {"path": b"", "reason": reason}))
            if len(merger) > limits.entries:
                raise LimitError(f"the archive has more than {limits.entries} entries, which is the limit")
        if not groups:
            raise DamagedError("no group is left of the archive, not one whose checks are right")
        entries, lost = merger.result()
        lost += [(path, "its group is damaged") for path in known if path not in entries]
        places = {}
        with Output(output, volume_bytes) as target:
            target.truncate(0)
            target.append(pack_header(archive_id))
            for number, (offset, head) in groups.items():
                places[number] = GroupPlace(
                    number, target.size, head.record_bytes, head.content_bytes, head.payload_bytes, head.coding
                )
                _copy(stream, offset, head.record_bytes, target)
            _finish(target, places, entries, max(head.generation for _, head in groups.values()), archive_id)
            target.sync()
            drop_other_shape(output, volume_bytes)
            target.commit()
            size = target.size
    return summarise(entries, places.values(), size, dict(lost).items(), {})


def _files(location: str) -> set[str]:
    """Return the real paths of a local archive, whatever its shape; nothing for one at a URL."""
    names = [] if is_remote(location) else [location, *volumes(location)]
    return {os.path.realpath(name) for name in names if os.path.exists(name)}


def _finish(
    target: Output, places: dict[int, GroupPlace], entries: dict[bytes, Entry], generation: int, archive_id: bytes
) -> None:
    table = pack_catalogue(Catalogue(places, entries))
    head = RecordHead(RecordKind.CATALOGUE, Coding.NONE, generation, len(places), len(table), 0, 0, archive_id)
    record, offset = join_record(head, table, b""), target.size
    whole = offset + len(record) + TRAILER_BYTES
    target.append(record + pack_trailer(Trailer(offset, len(record), whole, generation, archive_id)))


def _records(stream: BinaryIO) -> Iterator[tuple[int, RecordHead]]:
    """Yield the records that have a sound head, from one to the next, or by their markers where that leads nowhere.

    A record is passed over as a whole, so that an archive inside a payload is not taken for a part of this one; one
    whose head is sound and whose length is not believed (it exceeds the file) is searched.
    """
    end = stream.seek(0, io.SEEK_END)
    scan = _MarkerScan(stream)
    offset = HEADER_BYTES
    if read_at(stream, offset, len(MARKER)) != MARKER:
        offset = 0
    while (found := scan.find(offset)) is not None:
        try:
            head = unpack_head(read_at(stream, found, HEAD_BYTES))
        except FormatError:
            offset = found + 1
            continue
        yield found, head
        offset = found + (head.record_bytes if found + head.record_bytes <= end else HEAD_BYTES)


class _MarkerScan:
    """Looks for markers; every byte is read once, however many of them are markers that lead nowhere."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._start, self._data = 0, b""

    def find(self, offset: int) -> int | None:
        """Return where the next marker is, from `offset` on; None if there is none."""
        while True:
            if not self._start <= offset <= self._start + len(self._data) - len(MARKER):
                self._start, self._data = offset, read_at(self._stream, offset, _CHUNK)
                if len(self._data) < len(MARKER):
                    return None
            at = self._data.find(MARKER, offset - self._start)
            if at >= 0:
                return self._start + at
            offset = self._start + len(self._data) - len(MARKER) + 1


def _archive_id(stream: BinaryIO, records: list[tuple[int, RecordHead]]) -> bytes:
    """Return the id of the header or, if that is damaged, the one that most records have."""
    try:
        return unpack_header(read_at(stream, 0, HEADER_BYTES))
    except FormatError:
        common = Counter(head.archive_id for _, head in records).most_common(1)
        if not common:
            raise
        return common[0][0]


def _copy(stream: BinaryIO, offset: int, size: int, target: Output) -> None:
    while size:
        data = read_at(stream, offset, min(size, _CHUNK))
        target.append(data)
        offset, size = offset + len(data), size - len(data)
