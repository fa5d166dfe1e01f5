from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speccompact.archive.columns import pack_numbers
from speccompact.archive.entries import Entry, FileType, Piece
from speccompact.archive.entrytable import pack_entries, unpack_entries
from speccompact.container.fields import Cursor
from speccompact.errors import DamagedError, FormatError, LimitError

NAMES = st.binary(min_size=1, max_size=12).map(lambda value: value.replace(b"\0", b"x"))


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    kind = draw(st.sampled_from(FileType))
    size, digest = 0, b""
    segments: tuple[tuple[int, int], ...] | None = None
    pieces: tuple[Piece, ...] = ()
    if kind == FileType.FILE:
        size = draw(st.integers(0, 1 << 40))
        if size > 20 and draw(st.booleans()):
            segments = ((1, 3), (6, draw(st.integers(1, size - 6))))
        stored = sum(length for _, length in segments) if segments else size
        if stored > 1 and draw(st.booleans()):
            cut = draw(st.integers(1, stored - 1))
            first = draw(st.integers(0, 100))
            pieces = (Piece(first, draw(st.integers(0, 1000)), cut), Piece(first + 1, 0, stored - cut))
        elif stored:
            pieces = (Piece(draw(st.integers(0, 9)), draw(st.integers(0, 1000)), stored),)
        digest = draw(st.binary(min_size=8, max_size=8)) if pieces else b""
    return Entry(
        path=draw(NAMES),
        type=kind,
        mode=draw(st.integers(0, 0o7777)),
        mtime_ns=draw(st.integers(-(10**18), 4 * 10**18)),
        uid=draw(st.integers(0, (1 << 32) - 1)),
        gid=draw(st.integers(0, (1 << 32) - 1)),
        user=draw(NAMES),
        group_name=b"",
        size=size,
        link=draw(NAMES) if kind in (FileType.SYMLINK, FileType.HARDLINK) else b"",
        device=draw(st.integers(0, 1 << 40)) if kind in (FileType.CHARACTER, FileType.BLOCK) else 0,
        digest=digest,
        segments=segments,
        xattrs=tuple(draw(st.lists(st.tuples(NAMES, st.binary(max_size=9)), max_size=2))),
        pieces=pieces,
    )


@given(st.lists(entries(), max_size=12))
def test_entries_come_back(values: list[Entry]) -> None:
    data = pack_entries(values, digests=True)
    cursor = Cursor(data)
    assert unpack_entries(cursor, 100) == values
    assert cursor.position == len(data)
    bare = [entry._replace(digest=b"") for entry in values]
    assert unpack_entries(Cursor(pack_entries(values, digests=False)), 100) == bare


@given(st.lists(entries(), min_size=1, max_size=3), st.data())
def test_damage_is_refused_or_harmless(values: list[Entry], data: st.DataObject) -> None:
    packed = bytearray(pack_entries(values, digests=True))
    packed[data.draw(st.integers(0, len(packed) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        for entry in unpack_entries(Cursor(bytes(packed)), 100):
            assert sum(piece.length for piece in entry.pieces) <= entry.stored_bytes
    except (FormatError, LimitError):
        pass


def test_more_entries_than_allowed_are_refused_before_they_are_made() -> None:
    packed = pack_entries([Entry(b"%d" % number) for number in range(11)], digests=False)
    with pytest.raises(LimitError, match="11 entries"):
        unpack_entries(Cursor(packed), 10)


def test_rows_that_take_no_room_are_bounded() -> None:
    packed = bytearray(pack_entries([Entry(b"a")], digests=False))
    # The last columns are three counts of 0 (2 bytes each), each followed by what they count; make the pieces many.
    assert packed[-2:] == b"\0\0"
    with pytest.raises(LimitError, match="piece count"):
        unpack_entries(Cursor(bytes(packed[:-2]) + b"\xfe\xff\xff\xff\x7f\0"), 10)


@pytest.mark.parametrize(
    "entry",
    [
        Entry(b"a", mode=1 << 12),
        Entry(b"a", FileType.FOLDER, size=5),
        Entry(b"a", size=10, segments=((0, 5), (4, 5))),
        Entry(b"a", size=10, segments=((8, 5),)),
        Entry(b"a", size=10, pieces=(Piece(0, 0, 11),)),
        Entry(b"a", size=10, pieces=(Piece(0, 0, 5), Piece(0, 5, 5))),
        Entry(b"a", size=10, pieces=(Piece(1, 0, 5), Piece(0, 0, 5))),
    ],
)
def test_entries_that_contradict_themselves_are_refused(entry: Entry) -> None:
    with pytest.raises(DamagedError):
        unpack_entries(Cursor(pack_entries([entry], digests=False)), 10)


@pytest.mark.parametrize("wrong", [{"uid": -1}, {"gid": 1 << 32}, {"device": -1}, {"mode": 1 << 12}, {"size": -1}])
def test_numbers_that_no_system_takes_are_refused(wrong: dict[str, Any]) -> None:
    packed = pack_entries([Entry(b"a")._replace(**wrong)], digests=False)
    with pytest.raises(DamagedError, match="impossible"):
        unpack_entries(Cursor(packed), 100)


def test_nanoseconds_that_exceed_a_second_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "speccompact.archive.entrytable._split", lambda times: (pack_numbers([0]), pack_numbers([10**9]))
    )
    with pytest.raises(DamagedError, match="nanoseconds"):
        unpack_entries(Cursor(pack_entries([Entry(b"a")], digests=False)), 100)
