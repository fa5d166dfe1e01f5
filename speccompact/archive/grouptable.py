"""The table of a group, asked about entries of the catalogue: what it says of them, with the digest."""

from collections.abc import Iterable

from speccompact.archive.entries import Entry, Piece


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
