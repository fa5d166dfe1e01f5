"""Archives that want out of the target folder, or more than there is: the shapes of known attacks on extractors."""

import errno
import os
import resource
from pathlib import Path

import fsspec
import pytest
import zstandard

from speccompact.archive.archivefile import ArchiveFile
from speccompact.archive.catalogue import unpack_table
from speccompact.archive.checking import verify
from speccompact.archive.entries import Entry, FileType, Piece
from speccompact.archive.events import JobSummary
from speccompact.archive.extracting import extract
from speccompact.archive.readoptions import ArchiveLimits, RestoreOptions
from speccompact.archive.safetree import split_path
from speccompact.archive.selection import Selection
from speccompact.errors import DamagedError, LimitError
from tests.archive_trees import facts, forge, make_tree, opened, pack
from tests.fakes import FakeEngines, prose


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


def test_pieces_that_overlap_are_refused_as_work_for_nothing(tmp_path: Path) -> None:
    entries = [Entry(b"%d" % n, size=90, pieces=(Piece(0, n, 90),), digest=b"12345678") for n in range(10)]
    with pytest.raises(DamagedError, match="overlap at byte 1"):
        give(tmp_path, entries, b"x" * 100)


@pytest.mark.parametrize("job", ["extract", "verify"])
def test_what_files_share_is_decoded_once(tmp_path: Path, job: str) -> None:
    decoded = []
    for copies in (1, 6):
        tree = tmp_path / str(copies)
        tree.mkdir()
        for number in range(copies):
            (tree / f"{number}.txt").write_bytes(prose(30_000))
        pack(tmp_path / "a.spca", tree, slot_tokens=16, force=True)
        engines = FakeEngines()
        with ArchiveFile(str(tmp_path / "a.spca"), engines=engines) as archive:
            summary = verify(archive) if job == "verify" else extract(archive, str(tmp_path / f"out{copies}"))
        assert summary.left_out == ()
        decoded.append(engines.codec.decoded)
    assert decoded[0] == decoded[1] > 10


def test_files_that_wait_for_a_later_group_are_not_held_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("speccompact.archive.preparing.BUNDLE_BYTES", 1000)
    (tmp_path / "tree").mkdir()
    noise = os.urandom(2500)
    for number in range(300):
        (tmp_path / "tree" / f"{number}").write_bytes(noise)
    pack(tmp_path / "a.spca", tmp_path / "tree")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, before[1]))
    try:
        with opened(tmp_path / "a.spca") as archive:
            assert extract(archive, str(tmp_path / "out")).left_out == ()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert len(os.listdir(tmp_path / "out" / "tree")) == 300
    assert all(path.read_bytes() == noise for path in (tmp_path / "out" / "tree").iterdir())


def test_metadata_that_the_system_refuses_does_not_cost_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = [
        Entry(b"f", mode=0o6755, size=1, mtime_ns=5, xattrs=((b"user.note", b"x"),)),
        Entry(b"d", FileType.FOLDER, mode=0o2750),
    ]
    forge(tmp_path / "evil.spca", [(entries, b"x")])

    def refuse(*arguments: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "fchown", refuse)
    monkeypatch.setattr(os, "setxattr", refuse)
    restore = RestoreOptions(owner=True, special=True, xattrs=True)
    with opened(tmp_path / "evil.spca") as archive:
        lost = dict(extract(archive, str(tmp_path / "out"), restore=restore).left_out)
    assert "owner: Operation not permitted, attribute user.note: Operation not permitted" in lost[b"f"]
    assert lost.keys() == {b"f", b"d"}
    status = os.stat(tmp_path / "out" / "f")
    assert (status.st_mode & 0o7777, status.st_mtime_ns) == (0o755, 5)  # no rights of an owner who it is not
    assert os.stat(tmp_path / "out" / "d").st_mode & 0o7777 == 0o750
    assert sorted(os.listdir(tmp_path / "out")) == ["d", "f"]


