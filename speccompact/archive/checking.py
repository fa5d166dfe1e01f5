"""Checking an archive: every check, every group decoded, every digest, and that catalogue and groups agree."""

import hashlib
from collections.abc import Iterable

from speccompact.archive.archivefile import ArchiveFile
from speccompact.archive.entries import DIGEST_BYTES, Entry, FileType
from speccompact.archive.events import Event, JobSummary, Listener, Value, silent
from speccompact.archive.groupreading import GroupTable, PieceReader
from speccompact.errors import DamagedError, FormatError


def verify(archive: ArchiveFile, *, decode: bool = True, listener: Listener = silent) -> JobSummary:
    """Check an archive; writes nothing.

    Args:
        archive: open: its header, trailer and catalogue are already checked.
        decode: also decode all groups and compare digests; without it, the checks of what is stored.
        listener: told what happens.

    Returns:
        Totals; `left_out` names every entry that could not be restored, with the reason.

    Raises:
        ModelError: a model is needed and missing or damaged.
    """
    by_group: dict[int, list[Entry]] = {}
    for entry in archive.entries.values():
        for number in dict.fromkeys(piece.group for piece in entry.pieces):
            by_group.setdefault(number, []).append(entry)
    lost: dict[bytes, str] = {}
    running: dict[bytes, hashlib._Hash] = {}
    places = sorted(archive.catalogue.groups.values(), key=lambda place: place.number)
    total, done = sum(place.content_bytes for place in places), 0
    for place in places:
        entries = by_group.get(place.number, [])
        try:
            table = _compared(archive, place.number, entries)
            archive.check_payload(place.number)
            if decode and place.content_bytes:
                _decode(archive, place.number, entries, table, running, lost)
        except FormatError as error:
            for entry in entries:
                lost.setdefault(entry.path, str(error))
            listener(Event("left-out", {"path": b"", "reason": f"group {place.number}: {error}"}))
            if not entries:
                lost.setdefault(b"", str(error))
        done += place.content_bytes
        values: dict[str, Value] = {"done": done, "total": total, "number": place.number, "archive_bytes": place.offset}
        listener(Event("group", values))
    _links(archive, lost)
    sound = [entry for entry in archive.entries.values() if entry.path not in lost]
    return JobSummary(
        entries=len(sound),
        content_bytes=sum(entry.size for entry in sound),
        stored_bytes=total,
        archive_bytes=archive.trailer.archive_bytes,
        groups=len(places),
        left_out=tuple(lost.items()),
    )


def _compared(archive: ArchiveFile, number: int, entries: Iterable[Entry]) -> GroupTable:
    """Return a group's table, after comparing it with what the catalogue says of the same entries."""
    table = archive.table(number)
    for entry in entries:
        own = table.find(entry)
        pieces = tuple(piece for piece in entry.pieces if piece.group == number)
        if own is None or own._replace(path=entry.path, digest=b"", pieces=pieces) != entry._replace(pieces=pieces):
            raise DamagedError(f"catalogue and group {number} disagree about {entry.path!r}")
        if own.pieces != pieces:
            raise DamagedError(f"catalogue and group {number} disagree about where {entry.path!r} is")
    return table


def _decode(
    archive: ArchiveFile,
    number: int,
    entries: Iterable[Entry],
    table: GroupTable,
    running: dict[bytes, "hashlib._Hash"],
    lost: dict[bytes, str],
) -> None:
    pieces = sorted((piece, entry.path, entry) for entry in entries for piece in entry.pieces if piece.group == number)
    with archive.content(number) as content:
        reader = PieceReader(content, [piece for piece, _, _ in pieces])
        for piece, path, entry in pieces:
            found = running.setdefault(path, hashlib.sha256())
            for data in reader.read(piece):
                found.update(data)
            if piece == entry.pieces[-1] and running.pop(path).digest()[:DIGEST_BYTES] != table.digest(entry):
                lost.setdefault(path, "its bytes do not have the digest that the archive says")


def _links(archive: ArchiveFile, lost: dict[bytes, str]) -> None:
    for entry in archive.entries.values():
        if entry.type == FileType.HARDLINK:
            target = archive.entries.get(entry.link)
            if target is None or target.type != FileType.FILE:
                lost.setdefault(entry.path, "it is a hard link to what is no file of the archive")
            elif target.path in lost:
                lost.setdefault(entry.path, "the file that it is a hard link to is lost")
