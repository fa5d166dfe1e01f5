"""What an archive holds, in numbers: sizes by kind of file, the largest and the worst compressed, when they changed.

Files of one group are compressed together, so that what one of them takes is an estimate: a frame of text, or a group
of other files, is divided among its files by their bytes. Nothing is decoded.
"""

import heapq
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate

from speccompact.archive.archivefile import ArchiveFile
from speccompact.archive.catalogue import GroupPlace
from speccompact.archive.entries import Entry, FileType, Piece
from speccompact.archive.planning import extension
from speccompact.archive.records import Coding
from speccompact.container.limits import Limits
from speccompact.streams.inspecting import inspect_file

LISTED = 10
"""Files of a list, at most."""

MIN_WORST = 1000
"""Stored bytes of a file whose bits for each byte say something."""


@dataclass(slots=True)
class Holding:
    """What files have in common that are counted together; also a file alone.

    Attributes:
        name: of the kind (its extension in lower case, empty without one) or of the file.
        files: how many.
        content_bytes: of them, holes and repetitions included.
        stored_bytes: of those, what had to be stored; equal bytes count for the first path only.
        text_bytes: of those, what the model has seen.
        archive_bytes: what the stored bytes take, estimated.
    """

    name: bytes
    files: int = 0
    content_bytes: int = 0
    stored_bytes: int = 0
    text_bytes: int = 0
    archive_bytes: float = 0.0

    @property
    def bpb(self) -> float:
        """Bits for each stored byte; 0 without any."""
        return 8 * self.archive_bytes / self.stored_bytes if self.stored_bytes else 0.0

    @property
    def is_text(self) -> bool:
        """Whether the model has seen at least half of what is stored."""
        return 2 * self.text_bytes >= max(self.stored_bytes, 1)

    def add(self, other: "Holding") -> None:
        """Count something else in."""
        self.files += other.files
        self.content_bytes += other.content_bytes
        self.stored_bytes += other.stored_bytes
        self.text_bytes += other.text_bytes
        self.archive_bytes += other.archive_bytes


@dataclass(frozen=True, slots=True)
class Holdings:
    """An archive in numbers.

    Attributes:
        whole: all files; `archive_bytes` are those of the archive, everything counted.
        types: how many entries of each type there are.
        payload_bytes: of all groups, without names and checks.
        replaced_bytes: content of groups that no entry has any more: what appends have replaced.
        groups: how many.
        appends: how often something was added.
        kinds: files by extension, the largest content first.
        largest: files of the largest content.
        worst: files of 1000 stored bytes or more that take the most bits for each.
        years: content bytes by the year of the last change, ascending; years that no calendar knows are left out.
    """

    whole: Holding
    types: Counter[FileType]
    payload_bytes: int
    replaced_bytes: int
    groups: int
    appends: int
    kinds: tuple[Holding, ...]
    largest: tuple[Holding, ...]
    worst: tuple[Holding, ...]
    years: tuple[tuple[int, int], ...]


def survey(archive: ArchiveFile) -> Holdings:
    """Return what an archive holds.

    Raises:
        FormatError: the structure of a group is damaged.
    """
    account = _Account(archive)
    files = [
        account.charge(entry)
        for _, entry in sorted(archive.entries.items())  # the first of several with equal bytes pays for them
        if entry.type == FileType.FILE
    ]
    kinds: dict[bytes, Holding] = {}
    for file in files:
        name = extension(file.name)
        kinds.setdefault(name, Holding(name)).add(file)
    whole = Holding(b"")
    for kind in kinds.values():
        whole.add(kind)
    whole.archive_bytes = archive.trailer.archive_bytes
    places = archive.catalogue.groups.values()
    return Holdings(
        whole=whole,
        types=Counter(entry.type for entry in archive.entries.values()),
        payload_bytes=sum(place.payload_bytes for place in places),
        replaced_bytes=max(0, sum(place.content_bytes for place in places) - whole.stored_bytes),
        groups=len(places),
        appends=archive.trailer.generation,
        kinds=tuple(sorted(kinds.values(), key=lambda kind: (-kind.content_bytes, kind.name))),
        largest=_first(files, lambda file: file.content_bytes),
        worst=_first([file for file in files if file.stored_bytes >= MIN_WORST], lambda file: file.bpb),
        years=_years(archive.entries.values()),
    )


class _Account:
    """What each file takes of the groups that it is in; a piece is paid for once."""

    def __init__(self, archive: ArchiveFile) -> None:
        self._archive = archive
        self._groups: dict[int, tuple[list[int], list[float]]] = {}
        self._paid: set[Piece] = set()

    def charge(self, entry: Entry) -> Holding:
        """Return what a file takes."""
        own = Holding(entry.path, files=1, content_bytes=entry.size)
        for piece in entry.pieces:
            if piece in self._paid:
                continue
            self._paid.add(piece)
            own.stored_bytes += piece.length
            place = self._archive.catalogue.groups[piece.group]
            if place.coding == Coding.TEXT:
                own.text_bytes += piece.length
            if piece.group not in self._groups:
                self._groups[piece.group] = _prices(self._archive, place)
            starts, sums = self._groups[piece.group]
            own.archive_bytes += _at(piece.offset + piece.length, starts, sums) - _at(piece.offset, starts, sums)
        return own


def _prices(archive: ArchiveFile, place: GroupPlace) -> tuple[list[int], list[float]]:
    """Return places in the content of a group and how much of its payload has gone up to each.

    The frames' own bytes give the proportions; what belongs to none of them (header, index) is spread over all.
    """
    if place.coding != Coding.TEXT:
        return [0, place.content_bytes], [0.0, float(place.payload_bytes)]
    with archive.payload(place.number) as payload:
        frames = inspect_file(payload, Limits(output_bytes=place.content_bytes)).frames
    sizes = list(accumulate((frame.compressed_bytes for frame in frames), initial=0))
    scale = place.payload_bytes / max(sizes[-1], 1)
    starts = list(accumulate((frame.content_bytes for frame in frames), initial=0))
    return starts, [size * scale for size in sizes]


def _at(offset: int, starts: list[int], sums: list[float]) -> float:
    """Return the sum at a place, in a straight line between the two that are known."""
    after = min(max(bisect_right(starts, offset), 1), len(starts) - 1)
    width = starts[after] - starts[after - 1]
    share = min((offset - starts[after - 1]) / width, 1.0) if width else 0.0
    return sums[after - 1] + share * (sums[after] - sums[after - 1])


def _first(files: list[Holding], key: Callable[[Holding], float]) -> tuple[Holding, ...]:
    return tuple(heapq.nsmallest(LISTED, (file for file in files if key(file)), lambda file: (-key(file), file.name)))


def _years(entries: Iterable[Entry]) -> tuple[tuple[int, int], ...]:
    found: Counter[int] = Counter()
    for entry in entries:
        if entry.type == FileType.FILE:
            with suppress(OverflowError, ValueError, OSError):  # a time that no calendar knows
                found[time.gmtime(entry.mtime_ns // 1_000_000_000).tm_year] += entry.size
    return tuple(sorted(found.items()))
