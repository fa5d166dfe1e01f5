"""One group while it is read: what its table says of entries of the catalogue, and its pieces, each decoded once."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import BinaryIO

from speccompact.archive.entries import Entry, Piece
from speccompact.errors import DamagedError

_CHUNK = 1 << 18


class GroupTable:
    """Entries of one group, by path. One whose path the table does not have is known by its piece: it has become the
    file that it was a hard link to.
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._by_path = {entry.path: entry for entry in entries}
        self._by_piece: dict[Piece, Entry] = {}
        for entry in self._by_path.values():
            for piece in entry.pieces:
                self._by_piece.setdefault(piece, entry)

    def find(self, entry: Entry) -> Entry | None:
        """Return what the table says of an entry of the catalogue."""
        if entry.path in self._by_path:
            return self._by_path[entry.path]
        return next((self._by_piece[piece] for piece in entry.pieces if piece in self._by_piece), None)

    def digest(self, entry: Entry) -> bytes:
        """Return the digest of an entry of the catalogue; empty, and so of no bytes, if the table does not know it."""
        own = self.find(entry)
        return own.digest if own is not None else b""


class PieceReader:
    """Reads pieces of the content of a group.

    Memory: a piece that is shared, that is a group's content at most.

    Args:
        content: of the group.
        pieces: all that will be asked for, in that order.
    """

    def __init__(self, content: BinaryIO, pieces: Iterable[Piece]) -> None:
        self._content = content
        self._shared = {piece for piece, after in pairwise(pieces) if piece == after}
        self._kept: tuple[Piece | None, bytes] = None, b""

    def read(self, piece: Piece) -> Iterator[bytes]:
        """Yield the bytes of a piece in chunks.

        Raises:
            DamagedError: the group ends before they do.
        """
        if piece not in self._shared:
            yield from self._decoded(piece)
            return
        if self._kept[0] != piece:
            self._kept = None, b""
            self._kept = piece, b"".join(self._decoded(piece))
        data = self._kept[1]
        yield from (data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK))

    def _decoded(self, piece: Piece) -> Iterator[bytes]:
        self._content.seek(piece.offset)
        left = piece.length
        while left:
            data = self._content.read(min(left, _CHUNK))
            if not data:
                raise DamagedError(f"group {piece.group} ends at byte {piece.offset + piece.length - left}, too early")
            left -= len(data)
            yield data
