import lzma
from pathlib import Path

import pytest

from speccompact.archive.comparing import compare
from speccompact.archive.events import Event
from tests.archive_trees import forge, make_tree, opened, pack
from tests.fakes import prose


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("comparing")
    make_tree(folder / "tree")
    (folder / "tree" / "long.txt").write_bytes(prose(30_000, 77))
    pack(folder / "a.spca", folder / "tree", slot_tokens=16)
    return folder / "a.spca"


def test_all_of_it(packed: Path) -> None:
    heard: list[Event] = []
    with opened(packed) as archive:
        found = compare(archive, 1 << 30, heard.append)
        assert found == compare(archive, 1 << 30)
        places = [place for place in archive.catalogue.groups.values() if place.content_bytes]
        content = b""
        for place in sorted(places, key=lambda place: place.number):
            with archive.content(place.number) as stream:
                content += stream.read()
    assert found is not None
    assert (found.groups, found.content_bytes) == (len(places), len(content))
    assert found.archive_bytes == sum(place.payload_bytes for place in places)
    assert found.xz_bytes == pytest.approx(len(lzma.compress(content, preset=9 | lzma.PRESET_EXTREME)), abs=64)
    assert found.zstd_bytes > found.xz_bytes // 2
    assert heard[-1].values["done"] == heard[-1].values["total"] == len(content)


def test_a_sample_is_of_groups_from_all_over(packed: Path) -> None:
    with opened(packed) as archive:
        numbers: list[object] = []
        some = compare(archive, 9000, lambda event: numbers.append(event.values["number"]))
        least = compare(archive, 1)
    assert some is not None
    assert least is not None
    assert least.groups == 1 < some.groups
    assert some.content_bytes <= 9000
    assert numbers != list(range(1, len(numbers) + 1))


def test_nothing_to_compare(tmp_path: Path) -> None:
    with opened(forge(tmp_path / "a", [])) as archive:
        assert compare(archive, 1000) is None
