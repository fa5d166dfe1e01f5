"""Trees of files for archive jobs, what can be said of them, and archives made by hand that no writer would make."""

import os
import random
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from speccompact.archive.archivefile import ArchiveFile
from speccompact.archive.catalogue import Catalogue, GroupPlace, pack_catalogue, pack_table
from speccompact.archive.creating import create
from speccompact.archive.entries import DIGEST_BYTES, Entry, Piece
from speccompact.archive.events import JobSummary
from speccompact.archive.groupbuilding import join_record
from speccompact.archive.groupexecutors import LocalExecutor
from speccompact.archive.records import (
    HEADER_BYTES,
    TRAILER_BYTES,
    Coding,
    RecordHead,
    RecordKind,
    Trailer,
    pack_header,
    pack_trailer,
)
from speccompact.archive.request import Request
from speccompact.container.format import sha_prefix
from speccompact.options import Options
from tests.fakes import FakeEngines, prose

MOMENT = 1_700_000_000_123_456_789
ID = b"12345678"


def make_tree(root: Path) -> Path:
    """Make a folder with a bit of everything, all times fixed."""
    (root / "docs" / "deep").mkdir(parents=True)
    (root / "none").mkdir()
    for number in range(12):
        (root / "docs" / f"{number}.txt").write_bytes(prose(900 + 37 * number, number))
    (root / "docs" / "copy.md").write_bytes(prose(900, 0))
    (root / "docs" / "deep" / "Ünï \n.txt").write_bytes(prose(500, 99))
    (root / "noise.bin").write_bytes(random.Random(5).randbytes(30_000))
    (root / "zeros.dat").write_bytes(bytes(50_000))
    (root / "empty").touch()
    (root / "run.sh").write_bytes(b"#!/bin/sh\necho hello\n" * 20)
    (root / "run.sh").chmod(0o750)
    (root / "link").symlink_to("docs/0.txt")
    (root / "broken").symlink_to("/nowhere/at all")
    os.link(root / "docs" / "1.txt", root / "twin")
    os.mkfifo(root / "pipe", 0o600)
    Path(os.fsdecode(os.fsencode(root) + b"/bytes\xff\xfe")).write_bytes(prose(300, 7))
    with open(root / "holes", "wb") as sparse:
        sparse.seek(1 << 20)
        sparse.write(b"island" * 1000)
        sparse.truncate(3 << 20)
    (root / "none").chmod(0o700)
    for folder, names, files in os.walk(os.fsencode(root), topdown=False):
        for name in [*names, *files, b""]:
            os.utime(os.path.join(folder, name), ns=(MOMENT, MOMENT + len(name)), follow_symlinks=False)
    return root


def facts(root: Path) -> dict[bytes, tuple[Any, ...]]:
    """Return what matters of everything below a folder."""
    found = {}
    base = os.fsencode(root)
    for folder, names, files in os.walk(base):
        for name in [*names, *files]:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            content: object = None
            if stat.S_ISLNK(status.st_mode):
                content = os.readlink(path)
            elif stat.S_ISREG(status.st_mode):
                with open(path, "rb") as stream:
                    content = stream.read()
            own = (status.st_mode, status.st_mtime_ns, status.st_nlink if stat.S_ISREG(status.st_mode) else 0, content)
            found[os.path.relpath(path, base)] = own
    return found


def pack(output: Path | str, *sources: Path | str, engines: FakeEngines | None = None, **fields: Any) -> JobSummary:
    """Make an archive with the fake model at level 2; arguments of `create` and fields of the request."""
    own = {name: fields.pop(name) for name in ("force", "listener", "step", "work") if name in fields}
    request = Request(tuple(map(str, sources)), **{"level": 2} | fields)
    executor = LocalExecutor(Options(), engines or FakeEngines())
    return create(str(output), request, executor=executor, **own)


def opened(path: Path, **options: Any) -> ArchiveFile:
    return ArchiveFile(str(path), engines=FakeEngines(), **options)


def forge(
    path: Path, groups: Iterable[tuple[Sequence[Entry], bytes]], *, catalogue: Sequence[Entry] | None = None
) -> Path:
    """Write an archive of raw groups whose entries nobody has looked at.

    Args:
        groups: entries and content of each; an entry without pieces and with a size gets the next bytes.
        catalogue: entries of the catalogue, instead of those of the groups.
    """
    data = pack_header(ID)
    places, known = {}, []
    for number, (entries, content) in enumerate(groups):
        placed, at = [], 0
        for entry in entries:
            if entry.stored_bytes and not entry.pieces:
                own = content[at : at + entry.stored_bytes]
                pieces = (Piece(number, at, len(own)),)
                entry = entry._replace(pieces=pieces, digest=sha_prefix(DIGEST_BYTES, own))
                at += len(own)
            placed.append(entry)
        table, coding = pack_table(placed), Coding.RAW if content else Coding.NONE
        head = RecordHead(RecordKind.GROUP, coding, 0, number, len(table), len(content), len(content), ID)
        places[number] = GroupPlace(number, len(data), head.record_bytes, len(content), len(content), coding)
        data += join_record(head, table, content)
        known += placed
    listed = known if catalogue is None else catalogue  # under any key: paths may come twice
    packed = pack_catalogue(Catalogue(places, {str(index).encode(): entry for index, entry in enumerate(listed)}))
    head = RecordHead(RecordKind.CATALOGUE, Coding.NONE, 0, len(places), len(packed), 0, 0, ID)
    record = join_record(head, packed, b"")
    whole = len(data) + len(record) + TRAILER_BYTES
    assert len(data) >= HEADER_BYTES
    path.write_bytes(data + record + pack_trailer(Trailer(len(data), len(record), whole, 0, ID)))
    return path
