"""An archive that is open for reading: its catalogue, the tables of its groups, and their content."""

import io
from types import TracebackType
from typing import BinaryIO, Self, cast

import zstandard

from speccompact.api import open as open_content
from speccompact.archive.archivelimits import ArchiveLimits
from speccompact.archive.catalogue import Catalogue, GroupPlace, unpack_catalogue, unpack_table
from speccompact.archive.entries import Entry
from speccompact.archive.records import (
    CHECK_BYTES,
    HEAD_BYTES,
    HEADER_BYTES,
    MAX_GROUP_BYTES,
    TRAILER_BYTES,
    TRAILER_MARK,
    Coding,
    RecordHead,
    RecordKind,
    Trailer,
    unpack_head,
    unpack_header,
    unpack_trailer,
)
from speccompact.archive.storage import Window, open_archive
from speccompact.container.format import sha_prefix
from speccompact.container.limits import Limits
from speccompact.errors import DamagedError, FormatError, TruncatedError
from speccompact.options import Options
from speccompact.streams.engine import Engines

_CHUNK = 1 << 20
_OPTIONS = Options()
_LIMITS = ArchiveLimits()


class ArchiveFile:
    """Use as a context manager.

    Attributes:
        catalogue: all groups and entries; entries have no digests here, those are in `table`.
        trailer: of the archive as it counts.
        file_bytes: of the file; more than the trailer says if an append was ended before its own trailer.
    """

    def __init__(
        self,
        location: str,
        *,
        limits: ArchiveLimits = _LIMITS,
        options: Options = _OPTIONS,
        engines: Engines | None = None,
    ) -> None:
        """Open an archive and read its catalogue.

        Args:
            location: local path, of the archive or of its first volume, or URL.

        Raises:
            FormatError: it is no archive, or header, catalogue or trailer are damaged: `repair` may help.
            LimitError: it has more entries than the limits allow.
            OSError: it cannot be read.
        """
        self._limits, self._options, self._engines = limits, options, engines
        self._stream = open_archive(location)
        try:
            self.file_bytes = self._stream.seek(0, io.SEEK_END)
            self.archive_id = unpack_header(self.read_at(0, HEADER_BYTES))
            self.trailer = find_trailer(self._stream, self.file_bytes, self.archive_id)
            self.catalogue = self._catalogue()
        except BaseException:
            self._stream.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stream.close()

    @property
    def entries(self) -> dict[bytes, Entry]:
        """All entries, by path."""
        return self.catalogue.entries

    def read_at(self, offset: int, size: int) -> bytes:
        """Return `size` bytes of the file from `offset` on, fewer at its end."""
        return read_at(self._stream, offset, size)

    def head(self, place: GroupPlace) -> RecordHead:
        """Return the head of a group's record, compared with the catalogue.

        Raises:
            FormatError: it is damaged, or another group's.
        """
        head = unpack_head(self.read_at(place.offset, HEAD_BYTES))
        found = head.number, head.content_bytes, head.payload_bytes, head.coding, head.record_bytes
        wanted = place.number, place.content_bytes, place.payload_bytes, place.coding, place.record_bytes
        if found != wanted or head.archive_id != self.archive_id or head.kind != RecordKind.GROUP:
            raise DamagedError(f"group {place.number} is not the one that the catalogue names")
        return head

    def table(self, number: int) -> list[Entry]:
        """Return the entries of a group with their digests; their pieces are those in this group.

        Raises:
            FormatError: the record is damaged.
        """
        place = self.catalogue.groups[number]
        return read_table(self._stream, place.offset, self.head(place), self._limits)

    def content(self, number: int) -> BinaryIO:
        """Return the content of a group as a stream that can seek; decoding happens as it is read.

        The check of the payload is compared first: a damaged one must not look like one that needs another model.

        Raises:
            FormatError: the record is damaged.
        """
        place = self.catalogue.groups[number]
        head = self.head(place)
        check_payload(self._stream, place.offset, head)
        return decode_payload(
            self._stream, payload_offset(place.offset, head), head, options=self._options, engines=self._engines
        )

    def check_payload(self, number: int) -> None:
        """Compare the check of a group's payload, without decoding it.

        Raises:
            FormatError: it differs.
        """
        place = self.catalogue.groups[number]
        check_payload(self._stream, place.offset, self.head(place))

    def _catalogue(self) -> Catalogue:
        trailer = self.trailer
        head = unpack_head(self.read_at(trailer.catalogue_offset, HEAD_BYTES))
        if head.kind != RecordKind.CATALOGUE or head.record_bytes != trailer.catalogue_bytes:
            raise DamagedError("there is no catalogue where the trailer says; repair may help")
        table = read_section(self._stream, trailer.catalogue_offset, head)
        return unpack_catalogue(table, trailer.catalogue_offset, self._limits)


