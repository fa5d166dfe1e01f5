"""docs/ratio.tsv: sizes of archives to the byte. A change of bytes that it does not tell of fails here."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from speccompact.modelstore.registry import DEFAULT_MODEL
from tests.source_tree import ROOT, load_script
from tests.tiny_model import GOLDEN, TINY_DIGEST, TINY_EXACT

ratio = load_script("ratio")
ROWS = sorted(ratio.read_results().items())
TINY_ROWS = [row for row in ROWS if row[0].model == "tiny"]
SAMPLE_ROWS = [row for row in ROWS if row[0].model == DEFAULT_MODEL and (ROOT / "samples" / row[0].file).exists()]


def named(rows: list[tuple[Any, int]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("key", "size"), rows, ids=[f"{key.file}-{key.level}" for key, _ in rows])


def content_of(path: Path, size: int, sha256: str) -> bytes:
    content = path.read_bytes()[:size]
    assert hashlib.sha256(content).hexdigest().startswith(sha256), f"{path.name} has changed: measure it again"
    return content


def test_small_files_are_there_at_every_level() -> None:
    assert {key.level for key, _ in TINY_ROWS} == set(range(1, 10))
    assert {key.digest for key, _ in TINY_ROWS} == {TINY_DIGEST[: ratio.DIGITS]}
    assert len(SAMPLE_ROWS) >= 3


@named(TINY_ROWS)
def test_sizes_with_the_small_model(key: Any, size: int) -> None:
    content = content_of(GOLDEN / "valid" / key.file, key.size, key.sha256)
    assert ratio.compressed_size(content, str(TINY_EXACT), key.level) == size


@pytest.mark.real_model
@named(SAMPLE_ROWS)
def test_sizes_with_the_default_model(key: Any, size: int) -> None:
    content = content_of(ROOT / "samples" / key.file, key.size, key.sha256)
    assert ratio.key_of(key.file, content, DEFAULT_MODEL, key.level) == key
    assert ratio.compressed_size(content, DEFAULT_MODEL, key.level) == size


def test_rows_are_written_as_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = ratio.RESULTS.read_text("utf-8")
    monkeypatch.setattr(ratio, "RESULTS", tmp_path / "ratio.tsv")
    ratio.write_results(dict(ROWS))
    assert (tmp_path / "ratio.tsv").read_text("utf-8") == before


def test_a_measurement_takes_the_place_of_an_older_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ratio, "RESULTS", tmp_path / "ratio.tsv")
    monkeypatch.setattr(ratio, "compressed_size", lambda content, model, level: len(content) + level)
    text = tmp_path / "text"
    text.write_bytes(bytes(500))
    for _ in range(2):
        ratio.measure([str(text), f"{text}:100"], str(TINY_EXACT), [1, 5])
    sizes = sorted((key.size, key.level, size) for key, size in ratio.read_results().items())
    assert sizes == [(100, 1, 101), (100, 5, 105), (500, 1, 501), (500, 5, 505)]
