"""Archives that want out of the target folder, or more than there is: the shapes of known attacks on extractors."""

import os
from pathlib import Path

import pytest

from speccompact.archive.archivelimits import ArchiveLimits
from speccompact.archive.entries import Entry, FileType
from speccompact.archive.events import JobSummary
from speccompact.archive.extracting import extract
from speccompact.archive.restoring import RestoreOptions
from speccompact.archive.safetree import split_path
from speccompact.archive.selection import Selection
from speccompact.errors import DamagedError, LimitError
from tests.archive_trees import facts, forge, make_tree, opened, pack


def give(tmp_path: Path, entries: list[Entry], content: bytes = b"", *, force: bool = False) -> JobSummary:
    """Extract a forged archive of one group to the folder `out`."""
    forge(tmp_path / "evil.spca", [(entries, content)])
    with opened(tmp_path / "evil.spca") as archive:
        return extract(archive, str(tmp_path / "out"), restore=RestoreOptions(force=force))


@pytest.mark.parametrize(
    "path",
    [b"../evil", b"a/../../evil", b"/tmp/evil", b"/", b"..", b".", b"a//b", b"a/./b", b"a/", b"./a"],
)
def test_paths_that_lead_out(tmp_path: Path, path: bytes) -> None:
    summary = give(tmp_path, [Entry(path, size=4), Entry(b"good", size=4)], b"evilgood")
    assert [lost for lost, _ in summary.left_out] == [path]
    assert facts(tmp_path / "out").keys() == {b"good"}
    assert sorted(os.listdir(tmp_path)) == ["evil.spca", "out"]


@pytest.mark.parametrize(
    "path",
    [b"C:\\evil", b"c:evil", b"a\\..\\..\\evil", b"NUL", b"com1.txt", b"name.", b"name ", b"\\\\host\\x", b"a?b"],
)
def test_names_that_mean_something_else_on_windows(path: bytes) -> None:
    with pytest.raises(DamagedError):
        split_path(path, 100, windows=True)
    assert split_path(path, 100, windows=False) == [path]


def test_a_path_with_nul_is_refused() -> None:
    with pytest.raises(DamagedError):
        split_path(b"a\0b", 100)


def test_a_link_is_no_way_out(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    entries = [
        Entry(b"way", FileType.SYMLINK, link=os.fsencode(tmp_path / "outside")),
        Entry(b"way/evil", size=4),
        Entry(b"up", FileType.SYMLINK, link=b".."),
        Entry(b"up/evil2", FileType.FIFO),
    ]
    give(tmp_path, entries, b"evil")
    give(tmp_path, entries, b"evil", force=True)  # now the links are there
    assert os.listdir(tmp_path / "outside") == []
    assert sorted(os.listdir(tmp_path)) == ["evil.spca", "out", "outside"]


def test_a_link_that_was_there_before_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "way").symlink_to(tmp_path / "outside")
    summary = give(tmp_path, [Entry(b"way/evil", size=4), Entry(b"way", FileType.FOLDER)], b"evil", force=True)
    assert {path for path, _ in summary.left_out} == {b"way/evil", b"way"}
    assert os.listdir(tmp_path / "outside") == []


def test_a_file_replaces_a_link_and_not_what_it_points_to(tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"precious")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "f").symlink_to(tmp_path / "precious")
    assert [path for path, _ in give(tmp_path, [Entry(b"f", size=4)], b"evil").left_out] == [b"f"]
    assert give(tmp_path, [Entry(b"f", size=4)], b"evil", force=True).left_out == ()
    assert (tmp_path / "precious").read_bytes() == b"precious"
    assert not (tmp_path / "out" / "f").is_symlink()


@pytest.mark.parametrize("link", [b"../precious", b"/etc/passwd", b"s", b"nowhere", b"folder"])
def test_hard_links_only_to_files_of_the_target(tmp_path: Path, link: bytes) -> None:
    (tmp_path / "precious").write_bytes(b"precious")
    entries = [
        Entry(b"s", FileType.SYMLINK, link=b"../precious"),
        Entry(b"folder", FileType.FOLDER),
        Entry(b"z", FileType.HARDLINK, link=link),
    ]
    assert [path for path, _ in give(tmp_path, entries).left_out] == [b"z"]
    assert os.stat(tmp_path / "precious").st_nlink == 1


