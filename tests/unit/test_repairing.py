import os
from pathlib import Path

import pytest

from speccompact.archive.checking import verify
from speccompact.archive.extracting import extract
from speccompact.archive.records import TRAILER_BYTES
from speccompact.archive.repairing import repair
from speccompact.errors import FormatError
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
