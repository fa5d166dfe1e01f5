"""Structures of an archive: header, record heads and trailer, with their checks. ARCHIVE.md sections 2 to 4. No I/O."""

import struct
from dataclasses import dataclass
from enum import IntEnum

from speccompact.container.format import sha_prefix
from speccompact.errors import DamagedError, NotSpecCompactError, TruncatedError, UnsupportedError

MAGIC = b"\xd3SPA"
VERSION = 1
MARKER = b"\xd3\xc1\xa5\xd2"
"""Begins every record. C1 occurs in no UTF-8."""

ID_BYTES = 8
CHECK_BYTES = 8

_HEADER = struct.Struct("<4sBB2x8s")
_HEAD = struct.Struct("<4sBBHIIQQ8s")
_TRAILER = struct.Struct("<QQQI4x8s")
_MARK = b"\xd3ARC"

HEADER_BYTES = _HEADER.size + CHECK_BYTES
HEAD_BYTES = _HEAD.size + CHECK_BYTES
TRAILER_BYTES = _TRAILER.size + CHECK_BYTES + len(_MARK)

MAX_GROUP_BYTES = 1 << 27
"""Content bytes of one group, at most."""


class RecordKind(IntEnum):
    """What a record is."""

    GROUP = 1
    CATALOGUE = 2


class Coding(IntEnum):
    """How the content of a group is stored."""

    NONE = 0
    """There is none: entries without content only."""
    TEXT = 1
    """An archive of FORMAT.md."""
    ZSTD = 2
    """One frame of zstandard."""
    RAW = 3


@dataclass(frozen=True, slots=True)
class RecordHead:
    """What stands in front of a record.

    Attributes:
        kind, coding: what it is, and how its content is stored.
        generation: 0 for what `create` wrote, then one more for every append.
        number: of the group in the archive, from 0; of a catalogue, how many groups there are before it.
        table_bytes, payload_bytes: lengths of the two sections that follow.
        content_bytes: of the payload, decoded; of the table in a catalogue.
        archive_id: of the archive that it belongs to.
    """

    kind: RecordKind
    coding: Coding
    generation: int
    number: int
    table_bytes: int
    payload_bytes: int
    content_bytes: int
    archive_id: bytes

    @property
    def record_bytes(self) -> int:
        """Length of the whole record."""
        return HEAD_BYTES + self.table_bytes + self.payload_bytes + 2 * CHECK_BYTES


@dataclass(frozen=True, slots=True)
class Trailer:
    """The end of an archive, which names its catalogue: nothing counts before it is written.

    Attributes:
        catalogue_offset, catalogue_bytes: where the catalogue record is, and its length.
        archive_bytes: from the beginning of the archive to the end of this trailer.
        generation: of the job that wrote it.
        archive_id: of the archive.
    """

    catalogue_offset: int
    catalogue_bytes: int
    archive_bytes: int
    generation: int
    archive_id: bytes


def pack_header(archive_id: bytes) -> bytes:
    """Return the first bytes of an archive."""
    data = _HEADER.pack(MAGIC, VERSION, 0, archive_id)
    return data + sha_prefix(CHECK_BYTES, data)


def unpack_header(data: bytes) -> bytes:
    """Return the archive's id, the inverse of `pack_header`.

    Raises:
        FormatError: it is no such header.
    """
    if data[: len(MAGIC)] != MAGIC:
        raise NotSpecCompactError("the file does not begin as a SpecCompact archive of files (.spca) does")
    if len(data) < HEADER_BYTES:
        raise TruncatedError("the archive ends inside its header")
    if data[4] != VERSION or data[5]:
        raise UnsupportedError(f"archive version {data[4]}, flags {data[5]}; this release reads version {VERSION}")
    if sha_prefix(CHECK_BYTES, data[: _HEADER.size]) != data[_HEADER.size : HEADER_BYTES] or data[6:8] != b"\0\0":
        raise DamagedError("the header of the archive is damaged")
    return data[8:16]


def pack_head(head: RecordHead) -> bytes:
    """Return the head of a record with its check."""
    data = _HEAD.pack(
        MARKER, head.kind, head.coding, head.generation, head.number,
        head.table_bytes, head.payload_bytes, head.content_bytes, head.archive_id,
    )  # fmt: skip
    return data + sha_prefix(CHECK_BYTES, data)


def unpack_head(data: bytes) -> RecordHead:
    """Return what `pack_head` was given.

    Raises:
        FormatError: it is damaged, or of a kind that this release does not know.
    """
    if len(data) < HEAD_BYTES:
        raise TruncatedError("the archive ends inside the head of a record")
    if data[: len(MARKER)] != MARKER or sha_prefix(CHECK_BYTES, data[: _HEAD.size]) != data[_HEAD.size : HEAD_BYTES]:
        raise DamagedError("the head of a record is damaged")
    _, kind, coding, generation, number, table, payload, content, archive_id = _HEAD.unpack_from(data)
    if kind not in set(RecordKind) or coding not in set(Coding):
        raise UnsupportedError(f"a record of kind {kind}, coding {coding}; a newer release may read it")
    head = RecordHead(RecordKind(kind), Coding(coding), generation, number, table, payload, content, archive_id)
    if head.kind == RecordKind.GROUP and content > MAX_GROUP_BYTES:
        raise DamagedError(f"a group declares {content} bytes of content; {MAX_GROUP_BYTES} is the most")
    if (head.coding == Coding.NONE) != (payload == 0) or (payload == 0 and head.kind == RecordKind.GROUP and content):
        raise DamagedError("the head of a record contradicts itself")
    return head


def pack_trailer(trailer: Trailer) -> bytes:
    """Return the last bytes of an archive."""
    data = _TRAILER.pack(
        trailer.catalogue_offset, trailer.catalogue_bytes, trailer.archive_bytes, trailer.generation, trailer.archive_id
    )
    return data + sha_prefix(CHECK_BYTES, data) + _MARK


def unpack_trailer(data: bytes) -> Trailer:
    """Return what `pack_trailer` was given.

    Args:
        data: TRAILER_BYTES.

    Raises:
        FormatError: it is none, or damaged.
    """
    if len(data) < TRAILER_BYTES:
        raise TruncatedError("the archive ends inside its trailer")
    body, check = data[: _TRAILER.size], data[_TRAILER.size : -len(_MARK)]
    if data[-len(_MARK) :] != _MARK or sha_prefix(CHECK_BYTES, body) != check:
        raise DamagedError("there is no trailer where the archive ends")
    offset, size, whole, generation, archive_id = _TRAILER.unpack(body)
    if offset + size + TRAILER_BYTES != whole:
        raise DamagedError("the trailer contradicts itself")
    return Trailer(offset, size, whole, generation, archive_id)


TRAILER_MARK = _MARK
"""Last bytes of a trailer, to look for one with."""
