"""Archives of files that are damaged or cut anywhere: what comes out is right or told, in bounded time and memory."""

from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speccompact.archive.archivefile import ArchiveFile
from speccompact.archive.checking import verify
from speccompact.archive.entries import Entry, FileType
from speccompact.archive.pathreading import read_file
from speccompact.archive.repairing import repair
from speccompact.errors import ArgumentError, FormatError, LimitError
from tests.archive_trees import forge, make_tree, opened, pack
from tests.fakes import FakeEngines


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damage")
    make_tree(folder / "tree")
    pack(folder / "a.spca", folder / "tree")
    return folder


@cache
def sound(folder: Path) -> tuple[bytes, dict[bytes, bytes]]:
    with opened(folder / "a.spca") as archive:
        files = [path for path, entry in archive.entries.items() if entry.type == FileType.FILE and entry.size < 10**6]
        return (folder / "a.spca").read_bytes(), {path: b"".join(read_file(archive, path)) for path in files}


def check(path: Path, files: dict[bytes, bytes], *, mended: bool = False) -> None:
    """Read all of an archive: what is given is right, and what is not is told; a mended one just has no more of it."""
    try:
        archive = ArchiveFile(str(path), engines=FakeEngines())
    except (FormatError, LimitError):
        return
    with archive:
        lost = {path for path, _ in verify(archive).left_out}
        for name, content in files.items():
            try:
                assert b"".join(read_file(archive, name)) == content
            except (FormatError, ArgumentError):
                assert lost
            except FileNotFoundError:
                assert lost or mended


@settings(max_examples=30)
@given(st.data())
def test_flipped_bits(folder: Path, data: st.DataObject) -> None:
    whole, files = sound(folder)
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    (folder / "bad.spca").write_bytes(damaged)
    check(folder / "bad.spca", files)
    try:
        repair(str(folder / "bad.spca"), str(folder / "mended.spca"))
    except FormatError:
        return
    with opened(folder / "mended.spca") as archive:
        assert verify(archive, decode=False).left_out == ()
    check(folder / "mended.spca", files, mended=True)


@settings(max_examples=30)
@given(st.data())
def test_cut_and_filled(folder: Path, data: st.DataObject) -> None:
    whole, files = sound(folder)
    cut = data.draw(st.integers(0, len(whole)))
    (folder / "bad.spca").write_bytes(whole[:cut] + data.draw(st.binary(max_size=200)))
    check(folder / "bad.spca", files)


def test_a_million_entries_of_nothing(tmp_path: Path) -> None:
    entries = [Entry(b"%x" % number) for number in range(1_000_000)]
    forge(tmp_path / "many.spca", [([], b"")], catalogue=entries)
    del entries
    assert (tmp_path / "many.spca").stat().st_size < 3_000_000
    with opened(tmp_path / "many.spca") as archive:
        assert len(archive.entries) == 1_000_000
