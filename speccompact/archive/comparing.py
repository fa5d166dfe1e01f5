"""A sample of an archive against xz and zstandard: the same content, as one file of each."""

import lzma
from collections.abc import Iterator
from dataclasses import dataclass

import zstandard

from speccompact.archive.archivefile import ArchiveFile
from speccompact.archive.catalogue import GroupPlace
from speccompact.archive.events import Event, Listener, silent
from speccompact.errors import DamagedError

_GOLDEN = 0.6180339887498949  # multiples of it, less their whole part, are spread evenly however many there are
_ZSTD_LEVEL = 19
_MIN_DICTIONARY = 1 << 12
_MAX_DICTIONARY = 1 << 26  # that of xz -9


@dataclass(frozen=True, slots=True)
class Comparison:
    """A sample in bytes.

    Attributes:
        groups: that were decoded.
        content_bytes: of them.
        archive_bytes: of their payloads.
        xz_bytes: of the content as xz -9e makes it.
        zstd_bytes: of the content as zstd -19 --long makes it.
    """

    groups: int
    content_bytes: int
    archive_bytes: int
    xz_bytes: int
    zstd_bytes: int


def compare(archive: ArchiveFile, most: int, listener: Listener = silent) -> Comparison | None:
    """Decode groups from all over an archive, and compress what they hold with xz and zstandard.

    Args:
        archive: open.
        most: bytes of content to take; one group at least, whatever its size. The other two see all of it as one
            file, which is to their advantage.
        listener: told which groups were decoded.

    Returns:
        Sizes, the same every time; None for an archive without content.

    Raises:
        FormatError: a group is damaged.
        ModelError: a model is needed and missing or damaged.
    """
    chosen = _chosen(archive, most)
    if not chosen:
        return None
    total, content = sum(place.content_bytes for place in chosen), bytearray()
    for place in chosen:
        with archive.content(place.number) as stream:
            own = stream.read()
        if len(own) != place.content_bytes:
            raise DamagedError(
                f"group {place.number} holds {len(own)} bytes, not the {place.content_bytes} it declares"
            )
        content += own
        listener(Event("group", {"number": place.number, "done": len(content), "total": total}))
    return Comparison(
        groups=len(chosen),
        content_bytes=len(content),
        archive_bytes=sum(place.payload_bytes for place in chosen),
        xz_bytes=len(_xz(content)),
        zstd_bytes=len(_zstd(content)),
    )


def _chosen(archive: ArchiveFile, most: int) -> list[GroupPlace]:
    places = sorted(archive.catalogue.groups.values(), key=lambda place: place.number)
    chosen: list[GroupPlace] = []
    room = most
    for place in _spread([place for place in places if place.content_bytes]):
        if place.content_bytes <= room or not chosen:
            chosen.append(place)
            room -= place.content_bytes
    return sorted(chosen, key=lambda place: place.number)


def _spread(places: list[GroupPlace]) -> Iterator[GroupPlace]:
    order = sorted(range(len(places)), key=lambda index: (index + 1) * _GOLDEN % 1)
    return (places[index] for index in order)


def _xz(content: bytearray) -> bytes:
    """A dictionary beyond the content would take memory and find nothing."""
    size = min(max(len(content), _MIN_DICTIONARY), _MAX_DICTIONARY)
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": size}]
    return lzma.compress(content, format=lzma.FORMAT_XZ, filters=filters)


def _zstd(content: bytearray) -> bytes:
    parameters = zstandard.ZstdCompressionParameters.from_level(
        _ZSTD_LEVEL, source_size=len(content), window_log=min(27, max(10, len(content).bit_length())), enable_ldm=True
    )
    return zstandard.ZstdCompressor(compression_params=parameters).compress(bytes(content))
