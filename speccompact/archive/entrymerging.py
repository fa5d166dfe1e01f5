"""Tables of groups, one after the other, put together to the entries of an archive."""

from collections.abc import Iterable

from speccompact.archive.entries import Entry, FileType


class EntryMerger:
    """Later generations replace what earlier ones say of a path; within one, pieces of a file are joined."""

    def __init__(self, before: Iterable[Entry] = ()) -> None:
        """Begin with the entries of an older catalogue."""
        self._found: dict[bytes, tuple[int, Entry]] = {entry.path: (-1, entry) for entry in before}

    def add(self, generation: int, table: Iterable[Entry]) -> None:
        """Add the table of a group; groups come in order."""
        for entry in table:
            known = self._found.get(entry.path)
            if known is not None and known[0] == generation:
                entry = entry._replace(pieces=known[1].pieces + entry.pieces)
            self._found[entry.path] = generation, entry

    def result(self) -> tuple[dict[bytes, Entry], list[tuple[bytes, str]]]:
        """Return the entries, and what cannot be restored: files that lack a piece, and hard links to nothing."""
        entries = {path: entry for path, (_, entry) in self._found.items() if entry.complete}
        lost = [(path, "a part of it is missing") for path, (_, entry) in self._found.items() if not entry.complete]
        for path, entry in list(entries.items()):
            target = entries.get(entry.link)
            if entry.type == FileType.HARDLINK and (target is None or target.type != FileType.FILE):
                del entries[path]
                lost.append((path, "the file that it is a hard link to is missing"))
        return entries, lost
