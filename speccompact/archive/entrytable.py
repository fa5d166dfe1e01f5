"""Entries as bytes, column by column: the inverse pair `pack_entries`, `unpack_entries`. ARCHIVE.md section 5.

A table that is unpacked is sound: types are known, sizes are not negative, pieces and segments add up to no more than
the entry stores. Whether a path is safe to create is for the extractor to ask.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise

from speccompact.archive.columns import (
    pack_blobs,
    pack_names,
    pack_numbers,
    pack_strings,
    unpack_blobs,
    unpack_names,
    unpack_numbers,
    unpack_strings,
)
from speccompact.archive.entries import DIGEST_BYTES, Entry, FileType, Piece
from speccompact.container.fields import Cursor, pack_varint
from speccompact.errors import DamagedError, LimitError

_WITH_DIGESTS = 1

_MAX_ID = (1 << 32) - 1
"""Number of an owner or group, at most: that of every system."""

_ROWS = 8  # segments, attributes or pieces of a table, at most, for each entry that the limit allows


def pack_entries(entries: Sequence[Entry], *, digests: bool) -> bytes:
    """Return a table.

    Args:
        entries: in the order that the table keeps; that of their pieces makes it smallest.
        digests: whether to store them.
    """
    columns = [
        pack_varint(len(entries)),
        bytes([_WITH_DIGESTS if digests else 0]),
        pack_strings([entry.path for entry in entries]),
        pack_numbers([entry.type for entry in entries]),
        pack_numbers([entry.mode for entry in entries]),
        *_split(entry.mtime_ns for entry in entries),
        pack_numbers([entry.uid for entry in entries]),
        pack_numbers([entry.gid for entry in entries]),
        pack_names([entry.user for entry in entries]),
        pack_names([entry.group_name for entry in entries]),
        pack_numbers([entry.size for entry in entries]),
        pack_strings([entry.link for entry in entries]),
        pack_numbers([entry.device for entry in entries]),
        _pack_segments(entries),
        _pack_xattrs(entries),
        _pack_pieces(entries),
    ]
    if digests:
        columns.append(b"".join(entry.digest for entry in entries if entry.pieces))
    return b"".join(columns)


def unpack_entries(cursor: Cursor, most: int) -> list[Entry]:
    """Return the entries of a table, the inverse of `pack_entries` (digests are empty where none are stored).

    Args:
        cursor: stands at the table.
        most: entries to accept.

    Raises:
        FormatError: the table is damaged.
        LimitError: it has more entries.
    """
    count = cursor.varint("entry count")
    if count > most:
        raise LimitError(f"the archive has {count} entries in one table; the limit is {most}")
    flags = cursor.byte("table flags")
    if flags & ~_WITH_DIGESTS:
        raise DamagedError(f"table flags are {flags}; only 0 and 1 are known")
    paths = unpack_strings(cursor, count, "path")
    types = _types(unpack_numbers(cursor, count, "type"))
    modes = unpack_numbers(cursor, count, "mode")
    times = _join(cursor, count)
    uids, gids = (unpack_numbers(cursor, count, field) for field in ("uid", "gid"))
    users, groups = (unpack_names(cursor, count, field) for field in ("user", "group"))
    sizes = unpack_numbers(cursor, count, "size")
    links = unpack_strings(cursor, count, "link")
    devices = unpack_numbers(cursor, count, "device")
    segments = _unpack_segments(cursor, count, most)
    xattrs = _unpack_xattrs(cursor, count, most)
    pieces = _unpack_pieces(cursor, sizes, segments, most)
    digests = [b""] * count
    if flags & _WITH_DIGESTS:
        digests = [cursor.take(DIGEST_BYTES, "digest") if own else b"" for own in pieces]
    rows = zip(
        paths, types, modes, times, uids, gids, users, groups, sizes, links, devices, digests, segments, xattrs, pieces,
        strict=True,
    )  # fmt: skip
    return [_checked(Entry(*row)) for row in rows]


def _checked(entry: Entry) -> Entry:
    """Return an entry whose numbers make sense."""
    if not 0 <= entry.mode < 1 << 12 or entry.size < 0 or not entry.path:
        raise DamagedError(f"entry {entry.path[:80]!r} has an impossible mode, size or path")
    if not (0 <= entry.uid <= _MAX_ID and 0 <= entry.gid <= _MAX_ID and entry.device >= 0):
        raise DamagedError(f"entry {entry.path[:80]!r} has an impossible owner, group or device")
    if entry.type != FileType.FILE and (entry.pieces or entry.size or entry.segments is not None):
        raise DamagedError(f"entry {entry.path[:80]!r} has content but is no file")
    if entry.segments is not None:
        ends = 0
        for offset, length in entry.segments:
            if offset < ends or length < 1:
                raise DamagedError(f"the segments of entry {entry.path[:80]!r} overlap")
            ends = offset + length
        if ends > entry.size:
            raise DamagedError(f"the segments of entry {entry.path[:80]!r} exceed its size")
    if any(after.group <= piece.group for piece, after in pairwise(entry.pieces)):
        raise DamagedError(f"the pieces of entry {entry.path[:80]!r} are not one for each of its groups, in order")
    if sum(piece.length for piece in entry.pieces) > entry.stored_bytes:
        raise DamagedError(f"entry {entry.path[:80]!r} has more pieces than bytes")
    return entry


def _types(numbers: list[int]) -> list[FileType]:
    try:
        return [_KNOWN[number] for number in numbers]
    except KeyError as error:
        raise DamagedError(f"type {error.args[0]} is unknown; a newer release may read it") from None


_KNOWN = {int(member): member for member in FileType}


def _split(times: Iterable[int]) -> tuple[bytes, bytes]:
    """Return seconds and nanoseconds: few files share a nanosecond, many a second."""
    both = [divmod(time, 1_000_000_000) for time in times]
    return pack_numbers([seconds for seconds, _ in both]), pack_numbers([rest for _, rest in both])


def _join(cursor: Cursor, count: int) -> list[int]:
    seconds = unpack_numbers(cursor, count, "seconds")
    rests = unpack_numbers(cursor, count, "nanoseconds")
    if rests and not 0 <= min(rests) <= max(rests) < 1_000_000_000:
        raise DamagedError('field "nanoseconds" exceeds a second')
    return [second * 1_000_000_000 + rest for second, rest in zip(seconds, rests, strict=True)]


def _pack_segments(entries: Sequence[Entry]) -> bytes:
    """Counts are one too many, so that 0 can say that a file has no holes."""
    counts = [0 if entry.segments is None else len(entry.segments) + 1 for entry in entries]
    flat = [segment for entry in entries for segment in entry.segments or ()]
    return pack_numbers(counts) + pack_numbers([s[0] for s in flat]) + pack_numbers([s[1] for s in flat])


def _unpack_segments(cursor: Cursor, count: int, most: int) -> list[tuple[tuple[int, int], ...] | None]:
    counts, stops = _counts(cursor, count, most, "segment count", extra=1)
    offsets = unpack_numbers(cursor, stops[-1], "segment offset")
    flat = list(zip(offsets, unpack_numbers(cursor, stops[-1], "segment length"), strict=True))
    return [tuple(flat[a:b]) if own else None for own, a, b in zip(counts, stops, stops[1:], strict=False)]


def _pack_xattrs(entries: Sequence[Entry]) -> bytes:
    flat = [pair for entry in entries for pair in entry.xattrs]
    counts = pack_numbers([len(entry.xattrs) for entry in entries])
    return counts + pack_names([name for name, _ in flat]) + pack_blobs([value for _, value in flat])


def _unpack_xattrs(cursor: Cursor, count: int, most: int) -> list[tuple[tuple[bytes, bytes], ...]]:
    _, stops = _counts(cursor, count, most, "attribute count")
    names = unpack_names(cursor, stops[-1], "attribute name")
    flat = list(zip(names, unpack_blobs(cursor, stops[-1], "attribute value"), strict=True))
    return [tuple(flat[a:b]) for a, b in pairwise(stops)]


def _pack_pieces(entries: Sequence[Entry]) -> bytes:
    """Numbers that are 0 for most: how far a piece is from the end of the one before, and what a last piece lacks."""
    flat = [piece for entry in entries for piece in entry.pieces]
    distances, end = [], (0, 0)
    for piece in flat:
        distances.append(piece.offset - (end[1] if piece.group == end[0] else 0))
        end = piece.group, piece.offset + piece.length
    lengths = []
    for entry in entries:
        if entry.pieces:
            own = [piece.length for piece in entry.pieces]
            lengths += [*own[:-1], entry.stored_bytes - sum(own)]
    return b"".join(map(pack_numbers, ([len(e.pieces) for e in entries], [p.group for p in flat], distances, lengths)))


def _unpack_pieces(
    cursor: Cursor, sizes: list[int], segments: list[tuple[tuple[int, int], ...] | None], most: int
) -> list[tuple[Piece, ...]]:
    _, stops = _counts(cursor, len(sizes), most, "piece count")
    groups, distances, lengths = (
        unpack_numbers(cursor, stops[-1], field) for field in ("piece group", "piece distance", "piece length")
    )
    found: list[tuple[Piece, ...]] = []
    before, end = 0, 0
    for size, holes, start, stop in zip(sizes, segments, stops, stops[1:], strict=False):
        left = size if holes is None else sum(length for _, length in holes)
        pieces = []
        for index in range(start, stop):
            offset = distances[index] + (end if groups[index] == before else 0)
            length = lengths[index] if index + 1 < stop else left - lengths[index]
            if length < 1 or offset < 0 or groups[index] < 0 or offset + length >= 1 << 63:
                raise DamagedError("a piece has an impossible place or length")
            pieces.append(Piece(groups[index], offset, length))
            before, end, left = groups[index], offset + length, left - length
        found.append(tuple(pieces))
    return found


def _counts(cursor: Cursor, count: int, most: int, field: str, extra: int = 0) -> tuple[list[int], list[int]]:
    """Return how many rows of another table each entry has, as stored, and where its own begin and end.

    Rows that all are equal take no room, so their number is compared with the limit before they are made.
    """
    counts = unpack_numbers(cursor, count, field)
    if counts and min(counts) < 0:
        raise DamagedError(f'field "{field}" is negative')
    stops = list(accumulate((max(0, own - extra) for own in counts), initial=0))
    if stops[-1] > _ROWS * most:
        raise LimitError(f'field "{field}" adds up to {stops[-1]}; the limit is {_ROWS * most}')
    return counts, stops
