"""Which bytes go into which group, and in what order: a function of what was found, and of nothing else."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from speccompact.archive.content import Content
from speccompact.archive.entries import DIGEST_BYTES, Entry, FileType, Piece
from speccompact.archive.records import MAX_GROUP_BYTES, Coding
from speccompact.archive.similarity import alike_order
from speccompact.archive.treewalk import Found
from speccompact.params import CodecParams

BUNDLE_BYTES = 1 << 25
"""Content of a group that is not text, at most: as far as zstandard looks back."""

_BYTES_PER_TOKEN = 4
_FRAMES_WITHOUT_MEMORY = 16  # of a group whose slots share nothing
_ENTRIES = 1 << 16  # of a group that has nothing else


@dataclass(frozen=True, slots=True)
class PlannedPiece:
    """Stored bytes of a file that a group shall hold.

    Attributes:
        locations: where they are: the file of each entry.
        start: of the stored bytes of the file.
        length: how many.
        digest: their SHA-256, 32 bytes.
        entries: all entries with these bytes; the file of the first is read, that of the next if it has changed.
    """

    locations: tuple[str, ...]
    start: int
    length: int
    digest: bytes
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """One group: its pieces in order, or entries without content."""

    number: int
    coding: Coding
    pieces: tuple[PlannedPiece, ...] = ()
    bare: tuple[Entry, ...] = ()

    @property
    def content_bytes(self) -> int:
        """Bytes of all pieces."""
        return sum(piece.length for piece in self.pieces)


def text_group_bytes(params: CodecParams) -> int:
    """Return how many bytes of text make a group: about what the memory of the level holds."""
    frames = params.group_frames or _FRAMES_WITHOUT_MEMORY
    return min(params.slot_tokens * params.frame_slots * frames * _BYTES_PER_TOKEN, MAX_GROUP_BYTES)


def plan_groups(found: Sequence[tuple[Found, Content | None]], first: int) -> Iterator[PlannedGroup]:
    """Yield the groups for what was found.

    Entries without content come first; then text by extension, what is alike next to each other, then the rest. Equal
    bytes are stored once. A file is cut only if it is longer than a group.

    Args:
        found: entries with what is known of their bytes; None where they have none.
        first: number of the first group.
    """
    bare = sorted((item.entry for item, content in found if content is None), key=lambda entry: entry.path)
    for at in range(0, len(bare), _ENTRIES):
        yield PlannedGroup(first, Coding.NONE, bare=tuple(bare[at : at + _ENTRIES]))
        first += 1
    for coding, text in ((Coding.TEXT, True), (Coding.ZSTD, False)):
        files = [(item, content) for item, content in found if content is not None and content.text == text]
        for group in _filled(_ordered(_merged(files)), coding, first):
            yield group
            first = group.number + 1


@dataclass(slots=True)
class _Stored:
    """Bytes that are stored once, and all entries that have them."""

    content: Content
    locations: list[str]
    entries: list[Entry]


def _merged(files: Iterable[tuple[Found, Content]]) -> list[_Stored]:
    by_digest: dict[tuple[bytes, int], _Stored] = {}
    for item, content in sorted(files, key=lambda pair: pair[0].entry.path):
        entry = item.entry._replace(digest=content.digest[:DIGEST_BYTES])
        key = content.digest, entry.stored_bytes
        one = by_digest.setdefault(key, _Stored(content, [], []))
        one.locations.append(item.location)
        one.entries.append(entry)
    return list(by_digest.values())


def _ordered(stored: list[_Stored]) -> Iterator[_Stored]:
    kinds: dict[bytes, list[_Stored]] = {}
    for one in stored:
        kinds.setdefault(extension(one.entries[0].path), []).append(one)
    for _, members in sorted(kinds.items()):
        order = alike_order([one.entries[0].path for one in members], [one.content.signature for one in members])
        yield from (members[number] for number in order)


def extension(path: bytes) -> bytes:
    """Return what follows the last dot of a name, in lower case; nothing for names that have none or begin with it."""
    stem, dot, end = path.rpartition(b"/")[2].rpartition(b".")
    return end.lower() if dot and stem else b""


def _filled(stored: Iterable[_Stored], coding: Coding, number: int) -> Iterator[PlannedGroup]:
    pieces: list[PlannedPiece] = []
    used = 0
    for one in stored:
        size, room = one.entries[0].stored_bytes, one.content.piece_bytes
        start = 0
        for digest in one.content.pieces:
            length = min(room, size - start)
            if used + length > room and pieces:
                yield PlannedGroup(number, coding, tuple(pieces))
                number, pieces, used = number + 1, [], 0
            entries = tuple(entry._replace(pieces=(Piece(number, used, length),)) for entry in one.entries)
            pieces.append(PlannedPiece(tuple(one.locations), start, length, digest, entries))
            used += length
            start += length
    if pieces:
        yield PlannedGroup(number, coding, tuple(pieces))


def has_content(entry: Entry) -> bool:
    """Return whether an entry has bytes to store."""
    return entry.type == FileType.FILE and entry.stored_bytes > 0
