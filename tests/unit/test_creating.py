"""Making archives and going on with them; `test_crashes` has what a kill leaves."""

import os
from pathlib import Path
from typing import Any

import pytest

from speccompact.archive.entries import FileType
from speccompact.archive.events import Event
from speccompact.archive.extracting import extract
from speccompact.errors import ArgumentError, DamagedError, JobError
from tests.archive_trees import facts, make_tree, opened, pack
from tests.fakes import FakeEngines, prose


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make_tree(tmp_path / "tree")


def test_everything_comes_back(tree: Path, tmp_path: Path) -> None:
    summary = pack(tmp_path / "a.spca", tree)
    assert summary.left_out == ()
    with opened(tmp_path / "a.spca") as archive:
        assert extract(archive, str(tmp_path / "out")).left_out == ()
    assert facts(tmp_path / "out" / "tree") == facts(tree)
    assert sorted(os.listdir(tmp_path)) == ["a.spca", "out", "tree"]


def test_holes_stay_holes(tree: Path, tmp_path: Path) -> None:
    pack(tmp_path / "a.spca", tree)
    with opened(tmp_path / "a.spca") as archive:
        assert archive.entries[b"tree/holes"].stored_bytes < 100_000
        extract(archive, str(tmp_path / "out"))
    assert os.stat(tmp_path / "out" / "tree" / "holes").st_blocks * 512 < 1 << 20


def test_a_file_beyond_4_gb_that_is_all_but_a_hole(tmp_path: Path) -> None:
    (tmp_path / "big").mkdir()
    with open(tmp_path / "big" / "disk", "wb") as stream:
        stream.seek(5 << 30)
        stream.write(b"the end")
    pack(tmp_path / "a.spca", tmp_path / "big")
    with opened(tmp_path / "a.spca") as archive:
        extract(archive, str(tmp_path / "out"))
    with open(tmp_path / "out" / "big" / "disk", "rb") as stream:
        stream.seek(-10, os.SEEK_END)
        assert stream.read() == b"\0\0\0the end"
    assert os.path.getsize(tmp_path / "a.spca") < 10_000


def test_equal_sources_give_equal_archives(tree: Path, tmp_path: Path) -> None:
    pack(tmp_path / "a.spca", tree)
    (tmp_path / "elsewhere").mkdir()
    tree.rename(tmp_path / "elsewhere" / "tree")
    pack(tmp_path / "b.spca", tmp_path / "elsewhere" / "tree")
    assert (tmp_path / "a.spca").read_bytes() == (tmp_path / "b.spca").read_bytes()


def test_equal_bytes_are_stored_once(tree: Path, tmp_path: Path) -> None:
    summary = pack(tmp_path / "a.spca", tree)
    with opened(tmp_path / "a.spca") as archive:
        assert archive.entries[b"tree/docs/copy.md"].pieces == archive.entries[b"tree/docs/0.txt"].pieces
    assert summary.stored_bytes < summary.content_bytes


def test_a_file_larger_than_a_group_is_cut(tmp_path: Path) -> None:
    engines = FakeEngines()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "long.txt").write_bytes(text := prose(30_000, 3))
    (tmp_path / "in" / "short.txt").write_bytes(prose(500, 4))
    pack(tmp_path / "a.spca", tmp_path / "in", slot_tokens=16, engines=engines)
    with opened(tmp_path / "a.spca") as archive:
        pieces = archive.entries[b"in/long.txt"].pieces
        assert len(pieces) > 2
        assert archive.entries[b"in/short.txt"].pieces[0].group == pieces[-1].group  # whose rest has room
        extract(archive, str(tmp_path / "out"))
    assert (tmp_path / "out" / "in" / "long.txt").read_bytes() == text


