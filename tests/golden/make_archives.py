"""Makes the golden archives of files: `python -m tests.golden.make_archives`, from the root of the tree.

NAME.spca has beside it NAME.json, which says of each of its paths what must come back. Files that exist are kept: what
was ever released is read for ever, so a new version of the format adds files and changes none.
"""

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from speccompact.archive.appending import append
from speccompact.archive.archivefile import ArchiveFile
from speccompact.archive.creating import create
from speccompact.archive.entries import Entry, FileType
from speccompact.archive.groupexecutors import LocalExecutor
from speccompact.archive.pathreading import read_file
from speccompact.archive.request import Request
from speccompact.options import Options
from tests.archive_trees import MOMENT
from tests.tiny_model import GOLDEN, TINY_EXACT, integers
from tests.tiny_text import GERMAN, READING, STORY

ARCHIVES = GOLDEN / "archives"
EXECUTOR = LocalExecutor(Options(threads=1))


def make_tree(root: Path) -> None:
    """Make text that shares groups, the same twice, noise, a hole, links and names of all sorts; all times fixed."""
    (root / "docs" / "deep").mkdir(parents=True)
    (root / "none").mkdir()
    (root / "docs" / "reading.txt").write_text(READING)
    (root / "docs" / "story.txt").write_text(STORY)
    (root / "docs" / "copy.md").write_text(STORY)
    (root / "docs" / "deep" / "Größe \n.txt").write_text(GERMAN)
    source = integers(9)
    (root / "noise.bin").write_bytes(bytes(next(source) >> 8 for _ in range(900)))
    (root / "zeros.dat").write_bytes(bytes(3000))
    (root / "empty").touch(0o640)
    (root / "link").symlink_to("docs/story.txt")
    os.link(root / "docs" / "story.txt", root / "twin")
    Path(os.fsdecode(os.fsencode(root) + b"/bytes\xff")).write_bytes(STORY[:300].encode())
    with open(root / "holes", "wb") as sparse:
        sparse.seek(1 << 17)
        sparse.write(b"island")
        sparse.truncate(1 << 18)
    for folder, names, files in os.walk(os.fsencode(root), topdown=False):
        for name in [*names, *files, b""]:
            os.utime(os.path.join(folder, name), ns=(MOMENT, MOMENT), follow_symlinks=False)


def described(archive: ArchiveFile, entry: Entry) -> dict[str, Any]:
    """Return what has to come back of an entry: all that does not depend on who made the archive."""
    facts: dict[str, Any] = {
        "type": entry.type.name,
        "mode": oct(entry.mode),
        "mtime_ns": entry.mtime_ns,
        "size": entry.size,
        "link": os.fsdecode(entry.link),
    }
    if entry.type == FileType.FILE:
        facts["sha256"] = hashlib.sha256(b"".join(read_file(archive, entry.path))).hexdigest()
    return facts


def describe(path: Path, options: Options) -> dict[str, dict[str, Any]]:
    """Return what an archive holds, by path."""
    with ArchiveFile(str(path), options=options) as archive:
        return {os.fsdecode(path): described(archive, entry) for path, entry in sorted(archive.entries.items())}


def main() -> None:
    """Make what is missing. The tiny model has to be in the store, where the archive is read back from."""
    ARCHIVES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        root = Path(place) / "tree"
        make_tree(root)
        for name, level, slot_tokens in (("memory", 5, 24), ("plain", 1, 24)):
            path = ARCHIVES / f"{name}.spca"
            if path.exists():
                continue
            request = Request((str(root),), level=level, model=str(TINY_EXACT), slot_tokens=slot_tokens)
            create(str(path), request, executor=EXECUTOR)
            if name == "memory":
                (root / "later.txt").write_text(READING[::-1][:400])
                for changed in (root / "later.txt", root):
                    os.utime(changed, ns=(MOMENT, MOMENT))
                append(str(path), request, executor=EXECUTOR)
            found = json.dumps(describe(path, Options(threads=1)), indent=1)
            path.with_suffix(".json").write_text(found + "\n")


if __name__ == "__main__":
    main()