def test_no_set_uid_unless_asked_for(tmp_path: Path) -> None:
    give(tmp_path, [Entry(b"f", mode=0o6755, size=1), Entry(b"d", FileType.FOLDER, mode=0o1777)], b"x")
    assert os.stat(tmp_path / "out" / "f").st_mode & 0o7777 == 0o755
    assert os.stat(tmp_path / "out" / "d").st_mode & 0o7777 == 0o777
    with opened(tmp_path / "evil.spca") as archive:
        extract(archive, str(tmp_path / "out"), restore=RestoreOptions(force=True, special=True))
    assert os.stat(tmp_path / "out" / "f").st_mode & 0o7777 == 0o6755


def test_a_file_where_a_folder_has_to_be(tmp_path: Path) -> None:
    summary = give(tmp_path, [Entry(b"a", size=1), Entry(b"a/b", size=1)], b"xy")
    assert [path for path, _ in summary.left_out] == [b"a/b"]


def test_a_path_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DamagedError, match="twice"):
        give(tmp_path, [Entry(b"a", size=1), Entry(b"a", size=1)], b"xy")


def test_limits(tmp_path: Path) -> None:
    hole = Entry(b"hole", size=1 << 60, segments=())
    forge(tmp_path / "bomb.spca", [([hole, Entry(b"x" * 300), *(Entry(b"%d" % n) for n in range(50))], b"")])
    with pytest.raises(LimitError, match="entries"):
        opened(tmp_path / "bomb.spca", limits=ArchiveLimits(entries=50))
    with pytest.raises(LimitError, match="table"):
        opened(tmp_path / "bomb.spca", limits=ArchiveLimits(table_bytes=100))
    with opened(tmp_path / "bomb.spca") as archive:
        with pytest.raises(LimitError, match="output"):
            extract(archive, str(tmp_path / "out"), limits=ArchiveLimits(output_bytes=1 << 40))
        chosen = Selection(exclude=["hole"])
        summary = extract(archive, str(tmp_path / "out"), selection=chosen, limits=ArchiveLimits(path_bytes=255))
        assert [path for path, _ in summary.left_out] == [b"x" * 300]


def test_very_deep_paths(tmp_path: Path) -> None:
    summary = give(tmp_path, [Entry(b"/".join([b"d"] * 400), size=1)], b"x")
    assert summary.left_out == ()


def test_a_catalogue_that_points_into_the_wrong_bytes(tmp_path: Path) -> None:
    real = [Entry(b"a", size=4), Entry(b"b", size=4)]
    forge(tmp_path / "x.spca", [(real, b"aaaabbbb")])
    with opened(tmp_path / "x.spca") as archive:
        a, b = archive.entries[b"a"], archive.entries[b"b"]
    forge(tmp_path / "y.spca", [(real, b"aaaabbbb")], catalogue=[a._replace(pieces=b.pieces), b])
    with opened(tmp_path / "y.spca") as archive:
        assert [path for path, _ in extract(archive, str(tmp_path / "out")).left_out] == [b"a"]


def test_some_of_it(tmp_path: Path) -> None:
    make_tree(tmp_path / "tree")
    pack(tmp_path / "a.spca", tmp_path / "tree")
    with opened(tmp_path / "a.spca") as archive:
        extract(archive, str(tmp_path / "out"), [b"tree/docs/deep/", b"tree/empty"])
        assert facts(tmp_path / "out").keys() >= {b"tree/empty", b"tree/docs/deep"}
        assert b"tree/run.sh" not in facts(tmp_path / "out")
        with pytest.raises(FileNotFoundError):
            extract(archive, str(tmp_path / "out"), [b"tree/no such"])


def test_resume_passes_over_what_is_right_and_makes_the_rest_anew(tmp_path: Path) -> None:
    make_tree(tmp_path / "tree")
    pack(tmp_path / "a.spca", tmp_path / "tree")
    out = tmp_path / "out"
    with opened(tmp_path / "a.spca") as archive:
        extract(archive, str(out))
        kept = os.stat(out / "tree" / "run.sh").st_ino
        damaged = out / "tree" / "docs" / "2.txt"
        status = os.stat(damaged)
        damaged.write_bytes(b"?" * status.st_size)
        os.utime(damaged, ns=(status.st_mtime_ns, status.st_mtime_ns))
        (out / "tree" / "noise.bin").unlink()
        restore = RestoreOptions(force=True)
        assert extract(archive, str(out), resume=True, restore=restore).left_out == ()
    assert facts(out / "tree") == facts(tmp_path / "tree")
    assert os.stat(out / "tree" / "run.sh").st_ino == kept
