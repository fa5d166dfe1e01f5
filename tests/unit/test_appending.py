import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from speccompact.archive import appending
from speccompact.archive.appending import append
from speccompact.archive.archivefile import ArchiveFile
from speccompact.archive.checking import verify
from speccompact.archive.events import JobSummary
from speccompact.archive.extracting import extract
from speccompact.archive.groupexecutors import LocalExecutor
from speccompact.archive.recordreading import find_trailer
from speccompact.archive.repairing import repair
from speccompact.archive.request import Request
from speccompact.errors import ArgumentError, JobError
from speccompact.options import Options
from tests.archive_trees import facts, make_tree, opened, pack
from tests.fakes import FakeEngines, prose


def add(output: Path, *sources: Path, **fields: Any) -> JobSummary:
    step = fields.pop("step", lambda name: None)
    request = Request(tuple(map(str, sources)), **{"level": 2} | fields)
    return append(str(output), request, executor=LocalExecutor(Options(), FakeEngines()), step=step)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make_tree(tmp_path / "tree")


@pytest.mark.parametrize("volume_bytes", [None, 5000])
def test_what_changed_is_added_and_what_was_there_is_untouched(
    tree: Path, tmp_path: Path, volume_bytes: int | None
) -> None:
    pack(tmp_path / "a.spca", tree, volume_bytes=volume_bytes)
    with opened(tmp_path / "a.spca") as archive:
        before = archive.read_at(0, archive.file_bytes)
    (tree / "docs" / "new.txt").write_bytes(prose(2000, 42))
    (tree / "docs" / "3.txt").write_bytes(prose(100, 43))
    os.utime(tree / "docs", ns=(5, 5))
    summary = add(tmp_path / "a.spca", tree)
    assert (summary.entries, summary.content_bytes, summary.left_out) == (3, 2100, ())
    with opened(tmp_path / "a.spca") as archive:
        assert archive.read_at(0, len(before)) == before
        assert archive.trailer.generation == 1
        assert verify(archive).left_out == ()
        assert extract(archive, str(tmp_path / "out")).left_out == ()
    assert facts(tmp_path / "out" / "tree") == facts(tree)
    assert not [name for name in os.listdir(tmp_path) if "job" in name]


def test_nothing_new_changes_nothing(tree: Path, tmp_path: Path) -> None:
    pack(tmp_path / "a.spca", tree)
    before = (tmp_path / "a.spca").read_bytes()
    summary = add(tmp_path / "a.spca", tree)
    assert (summary.entries, summary.groups) == (0, 0)
    assert (tmp_path / "a.spca").read_bytes() == before
    assert add(tmp_path / "a.spca", tree, unchanged=True).entries > 10


def test_an_append_that_was_stopped_leaves_the_archive_as_it_was(tree: Path, tmp_path: Path) -> None:
    pack(tmp_path / "a.spca", tree / "docs")

    def stop(name: str) -> None:
        if name == "trailer-written":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        add(tmp_path / "a.spca", tree, step=stop)
    os.truncate(tmp_path / "a.spca", os.path.getsize(tmp_path / "a.spca") - 1)
    with opened(tmp_path / "a.spca") as archive:
        assert archive.file_bytes > archive.trailer.archive_bytes
        assert b"docs/1.txt" in archive.entries
        assert b"tree/docs/1.txt" not in archive.entries
        assert verify(archive).left_out == ()
    with pytest.raises(JobError, match="other sources"):
        add(tmp_path / "a.spca", tree / "none")
    add(tmp_path / "a.spca", tree)
    with opened(tmp_path / "a.spca") as archive:
        assert archive.entries.keys() >= {b"docs/1.txt", b"tree/docs/1.txt"}


def test_a_trailer_inside_a_stored_file_is_not_taken_for_the_end(tree: Path, tmp_path: Path) -> None:
    pack(tmp_path / "inner.spca", tree / "noise.bin")
    (tmp_path / "nest").mkdir()
    (tmp_path / "inner.spca").rename(tmp_path / "nest" / "inner.bin")
    pack(tmp_path / "a.spca", tmp_path / "nest")
    data = (tmp_path / "a.spca").read_bytes()
    assert data.count(b"\xd3ARC") == 2
    (tmp_path / "a.spca").write_bytes(data + b"garbage" * 300_000)
    with open(tmp_path / "a.spca", "rb") as stream:
        trailer = find_trailer(stream, len(data) + 2_100_000, data[8:16])
    assert trailer.archive_bytes == len(data)


def test_what_cannot_be_appended_to(tmp_path: Path, tree: Path) -> None:
    with pytest.raises(ArgumentError, match="objects cannot grow"):
        append("memory://bucket/a.spca", Request((str(tree),)))
    with pytest.raises(FileNotFoundError):
        add(tmp_path / "none.spca", tree)


def linked(folder: Path) -> Path:
    """Return a folder with a file of three names."""
    folder.mkdir()
    (folder / "a").write_bytes(prose(700, 1))
    os.link(folder / "a", folder / "b")
    os.link(folder / "a", folder / "c")
    return folder