def test_resume_makes_links_and_pipes_anew_that_are_something_else(tmp_path: Path) -> None:
    make_tree(tmp_path / "tree")
    pack(tmp_path / "a.spca", tmp_path / "tree")
    out = tmp_path / "out" / "tree"
    restore = RestoreOptions(force=True)
    with opened(tmp_path / "a.spca") as archive:
        extract(archive, str(tmp_path / "out"))
        kept = os.lstat(out / "broken").st_ino
        for name in ("link", "twin", "pipe"):
            (out / name).unlink()
            (out / name).write_bytes(b"other")
        assert extract(archive, str(tmp_path / "out"), resume=True, restore=restore).left_out == ()
    assert facts(out) == facts(tmp_path / "tree")
    assert os.lstat(out / "broken").st_ino == kept


def test_folders_that_their_modes_close_are_opened_again(tmp_path: Path) -> None:
    entries = [Entry(b"d", FileType.FOLDER, mode=0o000), Entry(b"d/f", size=1)]
    assert give(tmp_path, entries, b"x").left_out == ()
    assert give(tmp_path, entries, b"x", force=True).left_out == ()
    assert os.stat(tmp_path / "out" / "d").st_mode & 0o777 == 0
    (tmp_path / "out" / "d").chmod(0o700)


def test_a_url_of_a_local_folder_is_that_folder(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "way").symlink_to(tmp_path / "outside")
    forge(tmp_path / "evil.spca", [([Entry(b"way/evil", size=4), Entry(b"good", size=4)], b"evilgood")])
    with opened(tmp_path / "evil.spca") as archive:
        lost = extract(archive, f"file://{tmp_path}/out").left_out
    assert [path for path, _ in lost] == [b"way/evil"]
    assert os.listdir(tmp_path / "outside") == []


def test_a_disk_that_is_read_only_ends_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **options: object) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    forge(tmp_path / "a.spca", [([Entry(b"a", size=1)], b"x")])
    with opened(tmp_path / "a.spca") as archive:
        monkeypatch.setattr(os, "pwrite", refuse)
        with pytest.raises(OSError, match="Read-only"):
            extract(archive, str(tmp_path / "out"))


def twins(tmp_path: Path) -> Path:
    """Return an archive of a file of three names."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a").write_bytes(prose(700, 1))
    for name in "bc":
        os.link(tmp_path / "tree" / "a", tmp_path / "tree" / name)
    pack(tmp_path / "a.spca", f"{tmp_path}/tree/")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a").write_bytes(b"mine")
    return tmp_path / "a.spca"


def test_a_hard_link_alone_is_the_file(tmp_path: Path) -> None:
    with opened(twins(tmp_path)) as archive:
        assert extract(archive, str(tmp_path / "out"), [b"b", b"c"]).left_out == ()
        assert extract(archive, "memory://twins").left_out == ()
    assert (tmp_path / "out" / "a").read_bytes() == b"mine"
    assert (tmp_path / "out" / "b").read_bytes() == prose(700, 1)
    assert (tmp_path / "out" / "c").samefile(tmp_path / "out" / "b")
    with fsspec.open("memory://twins/c", "rb") as stream:
        assert stream.read() == prose(700, 1)


def test_a_hard_link_is_not_made_to_a_file_that_was_there_before(tmp_path: Path) -> None:
    with opened(twins(tmp_path)) as archive:
        assert {path for path, _ in extract(archive, str(tmp_path / "out")).left_out} == {b"a", b"b", b"c"}
    assert os.listdir(tmp_path / "out") == ["a"]


def test_a_table_that_claims_more_than_it_can_become() -> None:
    honest = zstandard.compress(bytes(1 << 20), 19)
    at = honest.index((1 << 20).to_bytes(4, "little"))
    claim = honest[:at] + (1 << 30).to_bytes(4, "little") + honest[at + 4 :]
    assert zstandard.frame_content_size(claim) == 1 << 30
    with pytest.raises(DamagedError, match=r"more than .* can become"):
        unpack_table(claim, 0, 0, ArchiveLimits())
