"""Pieces of one group, one after the other. One that several files share is kept until the next: it is decoded once."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import BinaryIO

from speccompact.archive.entries import Piece
from speccompact.errors import DamagedError

_CHUNK = 1 << 18


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