def test_names_of_sources(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pack(tmp_path / "a.spca", f"{tree}/", include=("*.sh",))
    monkeypatch.chdir(tree)
    pack(tmp_path / "b.spca", "docs/0.txt", named=("./docs//1.txt", "docs"))
    with opened(tmp_path / "a.spca") as first, opened(tmp_path / "b.spca") as second:
        assert set(first.entries) == {b"run.sh"}
        assert set(second.entries) == {b"0.txt", b"docs/1.txt", b"docs"}


def test_two_sources_that_want_one_name(tree: Path, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="twice"):
        pack(tmp_path / "a.spca", tree, tree / "docs" / ".." / ".." / "tree")


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../b"])
def test_listed_paths_stay_below_the_current_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(ArgumentError, match="leads out"):
        pack(tmp_path / "a.spca", named=(name,))


def test_an_archive_in_its_own_source_is_left_alone(tree: Path) -> None:
    pack(tree / "self.spca", tree)
    pack(tree / "self.spca", tree, force=True)
    with opened(tree / "self.spca") as archive:
        assert not [path for path in archive.entries if b"self" in path]


def test_a_taken_name(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "a.spca").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        pack(tmp_path / "a.spca", tree)
    assert sorted(os.listdir(tmp_path)) == ["a.spca", "tree"]
    pack(tmp_path / "a.spca", tree, force=True)
    with opened(tmp_path / "a.spca") as archive:
        assert archive.entries


def test_a_source_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        pack(tmp_path / "a.spca", tmp_path / "nowhere")


@pytest.mark.parametrize("change", ["grow", "same size", "vanish", "touch"])
def test_a_source_that_changes_is_left_out_and_the_rest_is_made(tree: Path, tmp_path: Path, change: str) -> None:
    victim = tree / "docs" / "1.txt"  # which `twin` is a hard link to

    def meddle(name: str) -> None:
        if name == "planned":
            if change == "vanish":
                victim.unlink()
            elif change == "touch":
                os.utime(victim, ns=(1, 1))
            else:
                victim.write_bytes(victim.read_bytes()[:-1] + (b"!?" if change == "grow" else b"!"))

    heard: list[Event] = []
    summary = pack(tmp_path / "a.spca", tree, step=meddle, listener=heard.append)
    assert {path for path, _ in summary.left_out} == {b"tree/docs/1.txt", b"tree/twin"}
    assert [event.values["path"] for event in heard if event.name == "left-out"] == [b"tree/docs/1.txt"]
    with opened(tmp_path / "a.spca") as archive:
        assert extract(archive, str(tmp_path / "out")).left_out == ()
    left, right = facts(tmp_path / "out" / "tree"), facts(tree)
    assert left.pop(b"docs")[0] == right.pop(b"docs")[0]
    assert left == {p: f for p, f in right.items() if p not in (b"docs/1.txt", b"twin")}


def test_a_job_of_other_options_is_not_gone_on_with(tree: Path, tmp_path: Path) -> None:
    def stop(name: str) -> None:
        if name == "group-noted":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pack(tmp_path / "a.spca", tree, step=stop)
    with pytest.raises(JobError, match="other sources or options"):
        pack(tmp_path / "a.spca", tree, level=3)
    pack(tmp_path / "a.spca", tree)


def test_a_file_that_is_no_ledger(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "a.spca.job").write_bytes(b"something else entirely, and longer than a page header " * 10)
    with pytest.raises(JobError, match="ledger"):
        pack(tmp_path / "a.spca", tree)


def test_two_jobs_at_once(tree: Path, tmp_path: Path) -> None:
    def meddle(name: str) -> None:
        if name == "group-noted":
            with pytest.raises(JobError):
                pack(tmp_path / "a.spca", tree)

    pack(tmp_path / "a.spca", tree, step=meddle)


@pytest.mark.parametrize("size", [1000, 20_000])
def test_volumes(tree: Path, tmp_path: Path, size: int) -> None:
    pack(tmp_path / "whole.spca", tree)
    pack(tmp_path / "a.spca", tree, volume_bytes=size)
    whole = (tmp_path / "whole.spca").read_bytes()
    parts = sorted(path for path in tmp_path.iterdir() if path.name.startswith("a.spca"))
    assert [path.stat().st_size for path in parts[:-1]] == [size] * (len(parts) - 1)
    assert b"".join(path.read_bytes() for path in parts)[24 + 40 :].count(b"\xd3\xc1\xa5\xd2") >= 3
    assert len(b"".join(path.read_bytes() for path in parts)) == len(whole)
    for name in ("a.spca", "a.spca.001"):
        with opened(tmp_path / name) as archive:
            extract(archive, str(tmp_path / name[-3:]))
        assert facts(tmp_path / name[-3:] / "tree") == facts(tree)


def test_volumes_of_which_some_have_their_names(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pack(tmp_path / "b.spca", tree, volume_bytes=5000)
    replace, names = os.replace, []

    def fail(source: str, target: str) -> None:
        names.append(target)
        if len(names) == 3:
            raise OSError(5, "Input/output error", target)
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        with pytest.raises(OSError, match="Input/output"):
            pack(tmp_path / "a.spca", tree, volume_bytes=5000)
    engines = FakeEngines()
    pack(tmp_path / "a.spca", tree, volume_bytes=5000, engines=engines)
    assert engines.codec.encoded == 0
    with opened(tmp_path / "a.spca") as archive:
        extract(archive, str(tmp_path / "out"))
    assert facts(tmp_path / "out" / "tree") == facts(tree)
    assert not [name for name in os.listdir(tmp_path) if "partial" in name or "job" in name]


def test_a_full_disk_is_told_and_the_job_goes_on(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pack(tmp_path / "b.spca", tree)
    pwrite, calls = os.pwrite, []

    def fill(descriptor: int, data: bytes, offset: int) -> int:
        calls.append(offset)
        if len(calls) > 2:
            raise OSError(28, "No space left on device")
        return pwrite(descriptor, data[: max(1, len(data) // 2)] if len(calls) == 2 else data, offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", fill)
        with pytest.raises(OSError, match="No space"):
            pack(tmp_path / "a.spca", tree)
    pack(tmp_path / "a.spca", tree)
    with opened(tmp_path / "a.spca") as archive:
        extract(archive, str(tmp_path / "out"))
    assert facts(tmp_path / "out" / "tree") == facts(tree)


def test_folders_that_cannot_be_read_are_told(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listdir = os.listdir

    def refuse(path: Any) -> list[Any]:
        if str(path).endswith("deep"):
            raise PermissionError(13, "Permission denied", path)
        return listdir(path)

    monkeypatch.setattr(os, "listdir", refuse)
    summary = pack(tmp_path / "a.spca", tree)
    assert summary.left_out == ((b"tree/docs/deep", "Permission denied"),)


def test_xattrs_on_request(tree: Path, tmp_path: Path) -> None:
    try:
        os.setxattr(tree / "run.sh", "user.note", b"\0\xff")
    except OSError:
        pytest.skip("this file system keeps no attributes")
    from speccompact.archive.readoptions import RestoreOptions

    pack(tmp_path / "a.spca", tree, xattrs=True)
    with opened(tmp_path / "a.spca") as archive:
        extract(archive, str(tmp_path / "out"), restore=RestoreOptions(xattrs=True))
        extract(archive, str(tmp_path / "plain"))
    assert os.getxattr(tmp_path / "out" / "tree" / "run.sh", "user.note") == b"\0\xff"
    assert os.listxattr(tmp_path / "plain" / "tree" / "run.sh") == []


def test_devices_are_told_but_not_made(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid():
        pytest.skip("only root makes devices")
    os.mknod(tree / "null", 0o020600, os.makedev(1, 3))
    pack(tmp_path / "a.spca", tree)
    with opened(tmp_path / "a.spca") as archive:
        assert archive.entries[b"tree/null"].type == FileType.CHARACTER
        assert [path for path, _ in extract(archive, str(tmp_path / "out")).left_out] == [b"tree/null"]


def test_what_is_to_be_replaced_is_not_taken_for_what_replaces_it(tree: Path, tmp_path: Path) -> None:
    pack(tmp_path / "a.spca", tree, model="one")  # its id is that of the plan, which knows no model

    def stop(name: str) -> None:
        if name == "planned":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pack(tmp_path / "a.spca", tree, model="two", force=True, step=stop)
    heard: list[Event] = []
    pack(tmp_path / "a.spca", tree, model="two", force=True, listener=heard.append)
    assert [event.name for event in heard].count("group") > 1


def test_a_folder_is_not_replaced(tree: Path, tmp_path: Path) -> None:
    for output in (str(tree), f"{tmp_path}/new/"):
        with pytest.raises(IsADirectoryError):
            pack(output, tree, force=True)
    assert sorted(os.listdir(tmp_path)) == ["tree"]


def test_a_folder_that_is_not_there(tree: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        pack(tmp_path / "nowhere" / "a.spca", tree)


def test_a_ledger_that_is_damaged(tree: Path, tmp_path: Path) -> None:
    def stop(name: str) -> None:
        if name == "group-noted":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pack(tmp_path / "a.spca", tree, step=stop)
    ledger = tmp_path / "a.spca.job"
    whole = ledger.read_bytes()
    for at in range(4096, len(whole), 4096):  # all but the first page, one after the other
        ledger.write_bytes(whole[:at] + bytes(4096) + whole[at + 4096 :])
        with pytest.raises((JobError, DamagedError), match="delete it"):
            pack(tmp_path / "a.spca", tree)
    ledger.write_bytes(whole)
    pack(tmp_path / "a.spca", tree)
