"""An archive that is open for reading: its catalogue, the tables of its groups, and their content."""

import io
from types import TracebackType
from typing import BinaryIO, Self

from speccompact.archive.catalogue import Catalogue, GroupPlace, unpack_catalogue
from speccompact.archive.entries import Entry
from speccompact.archive.groupreading import GroupTable
from speccompact.archive.readoptions import ArchiveLimits
from speccompact.archive.recordreading import (
    check_payload,
    decode_payload,
    find_trailer,
    naming,
    open_payload,
    payload_offset,
    read_at,
    read_section,
    read_table,
)
from speccompact.archive.records import HEAD_BYTES, HEADER_BYTES, RecordHead, RecordKind, unpack_head, unpack_header
from speccompact.archive.storage import open_archive
from speccompact.errors import DamagedError
from speccompact.options import Options
from speccompact.streams.engine import Engines

_OPTIONS = Options()
_LIMITS = ArchiveLimits()
_REPAIR = "`speccompact archive repair` may help"


class ArchiveFile:
    """Use as a context manager.

    Attributes:
        location: of the archive, as it was given.
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
        self.location = location
        self._limits, self._options, self._engines = limits, options, engines
        self._stream = open_archive(location)
        try:
            with naming(location):
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
        with naming(f"group {place.number} at byte {place.offset}"):
            head = unpack_head(self.read_at(place.offset, HEAD_BYTES))
        found = head.number, head.content_bytes, head.payload_bytes, head.coding, head.record_bytes
        wanted = place.number, place.content_bytes, place.payload_bytes, place.coding, place.record_bytes
        if found != wanted or head.archive_id != self.archive_id or head.kind != RecordKind.GROUP:
            raise DamagedError(f"the group at byte {place.offset} is not group {place.number}, as the catalogue says")
        return head

    def table(self, number: int) -> GroupTable:
        """Return what a group says of its entries: their digests, and their pieces in this group.

        Raises:
            FormatError: the record is damaged.
        """
        place = self.catalogue.groups[number]
        return GroupTable(read_table(self._stream, place.offset, self.head(place), self._limits))

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

    def payload(self, number: int) -> BinaryIO:
        """Return the payload of a group as it is stored, as a stream that can seek. Its check is not compared.

        Raises:
            FormatError: the head of the record is damaged.
        """
        place = self.catalogue.groups[number]
        head = self.head(place)
        return open_payload(self._stream, payload_offset(place.offset, head), head)

    def check_payload(self, number: int) -> None:
        """Compare the check of a group's payload, without decoding it.

        Raises:
            FormatError: it differs.
        """
        place = self.catalogue.groups[number]
        check_payload(self._stream, place.offset, self.head(place))

    def _catalogue(self) -> Catalogue:
        trailer = self.trailer
        with naming(f"catalogue at byte {trailer.catalogue_offset} ({_REPAIR})"):
            head = unpack_head(self.read_at(trailer.catalogue_offset, HEAD_BYTES))
        found = head.kind, head.record_bytes, head.archive_id
        if found != (RecordKind.CATALOGUE, trailer.catalogue_bytes, self.archive_id):
            raise DamagedError(f"no catalogue is at byte {trailer.catalogue_offset}, as the trailer says; {_REPAIR}")
        with naming(f"catalogue at byte {trailer.catalogue_offset} ({_REPAIR})"):
            table = read_section(self._stream, trailer.catalogue_offset, head)
            return unpack_catalogue(table, trailer.catalogue_offset, self._limits)
