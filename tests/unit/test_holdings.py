"""What an archive holds, in numbers that add up."""

from pathlib import Path

import pytest

from speccompact.archive.appending import append
from speccompact.archive.entries import Entry, FileType, Piece
from speccompact.archive.groupexecutors import LocalExecutor
from speccompact.archive.holdings import Holding, Holdings, survey
from speccompact.archive.request import Request
from speccompact.options import Options
from tests.archive_trees import forge, make_tree, opened, pack
from tests.fakes import FakeEngines, prose


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("holdings")
    make_tree(folder / "tree")
    (folder / "tree" / "long.txt").write_bytes(prose(30_000, 77))
    pack(folder / "a.spca", folder / "tree", slot_tokens=16)
    return folder / "a.spca"


def surveyed(path: Path) -> Holdings:
    with opened(path) as archive:
        return survey(archive)


def test_parts_add_up_to_the_whole(packed: Path) -> None:
    holdings = surveyed(packed)
    assert holdings.whole.archive_bytes == packed.stat().st_size
    assert sum(kind.archive_bytes for kind in holdings.kinds) == pytest.approx(holdings.payload_bytes)
    assert sum(kind.files for kind in holdings.kinds) == holdings.types[FileType.FILE]
    assert sum(size for _, size in holdings.years) == holdings.whole.content_bytes
    with opened(packed) as archive:
        places = archive.catalogue.groups.values()
        assert holdings.whole.stored_bytes == sum(place.content_bytes for place in places)
        assert holdings.whole.content_bytes == sum(entry.size for entry in archive.entries.values())
        assert holdings.groups == len(places)
    assert holdings.replaced_bytes == holdings.appends == 0


def test_kinds_and_files(packed: Path) -> None:
    holdings = surveyed(packed)
    kinds = {kind.name: kind for kind in holdings.kinds}
    assert list(holdings.kinds) == sorted(holdings.kinds, key=lambda kind: -kind.content_bytes)
    assert kinds[b"txt"].is_text
    assert not kinds[b"bin"].is_text
    assert kinds[b"bin"].bpb == pytest.approx(kinds[b"dat"].bpb)  # of one group
    assert (kinds[b"md"].content_bytes, kinds[b"md"].stored_bytes) == (900, 0)  # those of `docs/0.txt`
    assert [file.name for file in holdings.largest][:2] == [b"tree/holes", b"tree/zeros.dat"]
    assert holdings.worst[0].name in (b"tree/noise.bin", b"tree/zeros.dat")
    assert all(a.bpb >= b.bpb for a, b in zip(holdings.worst, holdings.worst[1:], strict=False))


def test_appends_leave_bytes_behind(packed: Path, tmp_path: Path) -> None:
    make_tree(tmp_path / "tree")
    pack(tmp_path / "a.spca", tmp_path / "tree")
    (tmp_path / "tree" / "noise.bin").write_bytes(bytes(range(256)) * 10)
    request = Request((str(tmp_path / "tree"),), level=2)
    append(str(tmp_path / "a.spca"), request, executor=LocalExecutor(Options(), FakeEngines()))
    holdings = surveyed(tmp_path / "a.spca")
    assert (holdings.appends, holdings.replaced_bytes) == (1, 30_000)


def test_an_archive_of_nothing_and_times_that_no_calendar_knows(tmp_path: Path) -> None:
    odd = Entry(b"odd", size=3, mtime_ns=(1 << 62) * 1_000_000_000)
    assert surveyed(forge(tmp_path / "a", [([odd, Entry(b"none")], b"abc")])).years == ((1970, 0),)
    empty = surveyed(forge(tmp_path / "b", []))
    assert (empty.kinds, empty.largest, empty.worst) == ((), (), ())
    assert Holding(b"").bpb == 0


def test_pieces_that_are_shared_are_not_more_than_there_is(tmp_path: Path) -> None:
    entries = [Entry(b"%d" % n, size=3, pieces=(Piece(0, 1, 3),), digest=b"12345678") for n in range(3)]
    holdings = surveyed(forge(tmp_path / "a", [(entries, b"abcde")]))
    assert holdings.replaced_bytes == 2
    assert holdings.whole.stored_bytes == 3
