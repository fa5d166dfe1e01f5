"""Archives of files that were made once are read for ever, to the last bit of what they hold."""

import json
import os
from pathlib import Path

import pytest

from speccompact.archive.archivefile import ArchiveFile
from speccompact.archive.checking import verify
from speccompact.archive.extracting import extract
from tests.archive_trees import facts
from tests.golden.make_archives import ARCHIVES, describe
from tests.tiny_model import TINY_DIGEST
from tests.tiny_slots import QUIET

NAMED = pytest.mark.parametrize("path", sorted(ARCHIVES.glob("*.spca")), ids=lambda path: path.stem)


def test_the_folder_is_complete() -> None:
    assert {path.stem for path in ARCHIVES.glob("*.spca")} == {path.stem for path in ARCHIVES.glob("*.json")}
    assert {path.stem for path in ARCHIVES.glob("*.spca")} >= {"memory", "plain"}


@NAMED
def test_it_is_read(tiny_home: Path, path: Path) -> None:
    assert bytes.fromhex(TINY_DIGEST)[:8] in path.read_bytes()
    assert describe(path, QUIET) == json.loads(path.with_suffix(".json").read_text())


@NAMED
def test_it_is_sound_and_comes_back(tiny_home: Path, tmp_path: Path, path: Path) -> None:
    wanted = json.loads(path.with_suffix(".json").read_text())
    with ArchiveFile(str(path), options=QUIET) as archive:
        assert verify(archive).left_out == ()
        assert extract(archive, str(tmp_path / "out")).left_out == ()
    found = facts(tmp_path / "out")
    assert {os.fsdecode(name) for name in found} == set(wanted)
    for name, (mode, mtime_ns, _, _) in found.items():
        own = wanted[os.fsdecode(name)]
        assert mtime_ns == own["mtime_ns"]
        assert own["type"] == "SYMLINK" or oct(mode & 0o7777) == own["mode"]