def test_a_hard_link_keeps_the_bytes_of_before_when_only_its_file_is_replaced(tmp_path: Path) -> None:
    tree = linked(tmp_path / "tree")
    pack(tmp_path / "x.spca", tree)
    (tree / "new").write_bytes(prose(800, 2))
    (tree / "new").rename(tree / "a")
    add(tmp_path / "x.spca", tree, include=("a",))
    repair(str(tmp_path / "x.spca"), str(tmp_path / "mended.spca"))
    for name in ("x", "mended"):
        with opened(tmp_path / f"{name}.spca") as archive:
            assert verify(archive).left_out == ()
            assert extract(archive, str(tmp_path / name)).left_out == ()
        assert facts(tmp_path / name / "tree") == facts(tree)
    with opened(tmp_path / "x.spca") as archive, opened(tmp_path / "mended.spca") as mended:
        assert archive.entries == mended.entries


def test_a_hard_link_follows_its_file_when_that_is_changed_in_place(tmp_path: Path) -> None:
    tree = linked(tmp_path / "tree")
    pack(tmp_path / "x.spca", tree)
    (tree / "a").write_bytes(prose(800, 2))
    add(tmp_path / "x.spca", tree)
    with opened(tmp_path / "x.spca") as archive:
        assert verify(archive).left_out == ()
        extract(archive, str(tmp_path / "out"))
    assert facts(tmp_path / "out" / "tree") == facts(tree)


def test_nobody_adds_to_an_archive_that_another_append_has_just_lengthened(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack(tmp_path / "a.spca", tree / "docs")
    others: list[str] = []

    def reading(*arguments: Any, **options: Any) -> ArchiveFile:
        if not others:
            others.append("one")
            with pytest.raises(JobError, match="another process"):
                add(tmp_path / "a.spca", tree / "none")
        return ArchiveFile(*arguments, **options)

    monkeypatch.setattr(appending, "ArchiveFile", reading)
    add(tmp_path / "a.spca", tree)
    assert others


def test_a_trailer_is_written_when_its_catalogue_is_on_disk(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack(tmp_path / "a.spca", tree / "docs")
    fsync, done = os.fsync, []

    def note(descriptor: int) -> None:
        done.append("fsync")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    add(tmp_path / "a.spca", tree, step=done.append)
    written, named = done.index("catalogue-written"), done.index("trailer-written")
    assert "fsync" in done[written:named]
    assert "fsync" in done[named : done.index("trailer-synced")]


def test_an_append_after_one_whose_ledger_is_gone(tree: Path, tmp_path: Path) -> None:
    pack(tmp_path / "a.spca", tree / "docs")
    shutil.copy(tmp_path / "a.spca", tmp_path / "b.spca")

    def stop(name: str) -> None:
        if name == "catalogue-written":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        add(tmp_path / "a.spca", tree, step=stop)
    (tmp_path / "a.spca.job").unlink()
    for name in ("a", "b"):
        add(tmp_path / f"{name}.spca", tree / "none")
    assert (tmp_path / "a.spca").read_bytes() == (tmp_path / "b.spca").read_bytes()


def test_changed_attributes_are_added_if_they_are_asked_for(tree: Path, tmp_path: Path) -> None:
    try:
        os.setxattr(tree / "run.sh", "user.note", b"old")
    except OSError:
        pytest.skip("this file system keeps no attributes")
    pack(tmp_path / "a.spca", tree, xattrs=True)
    os.setxattr(tree / "run.sh", "user.note", b"new")
    assert add(tmp_path / "a.spca", tree).entries == 0
    assert add(tmp_path / "a.spca", tree, xattrs=True).entries == 1


def test_an_append_that_was_killed_at_its_very_end_is_not_taken_for_the_next_one(tree: Path, tmp_path: Path) -> None:
    pack(tmp_path / "a.spca", tree / "none")

    def stop(name: str) -> None:
        if name == "trailer-synced":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        add(tmp_path / "a.spca", tree / "docs", step=stop)
    assert add(tmp_path / "a.spca", tree / "run.sh").entries == 1
    with opened(tmp_path / "a.spca") as archive:
        assert archive.trailer.generation == 2
        assert archive.entries.keys() >= {b"docs/1.txt", b"run.sh"}
        assert verify(archive).left_out == ()
    assert sorted(os.listdir(tmp_path)) == ["a.spca", "tree"]


def test_an_append_does_not_go_on_in_another_archive_of_the_same_length(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one")
    (tmp_path / "b").write_bytes(b"two")
    pack(tmp_path / "a.spca", tmp_path / "a")
    pack(tmp_path / "b.spca", tmp_path / "b")
    assert (tmp_path / "a.spca").stat().st_size == (tmp_path / "b.spca").stat().st_size

    def stop(name: str) -> None:
        if name == "planned":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        add(tmp_path / "a.spca", tree / "docs", step=stop)
    (tmp_path / "b.spca").rename(tmp_path / "a.spca")
    with pytest.raises(JobError, match="another archive"):
        add(tmp_path / "a.spca", tree / "docs")
