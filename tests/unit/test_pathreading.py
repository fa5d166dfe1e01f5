from pathlib import Path

import pytest

from speccompact.archive.entries import Entry
from speccompact.archive.pathreading import read_file
from speccompact.errors import ArgumentError, DamagedError
from tests.archive_trees import forge, make_tree, opened, pack


def test_every_file_is_read_from_the_groups_that_hold_it(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree")
    pack(tmp_path / "a.spca", tree)
    with opened(tmp_path / "a.spca") as archive:
        assert len(archive.catalogue.groups) >= 3
        for name in ("docs/3.txt", "noise.bin", "holes", "empty", "twin", "zeros.dat"):
            groups: list[int] = []
            data = b"".join(read_file(archive, f"tree/{name}".encode(), groups.append))
            assert data == (tree / name).read_bytes()
            assert len(groups) == (name != "empty")


def test_what_is_no_file(tmp_path: Path) -> None:
    pack(tmp_path / "a.spca", make_tree(tmp_path / "tree"))
    with opened(tmp_path / "a.spca") as archive:
        with pytest.raises(ArgumentError, match="folder"):
            next(read_file(archive, b"tree/docs"))
        with pytest.raises(FileNotFoundError):
            next(read_file(archive, b"tree/nothing"))


def test_wrong_bytes_are_not_given_to_the_end(tmp_path: Path) -> None:
    forge(tmp_path / "x.spca", [([Entry(b"a", size=4), Entry(b"b", size=4)], b"aaaabbbb")])
    with opened(tmp_path / "x.spca") as archive:
        a, b = archive.entries[b"a"], archive.entries[b"b"]
    forge(
        tmp_path / "y.spca",
        [([Entry(b"a", size=4), Entry(b"b", size=4)], b"aaaabbbb")],
        catalogue=[a._replace(pieces=b.pieces), b],
    )
    with opened(tmp_path / "y.spca") as archive, pytest.raises(DamagedError, match="digest"):
        b"".join(read_file(archive, b"a"))