def read_at(stream: BinaryIO, offset: int, size: int) -> bytes:
    """Return `size` bytes from `offset` on, fewer at the end."""
    stream.seek(offset)
    parts = []
    while size > 0 and (data := stream.read(size)):
        parts.append(data)
        size -= len(data)
    return b"".join(parts)


def find_trailer(stream: BinaryIO, file_bytes: int, archive_id: bytes) -> Trailer:
    """Return the last valid trailer: at the end, or before what an append has left unfinished.

    Raises:
        FormatError: there is none.
    """
    stop = file_bytes
    while stop >= HEADER_BYTES + TRAILER_BYTES:
        start = max(0, stop - _CHUNK)
        data = read_at(stream, start, stop - start)
        at = len(data)
        while (at := data.rfind(TRAILER_MARK, 0, at)) >= 0:
            end = start + at + len(TRAILER_MARK)
            trailer = _trailer_before(stream, end)
            if trailer is not None and trailer.archive_id == archive_id:
                return trailer
            at += len(TRAILER_MARK) - 1
        if not start:
            break
        stop = start + len(TRAILER_MARK) - 1
    raise TruncatedError("the archive has no trailer, or a damaged one; `speccompact archive repair` may help")


def _trailer_before(stream: BinaryIO, end: int) -> Trailer | None:
    try:
        trailer = unpack_trailer(read_at(stream, max(0, end - TRAILER_BYTES), TRAILER_BYTES))
    except FormatError:
        return None
    return trailer if trailer.archive_bytes == end else None


def read_section(stream: BinaryIO, offset: int, head: RecordHead) -> bytes:
    """Return the table section of a record, its check compared.

    Raises:
        FormatError: it is damaged, or the archive ends inside it.
    """
    start = offset + HEAD_BYTES
    end = stream.seek(0, io.SEEK_END)
    if start + head.table_bytes + CHECK_BYTES > end:
        raise TruncatedError(f"the archive ends inside the table of group {head.number}")
    data = read_at(stream, start, head.table_bytes + CHECK_BYTES)
    table, check = data[: head.table_bytes], data[head.table_bytes :]
    if sha_prefix(CHECK_BYTES, read_at(stream, offset, HEAD_BYTES), table) != check:
        raise DamagedError(f"the table of group {head.number} is damaged")
    return table


def read_table(stream: BinaryIO, offset: int, head: RecordHead, limits: ArchiveLimits) -> list[Entry]:
    """Return the entries of a group's record. Raises FormatError where it is damaged."""
    return unpack_table(read_section(stream, offset, head), head.content_bytes, head.number, limits)


def payload_offset(offset: int, head: RecordHead) -> int:
    """Return where the payload of a record is."""
    return offset + HEAD_BYTES + head.table_bytes + CHECK_BYTES


def check_payload(stream: BinaryIO, offset: int, head: RecordHead) -> None:
    """Compare the check of a record's payload.

    Raises:
        FormatError: it differs, or the archive ends before.
    """
    start = payload_offset(offset, head)
    if start + head.payload_bytes + CHECK_BYTES > stream.seek(0, io.SEEK_END):
        raise TruncatedError(f"the archive ends inside group {head.number}")
    payload = read_at(stream, start, head.payload_bytes)
    if sha_prefix(CHECK_BYTES, read_at(stream, offset, HEAD_BYTES), payload) != read_at(
        stream, start + head.payload_bytes, CHECK_BYTES
    ):
        raise DamagedError(f"the payload of group {head.number} is damaged")


def decode_payload(
    stream: BinaryIO, offset: int, head: RecordHead, *, options: Options, engines: Engines | None
) -> BinaryIO:
    """Return the content of a group as a stream that can seek.

    Raises:
        FormatError: the payload is damaged; for text perhaps only when it is read.
    """
    window = io.BufferedReader(Window(stream, offset, head.payload_bytes))
    if head.coding == Coding.TEXT:
        limits = Limits(output_bytes=head.content_bytes)
        return cast(BinaryIO, open_content(window, options=options, limits=limits, engines=engines))
    if head.coding == Coding.RAW:
        if head.payload_bytes != head.content_bytes:
            raise DamagedError(f"group {head.number} is stored as it is, but its sizes differ")
        return window
    if head.coding == Coding.NONE:
        return io.BytesIO()
    decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_GROUP_BYTES)
    payload = read_at(stream, offset, head.payload_bytes)
    try:
        if zstandard.frame_content_size(payload) != head.content_bytes:
            raise DamagedError(f"group {head.number} declares another size than its payload")
        return io.BytesIO(decompressor.decompress(payload, max_output_size=head.content_bytes))
    except zstandard.ZstdError as error:
        raise DamagedError(f"the payload of group {head.number} cannot be decoded ({error})") from None
