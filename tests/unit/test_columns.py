import pytest
from hypothesis import given
from hypothesis import strategies as st

from speccompact.archive.columns import (
    pack_blobs,
    pack_names,
    pack_numbers,
    pack_strings,
    unpack_blobs,
    unpack_names,
    unpack_numbers,
    unpack_strings,
)
from speccompact.container.fields import Cursor
from speccompact.errors import FormatError

STRINGS = st.lists(st.binary(max_size=20).map(lambda value: value.replace(b"\0", b"")), max_size=20)


@given(st.lists(st.integers(-(1 << 61), 1 << 61), max_size=30))
def test_numbers_come_back(values: list[int]) -> None:
    data = pack_numbers(values)
    cursor = Cursor(data)
    assert unpack_numbers(cursor, len(values), "x") == values
    assert cursor.position == len(data)


@given(STRINGS)
def test_strings_and_names_come_back(values: list[bytes]) -> None:
    assert unpack_strings(Cursor(pack_strings(values)), len(values), "x") == values
    assert unpack_names(Cursor(pack_names(values)), len(values), "x") == values


@given(st.lists(st.binary(max_size=20), max_size=20))
def test_blobs_come_back(values: list[bytes]) -> None:
    assert unpack_blobs(Cursor(pack_blobs(values)), len(values), "x") == values


def test_equal_numbers_take_no_room() -> None:
    assert len(pack_numbers([7] * 1_000_000)) == 2


@given(st.binary(max_size=40), st.integers(0, 50))
def test_any_bytes_are_read_or_refused(data: bytes, count: int) -> None:
    for unpack in (unpack_numbers, unpack_strings, unpack_names, unpack_blobs):
        try:
            assert len(unpack(Cursor(data), count, "x")) == count
        except FormatError:
            continue


def test_strings_that_are_not_as_many_as_declared_are_refused() -> None:
    with pytest.raises(FormatError, match="has not 3 strings"):
        unpack_strings(Cursor(pack_strings([b"a", b"b"])), 3, "x")
