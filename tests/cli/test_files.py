import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from speccompact.errors import ArgumentError
from speccompact_cli.files import AtomicFile, Source, open_source, open_target, remove_source

OLD, NEW = b"old content", b"new content"


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def source(tmp_path: Path, stack: ExitStack) -> Source:
    path = tmp_path / "source"
    path.write_bytes(b"input")
    path.chmod(0o640)
    os.utime(path, ns=(1_000_000_007, 2_000_000_009))
    return stack.enter_context(open_source(str(path)))


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_a_new_file_takes_mode_and_time_of_the_input(tmp_path: Path, source: Source) -> None:
    with open_target(str(tmp_path / "out"), overwrite=False, source=source, binary=True) as stream:
        stream.write(NEW)
        assert not (tmp_path / "out").exists()
    status = (tmp_path / "out").stat()
    assert (tmp_path / "out").read_bytes() == NEW
    assert stat.S_IMODE(status.st_mode) == 0o640
    assert status.st_mtime_ns == 2_000_000_009
    assert names(tmp_path) == ["out", "source"]


def test_special_mode_bits_are_not_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "source"
    path.touch()
    path.chmod(0o4755)
    with (
        open_source(str(path)) as source,
        open_target(str(tmp_path / "out"), overwrite=False, source=source, binary=True),
    ):
        pass
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o755


def test_content_from_a_pipe_gets_the_usual_mode(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        with AtomicFile(str(tmp_path / "out"), overwrite=False, like=None) as target:
            target.commit()
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o640


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, source: Source, error: type[BaseException]
) -> None:
    (tmp_path / "out").write_bytes(OLD)
    with (
        pytest.raises(error),
        open_target(str(tmp_path / "out"), overwrite=True, source=source, binary=True) as stream,
    ):
        stream.write(NEW)
        raise error
    assert (tmp_path / "out").read_bytes() == OLD
    assert names(tmp_path) == ["out", "source"]


def test_an_existing_file_is_kept_unless_told_otherwise(tmp_path: Path, source: Source) -> None:
    target = tmp_path / "out"
    target.write_bytes(OLD)
    with (
        pytest.raises(FileExistsError, match="-f"),
        open_target(str(target), overwrite=False, source=source, binary=True),
    ):
        pass
    assert target.read_bytes() == OLD
    with open_target(str(target), overwrite=True, source=source, binary=True) as stream:
        stream.write(NEW)
    assert target.read_bytes() == NEW


def test_a_file_that_appears_meanwhile_is_kept_too(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with AtomicFile(str(target), overwrite=False, like=None) as file:
        target.write_bytes(OLD)
        with pytest.raises(FileExistsError):
            file.commit()
    assert target.read_bytes() == OLD
    assert names(tmp_path) == ["out"]


def test_without_hard_links_the_rename_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_old: str, _new: str) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with AtomicFile(str(tmp_path / "out"), overwrite=False, like=None) as file:
        file.stream.write(NEW)
        file.commit()
    assert names(tmp_path) == ["out"]


def test_a_full_disk_at_the_commit_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with AtomicFile(str(tmp_path / "out"), overwrite=False, like=None) as file, pytest.raises(OSError, match="space"):
        file.commit()
    assert names(tmp_path) == []


def test_input_and_output_must_differ(tmp_path: Path, source: Source) -> None:
    (tmp_path / "same").symlink_to(source.path)
    for name in (source.path, str(tmp_path / "same")):
        with (
            pytest.raises(ArgumentError, match="same file"),
            open_target(name, overwrite=True, source=source, binary=True),
        ):
            pass


def test_a_link_is_followed(tmp_path: Path, source: Source) -> None:
    (tmp_path / "real").write_bytes(OLD)
    (tmp_path / "link").symlink_to("real")
    with open_target(str(tmp_path / "link"), overwrite=True, source=source, binary=True) as stream:
        stream.write(NEW)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == NEW


def test_folders_are_refused_both_ways(tmp_path: Path, source: Source) -> None:
    with pytest.raises(IsADirectoryError), open_source(str(tmp_path)):
        pass
    with pytest.raises(IsADirectoryError), open_target(str(tmp_path), overwrite=True, source=source, binary=True):
        pass


def test_a_device_is_written_in_place(source: Source) -> None:
    with open_target(os.devnull, overwrite=False, source=source, binary=True) as stream:
        stream.write(NEW)
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


@pytest.mark.parametrize("change", ["append", "cut", "rewrite"])
def test_an_input_that_changed_meanwhile_is_kept(change: str, source: Source) -> None:
    with open(source.path, "r+b") as file:
        if change == "append":
            file.seek(0, os.SEEK_END)
            file.write(b"one more line\n")
        elif change == "cut":
            file.truncate(1)
        else:
            file.write(b"X")
    os.utime(source.path, ns=(0, 12345 if change == "rewrite" else source.status.st_mtime_ns if source.status else 0))
    with pytest.raises(ArgumentError, match="changed meanwhile"):
        remove_source(source)
    assert os.path.exists(source.path)


def test_a_removed_input_was_the_one_that_was_read(tmp_path: Path, source: Source) -> None:
    replacement = tmp_path / "replacement"
    replacement.write_bytes(NEW)
    replacement.replace(source.path)
    with pytest.raises(ArgumentError, match="replaced"):
        remove_source(source)
    assert Path(source.path).read_bytes() == NEW


def test_only_regular_files_are_removed(tmp_path: Path, source: Source) -> None:
    link = tmp_path / "link"
    link.symlink_to(source.path)
    with open_source(str(link)) as linked, pytest.raises(ArgumentError, match="regular"):
        remove_source(linked)
    remove_source(source)
    assert not Path(source.path).exists()
