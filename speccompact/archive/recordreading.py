"""Records as they lie in an archive: where it ends, and their tables and payloads, every check compared."""

import hashlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

import zstandard

from speccompact.api import open as open_content
from speccompact.archive.catalogue import unpack_table
from speccompact.archive.entries import Entry
from speccompact.archive.readoptions import ArchiveLimits
from speccompact.archive.records import (
    CHECK_BYTES,
    HEAD_BYTES,
    HEADER_BYTES,
    MAX_GROUP_BYTES,
    TRAILER_BYTES,
    TRAILER_MARK,
    Coding,
    RecordHead,
    Trailer,
    unpack_trailer,
)
from speccompact.archive.storage import Window
from speccompact.container.format import sha_prefix
from speccompact.container.limits import Limits
from speccompact.errors import DamagedError, FormatError, LimitError, TruncatedError
from speccompact.options import Options
from speccompact.streams.engine import Engines

_CHUNK = 1 << 20
_OVERHEAD = 1 << 10  # bytes of a frame of zstandard beside its content


@contextmanager
def naming(what: str) -> Iterator[None]:
    """Let an error of the format or of a limit say what it is about."""
    try:
        yield
    except (FormatError, LimitError) as error:
        raise type(error)(f"{what}: {error}") from None


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
            stop_at = at + len(TRAILER_MARK)
            trailer = _trailer_before(stream, data[max(0, stop_at - TRAILER_BYTES) : stop_at], start + stop_at)
            if trailer is not None and trailer.archive_id == archive_id:
                return trailer
            at += len(TRAILER_MARK) - 1
        if not start:
            break
        stop = start + len(TRAILER_MARK) - 1
    raise TruncatedError("the archive has no trailer, or a damaged one; `speccompact archive repair` may help")


def _trailer_before(stream: BinaryIO, data: bytes, end: int) -> Trailer | None:
    """Return the trailer that ends at `end`; `data` is it, or as much of its end as has been read."""
    try:
        if len(data) < TRAILER_BYTES:
            data = read_at(stream, max(0, end - TRAILER_BYTES), TRAILER_BYTES)
        if int.from_bytes(data[16:24], "little") != end:  # cheaper than its check: a hostile file may be full of marks
            return None
        trailer = unpack_trailer(data)
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
        raise TruncatedError(f"the archive ends at byte {end}, inside the table of group {head.number}")
    data = read_at(stream, start, head.table_bytes + CHECK_BYTES)
    table, check = data[: head.table_bytes], data[head.table_bytes :]
    if sha_prefix(CHECK_BYTES, read_at(stream, offset, HEAD_BYTES), table) != check:
        raise DamagedError(f"the table of group {head.number} at byte {start} is damaged")
    return table


def read_table(stream: BinaryIO, offset: int, head: RecordHead, limits: ArchiveLimits) -> list[Entry]:
    """Return the entries of a group's record. Raises FormatError where it is damaged."""
    table = read_section(stream, offset, head)
    with naming(f"table of group {head.number} at byte {offset + HEAD_BYTES}"):
        return unpack_table(table, head.content_bytes, head.number, limits)


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
    found = hashlib.sha256(read_at(stream, offset, HEAD_BYTES))
    for at in range(0, head.payload_bytes, _CHUNK):
        found.update(read_at(stream, start + at, min(_CHUNK, head.payload_bytes - at)))
    if found.digest()[:CHECK_BYTES] != read_at(stream, start + head.payload_bytes, CHECK_BYTES):
        raise DamagedError(f"the payload of group {head.number} at byte {start} is damaged")


def open_payload(stream: BinaryIO, offset: int, head: RecordHead) -> BinaryIO:
    """Return the payload of a record, as it is stored, as a stream that can seek."""
    return cast(BinaryIO, io.BufferedReader(Window(stream, offset, head.payload_bytes)))


def decode_payload(
    stream: BinaryIO, offset: int, head: RecordHead, *, options: Options, engines: Engines | None
) -> BinaryIO:
    """Return the content of a group as a stream that can seek.

    Raises:
        FormatError: the payload is damaged; for text perhaps only when it is read.
    """
    window = open_payload(stream, offset, head)
    if head.coding == Coding.TEXT:
        limits = Limits(output_bytes=head.content_bytes)
        return cast(BinaryIO, open_content(window, options=options, limits=limits, engines=engines))
    if head.coding == Coding.RAW:
        if head.payload_bytes != head.content_bytes:
            raise DamagedError(f"group {head.number} is stored as it is, but its sizes differ")
        return window
    if head.coding == Coding.NONE:
        return io.BytesIO()
    if head.payload_bytes > head.content_bytes + (head.content_bytes >> 8) + _OVERHEAD:
        raise DamagedError(f"the payload of group {head.number} is longer than zstandard makes one of its content")
    decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_GROUP_BYTES)
    payload = read_at(stream, offset, head.payload_bytes)
    try:
        if zstandard.frame_content_size(payload) != head.content_bytes:
            raise DamagedError(f"group {head.number} declares another size than its payload")
        return io.BytesIO(decompressor.decompress(payload, max_output_size=head.content_bytes))
    except zstandard.ZstdError as error:
        raise DamagedError(f"the payload of group {head.number} cannot be decoded ({error})") from None
