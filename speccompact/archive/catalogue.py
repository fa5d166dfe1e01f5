"""The sections of records as bytes: the table of a group, and the catalogue that indexes all groups.

Both are one frame of zstandard. ARCHIVE.md section 5.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import zstandard

from speccompact.archive.columns import pack_numbers, unpack_numbers
from speccompact.archive.entries import Entry
from speccompact.archive.entrytable import pack_entries, unpack_entries
from speccompact.archive.readoptions import ArchiveLimits
from speccompact.archive.records import HEAD_BYTES, HEADER_BYTES, MAX_GROUP_BYTES, Coding
from speccompact.container.fields import Cursor, pack_varint
from speccompact.errors import DamagedError, LimitError

_LEVEL = 19
_WINDOW = 1 << 27
_MOST_RATIO = 1 << 15  # of zstandard: a block of 128 KiB of one byte takes 4


@dataclass(frozen=True, slots=True)
class GroupPlace:
    """Where a group is.

    Attributes:
        number: of the group.
        offset, record_bytes: of its record in the archive.
        content_bytes: of its payload, decoded.
        payload_bytes: of its payload, as stored.
        coding: how.
    """

    number: int
    offset: int
    record_bytes: int
    content_bytes: int
    payload_bytes: int
    coding: Coding


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Everything that an archive holds.

    Attributes:
        groups: by number.
        entries: by path.
    """

    groups: dict[int, GroupPlace] = field(default_factory=dict)
    entries: dict[bytes, Entry] = field(default_factory=dict)


def pack_table(entries: Sequence[Entry]) -> bytes:
    """Return the table of a group: its entries with their digests."""
    return _squeeze(pack_entries(entries, digests=True))


def unpack_table(data: bytes, content_bytes: int, number: int, limits: ArchiveLimits) -> list[Entry]:
    """Return the entries of a group's table, the inverse of `pack_table`.

    Args:
        content_bytes: of the group: no piece may reach beyond.
        number: of the group: every piece has to be in it.

    Raises:
        FormatError: the table is damaged.
        LimitError: it is larger than the limits allow.
    """
    cursor = Cursor(_expand(data, limits))
    entries = unpack_entries(cursor, limits.entries)
    for entry in entries:
        for piece in entry.pieces:
            if piece.group != number or piece.offset + piece.length > content_bytes:
                raise DamagedError(f"a piece of entry {entry.path[:80]!r} is not inside its group")
    _check_overlaps(entries)
    return entries


def pack_catalogue(catalogue: Catalogue) -> bytes:
    """Return a catalogue: where groups are, then all entries without digests, in the order of their pieces."""
    places = sorted(catalogue.groups.values(), key=lambda place: place.number)
    entries = sorted(catalogue.entries.values(), key=lambda entry: (entry.pieces[:1], entry.path))
    columns = [
        [place.number for place in places],
        [place.offset for place in places],
        [place.record_bytes for place in places],
        [place.content_bytes for place in places],
        [place.payload_bytes for place in places],
        [int(place.coding) for place in places],
    ]
    body = b"".join(pack_numbers(column) for column in columns)
    return _squeeze(pack_varint(len(places)) + body + pack_entries(entries, digests=False))


def unpack_catalogue(data: bytes, archive_bytes: int, limits: ArchiveLimits) -> Catalogue:
    """Return what `pack_catalogue` was given, less the digests.

    Args:
        archive_bytes: of the archive up to the catalogue: no group may reach beyond.

    Raises:
        FormatError: the catalogue is damaged.
        LimitError: it is larger than the limits allow.
    """
    cursor = Cursor(_expand(data, limits))
    count = cursor.varint("group count")
    if count > archive_bytes // HEAD_BYTES:
        raise DamagedError(f"the catalogue has {count} groups in {archive_bytes} bytes")
    names = ("group number", "group offset", "record bytes", "content bytes", "payload bytes", "coding")
    columns = [unpack_numbers(cursor, count, name) for name in names]
    groups = {}
    for number, offset, size, content, payload, coding in zip(*columns, strict=True):
        inside = HEADER_BYTES <= offset < offset + size <= archive_bytes and 0 <= payload < size
        if not inside or not 0 <= content <= MAX_GROUP_BYTES or coding not in set(Coding) or number in groups:
            raise DamagedError(f"group {number} of the catalogue has an impossible place, size or coding")
        groups[number] = GroupPlace(number, offset, size, content, payload, Coding(coding))
    entries = unpack_entries(cursor, limits.entries)
    _check_pieces(entries, groups)
    found = {entry.path: entry for entry in entries}
    if len(found) != len(entries):
        raise DamagedError("the catalogue names a path twice")
    return Catalogue(groups, found)


def _check_pieces(entries: Sequence[Entry], groups: dict[int, GroupPlace]) -> None:
    for entry in entries:
        for piece in entry.pieces:
            place = groups.get(piece.group)
            if place is None or piece.offset + piece.length > place.content_bytes:
                raise DamagedError(f"a piece of entry {entry.path[:80]!r} is in no group")
        if not entry.complete:
            raise DamagedError(f"the pieces of entry {entry.path[:80]!r} are not all that it stores")
    _check_overlaps(entries)


def _check_overlaps(entries: Iterable[Entry]) -> None:
    """Refuse pieces that share some bytes and not all: nothing is gained by them but work for who decodes them."""
    pieces = sorted({piece for entry in entries for piece in entry.pieces})
    for piece, after in pairwise(pieces):
        if piece.group == after.group and after.offset < piece.offset + piece.length:
            raise DamagedError(f"pieces of group {piece.group} overlap at byte {after.offset} of its content")


def _squeeze(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=_LEVEL).compress(data)


def _expand(data: bytes, limits: ArchiveLimits) -> bytes:
    try:
        size = zstandard.frame_content_size(data)
        if size < 0:
            raise DamagedError("the table does not say how long it is")
        if size > len(data) * _MOST_RATIO:
            raise DamagedError(f"the table declares {size} bytes, more than {len(data)} can become")
        if size > limits.table_bytes:
            raise LimitError(f"the table of entries has {size} bytes; the limit is {limits.table_bytes}")
        decompressor = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
        return decompressor.decompress(data, max_output_size=size, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise DamagedError(f"the table of entries cannot be decoded ({error})") from None
