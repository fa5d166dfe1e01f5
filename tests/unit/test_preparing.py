"""Sources that change, vanish or cannot be reached while a job looks at them and reads them."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from speccompact.archive import content, groupbuilding, preparing
from speccompact.archive.entries import Entry
from speccompact.archive.extracting import extract
from speccompact.archive.storage import open_read
from tests.archive_trees import opened, pack
from tests.fakes import prose


def unpacked(archive_path: Path, target: Path) -> dict[str, bytes]:
    with opened(archive_path) as archive:
        extract(archive, str(target))
    return {path.name: path.read_bytes() for path in target.rglob("*") if path.is_file()}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "tree").mkdir()
    for name in "abc":
        (tmp_path / "tree" / name).write_bytes(prose(800))
    (tmp_path / "tree" / "d").write_bytes(prose(900, 1))
    return tmp_path / "tree"


def test_what_one_file_has_lost_is_read_from_another(tree: Path, tmp_path: Path) -> None:
    def meddle(name: str) -> None:
        if name == "planned":
            (tree / "a").write_bytes(b"rewritten")
            (tree / "b").unlink()

    summary = pack(tmp_path / "x.spca", tree, step=meddle)
    assert {path for path, _ in summary.left_out} == {b"tree/a", b"tree/b"}
    assert unpacked(tmp_path / "x.spca", tmp_path / "out") == {"c": prose(800), "d": prose(900, 1)}


def test_parts_of_a_long_file_come_from_whoever_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparing, "BUNDLE_BYTES", 1000)
    (tmp_path / "tree").mkdir()
    noise = os.urandom(2500)
    (tmp_path / "tree" / "a").write_bytes(noise)
    (tmp_path / "tree" / "b").write_bytes(noise)
    steps: list[str] = []

    def meddle(name: str) -> None:
        steps.append(name)
        if steps.count("group-noted") == 2 and (tmp_path / "tree" / "a").exists():  # the folder, and a first part
            (tmp_path / "tree" / "a").unlink()

    summary = pack(tmp_path / "x.spca", tmp_path / "tree", step=meddle)
    assert [path for path, _ in summary.left_out] == [b"tree/a"]
    assert unpacked(tmp_path / "x.spca", tmp_path / "out") == {"b": noise}


def while_looked_at(monkeypatch: pytest.MonkeyPatch, name: str, change: Callable[[Path], None], times: int) -> None:
    """Change a file right after it was opened to be looked at."""
    seen: list[str] = []

    def opening(location: str) -> BinaryIO:
        stream = open_read(location)
        if location.endswith("/" + name) and len(seen) < times:
            seen.append(location)
            change(Path(location))
        return stream

    monkeypatch.setattr(content, "open_read", opening)


@pytest.mark.parametrize("times", [1, 2])
def test_a_file_that_gets_shorter_is_looked_at_once_more(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    def cut(path: Path) -> None:
        os.truncate(path, path.stat().st_size - 100)

    while_looked_at(monkeypatch, "d", cut, times)
    summary = pack(tmp_path / "x.spca", tree)
    found = unpacked(tmp_path / "x.spca", tmp_path / "out")
    if times == 1:
        assert summary.left_out == ()
        assert found["d"] == prose(900, 1)[:-100]
    else:
        assert [path for path, _ in summary.left_out] == [b"tree/d"]
        assert "d" not in found


def test_a_file_that_is_emptied_is_an_empty_file(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    while_looked_at(monkeypatch, "d", lambda path: os.truncate(path, 0), 1)
    assert pack(tmp_path / "x.spca", tree).left_out == ()
    assert unpacked(tmp_path / "x.spca", tmp_path / "out")["d"] == b""


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_what_is_no_file_any_more_is_neither_waited_for_nor_followed(tree: Path, tmp_path: Path, kind: str) -> None:
    (tmp_path / "secret").write_bytes(prose(900, 1))

    def meddle(name: str) -> None:
        if name == "planned":
            (tree / "d").unlink()
            if kind == "pipe":
                os.mkfifo(tree / "d")
            else:
                (tree / "d").symlink_to(tmp_path / "secret")

    summary = pack(tmp_path / "x.spca", tree, step=meddle)
    assert summary.left_out == ((b"tree/d", "is no regular file any more"),)


@pytest.mark.parametrize("module", [preparing, groupbuilding])
def test_a_machine_that_fails_is_no_reason_to_leave_files_out(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: object
) -> None:
    def fail(location: str, entry: Entry, *rest: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), location)

    with monkeypatch.context() as patch:
        patch.setattr(module, "examine" if module is preparing else "read_piece", fail)
        with pytest.raises(OSError, match="Too many open files"):
            pack(tmp_path / "x.spca", tree)
    assert pack(tmp_path / "x.spca", tree).left_out == ()


def test_the_archive_is_left_alone_by_whatever_path_it_is_reached(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "way").symlink_to(tree)
    assert pack(tree / "self.spca", f"{tmp_path}/way/").left_out == ()
    with opened(tree / "self.spca") as archive:
        assert archive.entries.keys() == {b"a", b"b", b"c", b"d"}
