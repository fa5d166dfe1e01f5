"""A new archive from what is left of a damaged one: every sound group, and a catalogue made of their tables.

Groups are copied byte for byte, so nothing is decoded and no model is needed.
"""

import io
from collections import Counter
from collections.abc import Iterator
from typing import BinaryIO

from speccompact.archive.archivelimits import ArchiveLimits
from speccompact.archive.catalogue import Catalogue, GroupPlace, pack_catalogue, unpack_catalogue
from speccompact.archive.entries import Entry
from speccompact.archive.entrymerging import EntryMerger
from speccompact.archive.events import Event, JobSummary, Listener, silent
from speccompact.archive.groupbuilding import join_record
from speccompact.archive.jobrunning import summarise
from speccompact.archive.outputs import Output
from speccompact.archive.recordreading import check_payload, read_at, read_section, read_table
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
from speccompact.archive.storage import open_archive
from speccompact.errors import DamagedError, FormatError

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
        DamagedError: no group is left.
        OSError: something cannot be read or written.
    """
    with open_archive(damaged) as stream:
        records = list(_records(stream))
        archive_id = _archive_id(stream, records)
        groups, merger, places, known = [], EntryMerger(), {}, {}
        for offset, head in records:
            if head.archive_id != archive_id:
                continue
            try:
                if head.kind == RecordKind.CATALOGUE:
                    table = read_section(stream, offset, head)
                    known = unpack_catalogue(table, offset, limits).entries
                    continue
                check_payload(stream, offset, head)
                merger.add(head.generation, read_table(stream, offset, head, limits))
                groups.append((offset, head))
            except FormatError as error:
                listener(Event("left-out", {"path": b"", "reason": f"group {head.number}: {error}"}))
        if not groups:
            raise DamagedError("no group is left of the archive")
        entries, lost = merger.result()
        lost += [(path, "its group is damaged") for path in known if path not in entries]
        with Output(output, volume_bytes) as target:
            target.truncate(0)
            target.append(pack_header(archive_id))
            for offset, head in groups:
                places[head.number] = GroupPlace(
                    head.number, target.size, head.record_bytes, head.content_bytes, head.payload_bytes, head.coding
                )
                _copy(stream, offset, head.record_bytes, target)
            _finish(target, places, entries, max(head.generation for _, head in groups), archive_id)
            target.commit()
            size = target.size
    return summarise(entries, places.values(), size, dict(lost).items(), {})


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
    offset = HEADER_BYTES
    if read_at(stream, offset, len(MARKER)) != MARKER:
        offset = 0
    while (offset := _next_marker(stream, offset, end)) < end:
        try:
            head = unpack_head(read_at(stream, offset, HEAD_BYTES))
        except FormatError:
            offset += 1
            continue
        yield offset, head
        offset += head.record_bytes if offset + head.record_bytes <= end else HEAD_BYTES


def _next_marker(stream: BinaryIO, offset: int, end: int) -> int:
    while offset < end:
        data = read_at(stream, offset, _CHUNK + len(MARKER) - 1)
        at = data.find(MARKER)
        if at >= 0:
            return offset + at
        offset += _CHUNK
    return end


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
