"""The stored bytes of files: reading them, and what has to be known of them before they are put into groups."""

import hashlib
import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from speccompact.archive.entries import DIGEST_BYTES, Entry
from speccompact.archive.similarity import HEAD_BYTES, signature
from speccompact.archive.storage import is_remote, open_read
from speccompact.archive.stores import remote_status
from speccompact.text.runs import BINARY, find_runs

CHANGED = "changed while the archive was made"
"""Why a file is left out that is not what it was when it was looked at."""

_CHUNK = 1 << 20
_MIN_TEXT = 0.5  # of the head of a file, for it to be put among texts


@dataclass(frozen=True, slots=True)
class Content:
    """What is known of the stored bytes of a file.

    Attributes:
        digest: SHA-256 of all of them (32 bytes).
        text: whether the model is to see them.
        signature: of texts, to find those that are alike.
        pieces: SHA-256 of each run of `piece_bytes` of them.
        piece_bytes: how long those are; the last one is shorter.
    """

    digest: bytes
    text: bool
    signature: tuple[int, ...]
    pieces: tuple[bytes, ...]
    piece_bytes: int


def read_stored(stream: BinaryIO, entry: Entry, start: int, size: int) -> Iterator[bytes]:
    """Yield stored bytes [start, start + size) of a file in chunks; fewer if it is shorter than its entry says."""
    for offset, length in entry.segments or ((0, entry.stored_bytes),):
        skipped = min(start, length)
        start -= skipped
        offset, left = offset + skipped, min(length - skipped, size)
        size -= left
        stream.seek(offset)
        while left > 0:
            chunk = stream.read(min(left, _CHUNK))
            if not chunk:
                return
            left -= len(chunk)
            yield chunk


def stored_digest(stream: BinaryIO, entry: Entry) -> bytes:
    """Return the digest of the stored bytes of an entry, as its archive keeps it."""
    found = hashlib.sha256()
    for chunk in read_stored(stream, entry, 0, entry.stored_bytes):
        found.update(chunk)
    return found.digest()[:DIGEST_BYTES]


def examine(location: str, entry: Entry, text_piece: int, other_piece: int) -> Content:
    """Read a file and return what is known of it.

    Args:
        location: where it is.
        entry: what the walk has found.
        text_piece, other_piece: bytes of the runs that are to have digests of their own, for text and for the rest.

    Raises:
        OSError: it cannot be read, or is shorter than its entry says.
    """
    with open_read(location) as stream:
        head = b"".join(read_stored(stream, entry, 0, min(HEAD_BYTES, entry.stored_bytes)))
        text = is_text(head)
        piece_bytes = text_piece if text else other_piece
        whole, pieces, done = hashlib.sha256(), [], 0
        while done < entry.stored_bytes:
            size = min(piece_bytes, entry.stored_bytes - done)
            own, taken = hashlib.sha256(), 0
            for chunk in read_stored(stream, entry, done, size):
                own.update(chunk)
                whole.update(chunk)
                taken += len(chunk)
            if taken != size:
                raise OSError(None, "became shorter while it was read", location)
            pieces.append(own.digest())
            done += size
    return Content(whole.digest(), text, signature(head) if text else (), tuple(pieces), piece_bytes)


def is_text(head: bytes) -> bool:
    """Return whether the beginning of a file is text, by the verdict that compressing would come to."""
    binary = sum(run.stop - run.start for run in find_runs(head) if run.kind == BINARY)
    return binary <= len(head) * (1 - _MIN_TEXT)


def unchanged(location: str, entry: Entry) -> bool:
    """Return whether a file has the size and time of its entry."""
    if is_remote(location):
        return remote_status(location) == (entry.size, entry.mtime_ns)
    status = os.lstat(location)
    return (status.st_size, status.st_mtime_ns) == (entry.size, entry.mtime_ns)


def read_piece(location: str, entry: Entry, start: int, size: int, digest: bytes) -> bytes | None:
    """Return stored bytes [start, start + size) if they have this SHA-256, else None.

    Raises:
        OSError: they cannot be read.
    """
    with open_read(location) as stream:
        taken = io.BytesIO()
        for chunk in read_stored(stream, entry, start, size):
            taken.write(chunk)
    data = taken.getvalue()
    return data if hashlib.sha256(data).digest() == digest else None
