import os
from pathlib import Path
from typing import BinaryIO

import pytest

from speccompact.archive import diffing
from speccompact.archive.diffing import diff
from speccompact.archive.request import Request
from speccompact.archive.storage import open_read
from tests.archive_trees import make_tree, opened, pack


def differences(archive: Path, *sources: Path, content: bool = False) -> dict[bytes, tuple[str, ...]]:
    with opened(archive) as file:
        found = diff(file, Request(tuple(map(str, sources))), content=content)
        return {difference.path: difference.what for difference in found}


def test_what_differs(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree")
    pack(tmp_path / "a.spca", tree)
    assert differences(tmp_path / "a.spca", tree, content=True) == {}
    (tree / "new").touch()
    (tree / "noise.bin").unlink()
    (tree / "run.sh").chmod(0o600)
    status = os.stat(tree / "docs" / "5.txt")
    (tree / "docs" / "5.txt").write_bytes(b"x" * status.st_size)
    os.utime(tree / "docs" / "5.txt", ns=(status.st_mtime_ns, status.st_mtime_ns))
    os.utime(tree, ns=(status.st_mtime_ns, status.st_mtime_ns))
    expected = {b"tree/new": ("new",), b"tree/noise.bin": ("missing",), b"tree/run.sh": ("mode",)}
    found = differences(tmp_path / "a.spca", tree)
    assert found.pop(b"tree", ("mtime",)) == ("mtime",)
    assert found == expected
    found = differences(tmp_path / "a.spca", tree, content=True)
    assert found[b"tree/docs/5.txt"] == ("content",)


def test_a_file_that_cannot_be_read_is_told_and_the_rest_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = make_tree(tmp_path / "tree")
    pack(tmp_path / "a.spca", tree)

    def refuse(location: str) -> BinaryIO:
        if location.endswith("/run.sh"):
            raise PermissionError(13, "Permission denied", location)
        return open_read(location)

    monkeypatch.setattr(diffing, "open_read", refuse)
    (tree / "new").touch()
    found = differences(tmp_path / "a.spca", tree, content=True)
    assert found[b"tree/run.sh"] == ("unreadable",)
    assert found[b"tree/new"] == ("new",)
