import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from speccompact.errors import ArgumentError
from speccompact.training import corpusfiles
from speccompact.training.corpusfiles import CorpusFile, read_chunk, scan
from tests.tiny_corpus import LOG, write_corpus
from tests.tiny_vocabulary import tiny_tokenizer


def files_of(folder: Path, *, hold_out: bool = True, length: int = 64) -> dict[str, CorpusFile]:
    return {file.path: file for file in scan(folder, tiny_tokenizer(), length, hold_out=hold_out)}


def test_cuts_cover_every_byte_and_lie_at_line_ends(tmp_path: Path) -> None:
    files = files_of(write_corpus(tmp_path))
    assert list(files) == ["logs/server.log", "plain.txt", "prose/babble.txt", "prose/story.txt"]
    for path, file in files.items():
        content = (tmp_path / path).read_bytes()
        assert (file.size, file.sha256) == (len(content), hashlib.sha256(content).hexdigest())
        assert (file.cuts[0], file.cuts[-1]) == (0, file.size)
        assert list(file.cuts) == sorted(set(file.cuts))
        assert file.held_from in file.cuts
    log = (tmp_path / "logs/server.log").read_bytes()
    assert all(log[cut - 1 : cut] == b"\n" for cut in files["logs/server.log"].cuts[1:])


def test_cuts_do_not_depend_on_how_a_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = files_of(write_corpus(tmp_path))
    monkeypatch.setattr(corpusfiles, "_READ_BYTES", 1000)
    assert files_of(tmp_path) == whole


def test_chunks_hold_about_a_slot(tmp_path: Path) -> None:
    for length in (64, 256):
        file = files_of(write_corpus(tmp_path), length=length)["logs/server.log"]
        with open(tmp_path / file.path, "rb") as stream:
            sizes = [
                tiny_tokenizer().encode(stream.read(stop - start)).size
                for start, stop in zip(file.cuts, file.cuts[1:], strict=False)
            ]
        assert max(sizes) < 1.3 * length
        assert sum(sizes) / len(sizes) > 0.7 * length


def test_the_tail_of_a_long_file_is_held_out(tmp_path: Path) -> None:
    files = files_of(write_corpus(tmp_path))
    log = files["logs/server.log"]
    assert 0 < log.size - log.held_from <= log.size // 50
    assert (tmp_path / log.path).read_bytes()[log.held_from - 1 : log.held_from] == b"\n"
    assert files_of(tmp_path, hold_out=False)["logs/server.log"].held_from == log.size


def test_a_tail_is_never_long(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(LOG * 40)
    file = files_of(tmp_path)["x"]
    assert 32_000 < file.size - file.held_from <= 32 * 1024


@pytest.mark.parametrize("unit", ["я" * 20_000, "\x80" * 40_000, "a" * 40_000])
def test_text_without_line_ends(tmp_path: Path, unit: str) -> None:
    content = unit.encode("latin-1" if unit[0] == "\x80" else "utf-8")
    (tmp_path / "x").write_bytes(content)
    file = files_of(tmp_path)["x"]
    assert 0 < file.size - file.held_from <= 1000
    if unit[0] == "я":
        assert all(cut % 2 == 0 for cut in file.cuts)


@pytest.mark.parametrize(("count", "held"), [(1, []), (2, [1]), (49, [48]), (50, [49]), (101, [49, 99])])
def test_of_short_files_some_are_held_out_whole(tmp_path: Path, count: int, held: list[int]) -> None:
    for number in range(count):
        (tmp_path / f"{number:03}").write_text("a few words\n" * 5)
    files = list(files_of(tmp_path).values())
    assert [number for number, file in enumerate(files) if file.held_from == 0] == held
    assert all(file.held_from in (0, file.size) for file in files)


def test_kinds(tmp_path: Path) -> None:
    for name in ("a", "b/c", "languages/ru/x", "languages/README"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("words\n")
    kinds = {path: (file.kind, file.fine_kind) for path, file in files_of(tmp_path).items()}
    assert kinds == {
        "a": ("text", "text"),
        "b/c": ("b", "b"),
        "languages/README": ("languages", "languages"),
        "languages/ru/x": ("languages", "languages/ru"),
    }


def test_hidden_and_empty_files_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    for name in (".git/config", ".hidden", "seen"):
        (tmp_path / name).write_text("words\n")
    (tmp_path / "empty").write_bytes(b"")
    assert list(files_of(tmp_path)) == ["seen"]


def test_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="no files"):
        files_of(tmp_path)
    with pytest.raises(FileNotFoundError, match="no such folder"):
        files_of(tmp_path / "missing")


def test_a_file_that_became_shorter(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"0123")
    assert read_chunk(tmp_path, "x", 1, 3) == b"12"
    with pytest.raises(ArgumentError, match="changed"):
        read_chunk(tmp_path, "x", 2, 5)


def test_a_file_that_becomes_shorter_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_bytes(b"0123")
    monkeypatch.setattr(os, "pread", lambda *_: b"")
    with pytest.raises(ArgumentError, match=f"^{tmp_path}/x: the file became shorter"):
        files_of(tmp_path)


def test_a_folder_that_cannot_be_read_is_not_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "x").write_text("words")
    scandir = os.scandir

    def refuse(place: str) -> Any:
        if str(place).endswith("sub"):
            raise PermissionError(13, "Permission denied", place)
        return scandir(place)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(PermissionError):
        files_of(tmp_path)
