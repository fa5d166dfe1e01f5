"""Plans of groups: who sits with whom, in which order, cut where."""

import hashlib
from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from speccompact.archive.content import Content
from speccompact.archive.entries import Entry, FileType
from speccompact.archive.planning import PlannedGroup, extension, plan_groups, text_group_bytes
from speccompact.archive.records import MAX_GROUP_BYTES, Coding
from speccompact.archive.similarity import signature
from speccompact.archive.treewalk import Found
from speccompact.params import level_params
from tests.fakes import prose

ROOM = 1000
Item = tuple[Found, Content | None]


def text(path: bytes, data: bytes, room: int = ROOM, is_text: bool = True) -> Item:
    """Return what is known of a file: its digests are right, nothing is on disk."""
    pieces = tuple(hashlib.sha256(data[at : at + room]).digest() for at in range(0, len(data), room))
    content = Content(hashlib.sha256(data).digest(), is_text, signature(data) if is_text else (), pieces, room)
    return Found(Entry(path, size=len(data)), "/" + path.decode()), content


def folder(path: bytes) -> Item:
    return Found(Entry(path, FileType.FOLDER), "/" + path.decode()), None


def planned(*items: Item, first: int = 0) -> list[PlannedGroup]:
    return list(plan_groups(items, first))


def paths(group: PlannedGroup) -> list[list[bytes]]:
    return [[entry.path for entry in piece.entries] for piece in group.pieces]


def test_bare_entries_then_text_then_the_rest() -> None:
    groups = planned(text(b"x.bin", b"\0" * 99, is_text=False), text(b"a.txt", prose(500)), folder(b"f"), first=7)
    assert [(group.number, group.coding) for group in groups] == [(7, Coding.NONE), (8, Coding.TEXT), (9, Coding.ZSTD)]
    assert [entry.path for entry in groups[0].bare] == [b"f"]
    assert paths(groups[1]) == [[b"a.txt"]]
    assert groups[2].content_bytes == 99


def test_the_plan_does_not_depend_on_the_order_of_the_walk() -> None:
    items = [text(b"b.txt", prose(300, 1)), text(b"a.md", prose(300, 2)), folder(b"f"), text(b"a.txt", prose(300, 1))]
    plans = [planned(*order) for order in permutations(items)]
    assert all(plan == plans[0] for plan in plans)


def test_extensions_stay_together() -> None:
    (group,) = planned(*[text(name, prose(90, at)) for at, name in enumerate([b"1.py", b"2.md", b"3.PY", b"4"])])
    assert paths(group) == [[b"4"], [b"2.md"], [b"1.py"], [b"3.PY"]]


def test_equal_bytes_are_planned_once() -> None:
    (group,) = planned(text(b"b", prose(300)), text(b"a", prose(300)), text(b"c", prose(301)))
    assert sorted(map(tuple, paths(group))) == [(b"a", b"b"), (b"c",)]
    assert group.content_bytes == 601
    places = {entry.path: entry.pieces for piece in group.pieces for entry in piece.entries}
    assert places[b"a"] == places[b"b"]


def test_a_file_is_cut_only_if_it_is_longer_than_a_group() -> None:
    groups = planned(text(b"a", prose(600, 1)), text(b"b", prose(600, 2)), text(b"long", prose(2 * ROOM + 10, 3)))
    assert [group.content_bytes for group in groups] == [600, 600, ROOM, ROOM, 10]
    assert [(piece.start, piece.length) for group in groups[2:] for piece in group.pieces] == [
        (0, ROOM),
        (ROOM, ROOM),
        (2 * ROOM, 10),
    ]


@given(st.lists(st.integers(1, 3 * ROOM), max_size=12))
def test_every_byte_is_planned_once_and_groups_keep_their_size(sizes: list[int]) -> None:
    texts = [prose(size, number) for number, size in enumerate(sizes)]
    groups = planned(*(text(b"%d" % number, data) for number, data in enumerate(texts)))
    assert [group.number for group in groups] == list(range(len(groups)))
    assert all(0 < group.content_bytes <= ROOM for group in groups)
    assert sum(group.content_bytes for group in groups) == sum(map(len, set(texts)))
    for group in groups:
        at = 0
        for piece in group.pieces:
            assert piece.entries[0].pieces == ((group.number, at, piece.length),)
            at += piece.length


def test_names_without_an_extension() -> None:
    assert [extension(path) for path in (b"a.tar.GZ", b"x/.profile", b"Makefile", b"a.b/c", b"end.")] == [
        b"gz",
        b"",
        b"",
        b"",
        b"",
    ]


def test_a_group_holds_what_the_memory_of_the_level_holds() -> None:
    sizes = [text_group_bytes(level_params(level)) for level in range(1, 10)]
    assert all(100_000 < size <= MAX_GROUP_BYTES for size in sizes)
    assert text_group_bytes(level_params(5, None, 1 << 20)) == MAX_GROUP_BYTES
