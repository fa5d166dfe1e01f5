"""Every hostile kind comes back, through the facade with the tiny model."""

import os
from pathlib import Path

import pytest

from speccompact import api
from tests.hostile_files import hostile_files
from tests.tiny_model import TINY_EXACT
from tests.tiny_slots import QUIET

FOLDER = os.environ.get("SPECCOMPACT_HOSTILE_DIR")
"""A folder of further files to try; all that it holds, at any depth."""


def there_and_back(content: bytes, slot_tokens: int = 32) -> bytes:
    """Return the archive."""
    archive = api.compress(content, model=str(TINY_EXACT), slot_tokens=slot_tokens, options=QUIET)
    assert api.decompress(archive, options=QUIET) == content
    assert len(archive) <= len(content) * 1.001 + 100
    return archive


@pytest.mark.parametrize("name", hostile_files())
def test_a_hostile_content(tiny_home: Path, name: str) -> None:
    there_and_back(hostile_files()[name])


def test_all_of_them_in_one(tiny_home: Path) -> None:
    small = [content for content in hostile_files().values() if len(content) < 2000]
    there_and_back(b"".join(small), 64)


def test_concatenated_archives_are_an_archive(tiny_home: Path) -> None:
    small = [content for content in hostile_files().values() if len(content) < 900]
    archives = [api.compress(content, model=str(TINY_EXACT), slot_tokens=32, options=QUIET) for content in small]
    assert api.decompress(b"".join(archives), options=QUIET) == b"".join(small)


def further_files() -> list[Path]:
    return sorted(path for path in Path(FOLDER).rglob("*") if path.is_file()) if FOLDER else []


@pytest.mark.skipif(not FOLDER, reason="SPECCOMPACT_HOSTILE_DIR names no folder")
@pytest.mark.parametrize("path", further_files(), ids=lambda path: str(path.relative_to(FOLDER or "/")))
def test_a_further_file(tiny_home: Path, path: Path) -> None:
    there_and_back(path.read_bytes(), 256)
