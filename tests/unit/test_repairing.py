import os
from pathlib import Path
from typing import BinaryIO

import pytest

from speccompact.archive import repairing
from speccompact.archive.checking import verify
from speccompact.archive.extracting import extract
from speccompact.archive.readoptions import ArchiveLimits
from speccompact.archive.recordreading import read_at
from speccompact.archive.records import HEAD_BYTES, MARKER, TRAILER_BYTES
from speccompact.archive.repairing import repair
from speccompact.errors import ArgumentError, FormatError, LimitError
from tests.archive_trees import facts, make_tree, opened, pack


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make_tree(tmp_path / "tree")


@pytest.mark.parametrize("damage", ["no end", "no trailer", "no header", "catalogue"])
def test_without_header_or_end_nothing_is_lost(tree: Path, tmp_path: Path, damage: str) -> None:
    pack(tmp_path / "a.spca", tree)
    with opened(tmp_path / "a.spca") as archive:
        trailer = archive.trailer
    data = bytearray((tmp_path / "a.spca").read_bytes())
    if damage == "no end":
        del data[trailer.catalogue_offset + 10 :]
    elif damage == "no trailer":
        del data[-TRAILER_BYTES:]
    elif damage == "no header":
        data[:24] = os.urandom(24)
    else:
        data[trailer.catalogue_offset + 80] ^= 1
    (tmp_path / "bad.spca").write_bytes(data)
    with pytest.raises(FormatError):
        opened(tmp_path / "bad.spca")
    summary = repair(str(tmp_path / "bad.spca"), str(tmp_path / "good.spca"))
    assert summary.left_out == ()
    assert (tmp_path / "good.spca").read_bytes() == (tmp_path / "a.spca").read_bytes()


def test_damage_costs_one_group(tree: Path, tmp_path: Path) -> None:
    pack(tmp_path / "a.spca", tree)
    with opened(tmp_path / "a.spca") as archive:
        place = archive.catalogue.groups[archive.entries[b"tree/noise.bin"].pieces[0].group]
        gone = {path for path, entry in archive.entries.items() if any(p.group == place.number for p in entry.pieces)}
    data = bytearray((tmp_path / "a.spca").read_bytes())
    data[place.offset + place.record_bytes - 100] ^= 1
    (tmp_path / "bad.spca").write_bytes(data)
    with opened(tmp_path / "bad.spca") as archive:
        assert {path for path, _ in verify(archive).left_out} == gone
    summary = repair(str(tmp_path / "bad.spca"), str(tmp_path / "good.spca"))
    assert {path for path, _ in summary.left_out} == gone
    with opened(tmp_path / "good.spca") as archive:
        assert verify(archive).left_out == ()
        extract(archive, str(tmp_path / "out"))
    left = {p: f for p, f in facts(tree).items() if b"tree/" + p not in gone}
    assert facts(tmp_path / "out" / "tree") == left


def test_an_archive_inside_is_not_mixed_in(tree: Path, tmp_path: Path) -> None:
    pack(tmp_path / "inner.spca", tree / "noise.bin")
    (tmp_path / "nest").mkdir()
    (tmp_path / "inner.spca").rename(tmp_path / "nest" / "inner.bin")
    pack(tmp_path / "a.spca", tmp_path / "nest")
    (tmp_path / "bad.spca").write_bytes((tmp_path / "a.spca").read_bytes()[:-10])
    repair(str(tmp_path / "bad.spca"), str(tmp_path / "good.spca"))
    assert (tmp_path / "good.spca").read_bytes() == (tmp_path / "a.spca").read_bytes()


def test_nothing_left(tmp_path: Path) -> None:
    (tmp_path / "bad.spca").write_bytes(b"\xd3SPA" + bytes(1000))
    with pytest.raises(FormatError):
        repair(str(tmp_path / "bad.spca"), str(tmp_path / "good.spca"))
    assert not (tmp_path / "good.spca").exists()


def test_an_archive_twice_is_one_archive(tree: Path, tmp_path: Path) -> None:
    pack(tmp_path / "a.spca", tree)
    whole = (tmp_path / "a.spca").read_bytes()
    (tmp_path / "bad.spca").write_bytes(whole + whole)
    assert repair(str(tmp_path / "bad.spca"), str(tmp_path / "good.spca")).left_out == ()
    assert (tmp_path / "good.spca").read_bytes() == whole


def test_markers_that_lead_nowhere_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def counting(stream: BinaryIO, offset: int, size: int) -> bytes:
        read.append(size)
        return read_at(stream, offset, size)

    monkeypatch.setattr(repairing, "read_at", counting)
    (tmp_path / "bad.spca").write_bytes(MARKER * 20_000)
    with pytest.raises(FormatError):
        repair(str(tmp_path / "bad.spca"), str(tmp_path / "good.spca"))
    assert sum(size for size in read if size > HEAD_BYTES) < 1 << 22


def test_limits_are_those_of_the_whole_archive(tree: Path, tmp_path: Path) -> None:
    pack(tmp_path / "a.spca", tree)
    with pytest.raises(LimitError, match="entries"):
        repair(str(tmp_path / "a.spca"), str(tmp_path / "b.spca"), limits=ArchiveLimits(entries=20))


def test_outputs_that_would_lose_something(tree: Path, tmp_path: Path) -> None:
    pack(tmp_path / "a.spca", tree, volume_bytes=5000)
    for name in ("a.spca", "a.spca.001"):
        with pytest.raises(ArgumentError, match="damaged archive"):
            repair(str(tmp_path / "a.spca"), str(tmp_path / name))
    with pytest.raises(ArgumentError, match="local"):
        repair(str(tmp_path / "a.spca"), "memory://bucket/a.spca")
    pack(tmp_path / "b.spca", tree / "docs", volume_bytes=1000)
    repair(str(tmp_path / "a.spca"), str(tmp_path / "b.spca"))
    assert [path.name for path in sorted(tmp_path.glob("b.spca*"))] == ["b.spca"]
