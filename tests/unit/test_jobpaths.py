"""Paths of jobs stay below the folders that are open to them."""

import os
from pathlib import Path

import pytest

from speccompact.errors import ArgumentError
from speccompact_grpc.jobpaths import Claim, PathRefused, Roots


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "file").write_bytes(b"content")
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_bytes(b"secret")
    return root


def test_places(root: Path, tmp_path: Path) -> None:
    roots = Roots([str(root), f"more={tmp_path / 'elsewhere'}"])
    assert roots.place("data/sub/file").path == str(root / "sub" / "file")
    assert roots.place("more/file").path == str(tmp_path / "elsewhere" / "file")
    assert roots.place("data").path == roots.place("data/").path == str(root)
    assert (roots.place("data/sub/").inside, roots.place("data/sub").inside) == (True, False)
    with os.fdopen(roots.place("data/sub/file").open_file(), "rb") as stream:
        assert stream.read() == b"content"


@pytest.mark.parametrize(
    "name",
    [
        "", "/", "/etc/passwd", "data/../secret", "data/sub/../../secret", "..", "../data/sub", "data//sub",
        "data/./sub",
        "data/sub\0/file", "other/file", "data/sub//", "DATA/sub", "data/" + "x" * 5000, "data/s3://bucket/key",
        "data/.speccompact-1.tmp", "data/a.partial", "s3://bucket/key",
    ],
)  # fmt: skip
def test_paths_that_lead_elsewhere_are_refused(root: Path, name: str) -> None:
    with pytest.raises(PathRefused):
        Roots([str(root)]).place(name)


def test_no_link_is_followed(root: Path, tmp_path: Path) -> None:
    roots = Roots([str(root)])
    (root / "out").symlink_to(tmp_path / "elsewhere")
    (root / "link").symlink_to(tmp_path / "secret")
    for name in ("data/out/file", "data/link", "data/out"):
        with pytest.raises(PathRefused):
            roots.place(name).open_file()
        with pytest.raises(PathRefused):
            roots.place(name).status()
    with pytest.raises(PathRefused):
        roots.place("data/sub/file/below").open_parent()
    with pytest.raises(FileNotFoundError):
        roots.place("data/none/file").open_parent()
    assert roots.place("data/sub/none").status() is None
    with pytest.raises(PathRefused):
        roots.place("data").open_parent()


@pytest.mark.parametrize("name", ["a.spca", "a.spca.job", "a.spca.job-journal", "a.spca.partial", "a.spca.002"])
def test_a_link_beside_an_archive_is_refused(root: Path, tmp_path: Path, name: str) -> None:
    place = Roots([str(root)]).place("data/a.spca")
    place.check_family()
    (root / name).symlink_to(tmp_path / "secret")
    with pytest.raises(PathRefused):
        place.check_family()


def test_a_pipe_holds_nobody_up(root: Path) -> None:
    os.mkfifo(root / "pipe")
    with pytest.raises(PathRefused, match="regular"):
        Roots([str(root)]).place("data/pipe").open_file()


def test_leftovers_are_those_of_the_archive(root: Path) -> None:
    place = Roots([str(root)]).place("data/a.spca.001")
    for name in ("a.spca.job", "a.spca.job-wal", "a.spca.partial", "b.spca.job", "a.spca.001"):
        (root / name).touch()
    assert [os.path.basename(path) for path in place.leftovers()] == ["a.spca.partial", "a.spca.job", "a.spca.job-wal"]


@pytest.mark.parametrize("settings", [["/"], ["a/b=/tmp"], ["=/tmp"], ["..=/tmp"], ["/nowhere/at/all"]])
def test_roots_need_names_and_folders(settings: list[str]) -> None:
    with pytest.raises(ArgumentError):
        Roots(settings)


def test_two_roots_of_one_name_are_refused(root: Path, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="two folders"):
        Roots([str(root), f"data={tmp_path}"])


def test_messages_do_not_tell_where_folders_are(root: Path, tmp_path: Path) -> None:
    roots = Roots([str(root)])
    assert roots.hidden(f"{root}/sub/file: no") == "data/sub/file: no"
    assert roots.holds(str(root / "jobs"))
    assert not roots.holds(str(tmp_path / "jobs"))
    assert not roots.holds(str(root) + "2/jobs")


@pytest.mark.parametrize(
    ("one", "two", "conflict"),
    [
        (Claim(("/a",), ("/b",)), Claim(("/a",), ("/c",)), False),
        (Claim((), ("/b",)), Claim((), ("/b",)), True),
        (Claim((), ("/b",)), Claim(("/b/c",), ()), True),
        (Claim((), ("/b/c",)), Claim(("/b",), ()), True),
        (Claim((), ("/b",)), Claim((), ("/bc",)), False),
        (Claim((), ("/b",)), Claim((), ("/b.job",)), False),
        (Claim((), ("/b", "/b.")), Claim((), ("/b.job",)), True),
        (Claim(("/b.002",), ()), Claim((), ("/b", "/b.")), True),
        (Claim((), ("/b.",)), Claim((), ("/",)), True),
        (Claim(("/b",), ()), Claim(("/b",), ()), False),
    ],
)
def test_claims(one: Claim, two: Claim, conflict: bool) -> None:
    assert one.conflicts(two) == two.conflicts(one) == conflict
