"""Tables of groups, one after the other, put together to the entries of an archive.

A hard link says a path, and means the file that was there when the link was archived. If a later generation replaces
that file and not the link, the link becomes the file, with the bytes of before.
"""

from collections.abc import Iterable

from speccompact.archive.entries import Entry, FileType, Loss

_BEFORE = -1  # generation of what an older catalogue says

Versions = list[tuple[int, Entry]]


class EntryMerger:
    """Later generations replace what earlier ones say of a path; within one, pieces of a file are joined."""

    def __init__(self, before: Iterable[Entry] = ()) -> None:
        """Begin with the entries of an older catalogue."""
        self._found: dict[bytes, tuple[int, Entry]] = {entry.path: (_BEFORE, entry) for entry in before}
        self._replaced: dict[bytes, Versions] = {}

    def __len__(self) -> int:
        """Return how many paths there are so far."""
        return len(self._found)

    def add(self, generation: int, table: Iterable[Entry]) -> None:
        """Add the table of a group; groups come in order."""
        for entry in table:
            known = self._found.get(entry.path)
            if known is not None and known[0] == generation:
                entry = entry._replace(pieces=known[1].pieces + entry.pieces)
            elif known is not None:
                self._replaced.setdefault(entry.path, []).append(known)
            self._found[entry.path] = generation, entry

    def result(self) -> tuple[dict[bytes, Entry], list[Loss]]:
        """Return the entries, and what cannot be restored: files that lack a piece, and hard links to nothing."""
        found = {path: entry for path, (_, entry) in self._found.items()} | self._heirs()
        entries = {path: entry for path, entry in found.items() if entry.complete}
        lost = [(path, "a part of it is missing") for path in found if path not in entries]
        for path, entry in list(entries.items()):
            target = entries.get(entry.link)
            if entry.type == FileType.HARDLINK and (target is None or target.type != FileType.FILE):
                del entries[path]
                lost.append((path, "the file that it is a hard link to is missing"))
        return entries, lost

    def _heirs(self) -> dict[bytes, Entry]:
        """Return what hard links become whose file was replaced after them: the first is the file, the rest link it."""
        heirs: dict[bytes, Entry] = {}
        firsts: dict[tuple[bytes, int], bytes] = {}
        for path in sorted(self._replaced_links()):
            generation, link = self._found[path]
            before = [version for version in self._replaced.get(link.link, []) if version[0] <= generation]
            if not before or before[-1][1].type != FileType.FILE:
                heirs[path] = link._replace(link=b"")  # to nothing
                continue
            first = firsts.setdefault((link.link, before[-1][0]), path)
            heirs[path] = before[-1][1]._replace(path=path) if first == path else link._replace(link=first)
        return heirs

    def _replaced_links(self) -> Iterable[bytes]:
        for path, (generation, entry) in self._found.items():
            if entry.type == FileType.HARDLINK and self._found.get(entry.link, (_BEFORE,))[0] > generation:
                yield path
