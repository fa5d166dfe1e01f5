"""One file of an archive as bytes, without decoding the rest."""

import hashlib
import os
from collections.abc import Callable, Iterator

from speccompact.archive.archivefile import ArchiveFile
from speccompact.archive.entries import DIGEST_BYTES, Entry, FileType
from speccompact.archive.groupreading import PieceReader
from speccompact.archive.recordreading import naming
from speccompact.errors import ArgumentError, DamagedError

_CHUNK = 1 << 18


def find_file(archive: ArchiveFile, path: bytes) -> Entry:
    """Return the entry of a file; of a hard link, that of the file that it is.

    Raises:
        ArgumentError: the path is something else than a file.
        FileNotFoundError: it is not in the archive.
    """
    entry = archive.entries.get(path.strip(b"/"))
    if entry is not None and entry.type == FileType.HARDLINK:
        entry = archive.entries.get(entry.link)
    if entry is None:
        raise FileNotFoundError(2, "is not in the archive", path)
    if entry.type != FileType.FILE:
        raise ArgumentError(f"{path!r} is a {entry.type.name.lower()}, not a file")
    return entry


def read_file(archive: ArchiveFile, path: bytes, decoded: Callable[[int], None] | None = None) -> Iterator[bytes]:
    """Yield the content of a file in chunks, holes as zeros; the last chunk comes only if the digest is right.

    Args:
        archive: open.
        path: of the entry.
        decoded: called with the number of each group that has to be decoded.

    Raises:
        ArgumentError, FileNotFoundError: see `find_file`.
        FormatError: a group that holds some of it is damaged.
        ModelError: a model is needed and missing or damaged.
    """
    entry = find_file(archive, path)
    with naming(f"{archive.location}: {os.fsdecode(path)}"):
        yield from _content(archive, entry, decoded)


def _content(archive: ArchiveFile, entry: Entry, decoded: Callable[[int], None] | None) -> Iterator[bytes]:
    """Yield the content of an entry; see `read_file`."""
    spans = list(entry.segments) if entry.segments is not None else [(0, entry.size)]
    stored = _stored(archive, entry, decoded)
    at, held = 0, b""
    for offset, length in spans:
        yield from _zeros(offset - at)
        at = offset
        while length:
            held = held or next(stored)
            piece, held = held[:length], held[length:]
            yield piece
            length -= len(piece)
            at += len(piece)
    for _ in stored:  # compares the digest
        raise DamagedError("there are more bytes than its entry says")
    yield from _zeros(entry.size - at)


def _stored(archive: ArchiveFile, entry: Entry, decoded: Callable[[int], None] | None) -> Iterator[bytes]:
    """Yield the stored bytes, each chunk when the next is known to follow, the last after the digest was compared."""
    digest, held = hashlib.sha256(), b""
    wanted = b""
    for piece in entry.pieces:
        wanted = archive.table(piece.group).digest(entry)
        if decoded is not None:
            decoded(piece.group)
        with archive.content(piece.group) as content:
            for data in PieceReader(content, [piece]).read(piece):
                digest.update(data)
                if held:
                    yield held
                held = data
    if digest.digest()[:DIGEST_BYTES] != wanted and entry.pieces:
        raise DamagedError("its bytes do not have the digest that the archive says")
    if held:
        yield held


def _zeros(count: int) -> Iterator[bytes]:
    while count > 0:
        yield bytes(min(count, _CHUNK))
        count -= _CHUNK
