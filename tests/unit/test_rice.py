import pytest
from hypothesis import given
from hypothesis import strategies as st

from speccompact.container.fields import Cursor
from speccompact.container.rice import BitReader, BitWriter, pop_rice, push_rice, rice_bits, unzigzag, zigzag
from speccompact.errors import DamagedError, TruncatedError


def packed(values: list[int]) -> bytes:
    writer = BitWriter()
    push_rice(writer, values)
    return writer.close()


@given(st.lists(st.one_of(st.integers(-70, 70), st.integers(-(2**24), 2**24)), max_size=80))
def test_lists_come_back(values: list[int]) -> None:
    data = packed(values)
    cursor = Cursor(data + b"\xff")
    reader = BitReader(cursor, "table")
    assert pop_rice(reader, len(values)) == values
    reader.close()
    assert cursor.position == len(data)


@given(st.integers(-(2**31), 2**31 - 1))
def test_zigzag_comes_back(value: int) -> None:
    assert unzigzag(zigzag(value)) == value


def test_known_bits() -> None:
    # k = 0 in 4 bits; 0, -1, 1 are 0, 10, 110.
    assert packed([0, -1, 1]) == bytes([0b0000_0101, 0b1000_0000])
    assert rice_bits([0, 1, 2], 0) == 6


def test_small_values_take_few_bits() -> None:
    assert len(packed([5, -6, 3, 0, -2] * 20)) <= 100 * 5 // 8 + 1


def test_padding_must_be_zero() -> None:
    reader = BitReader(Cursor(bytes([0b0000_0001])), "table")
    assert pop_rice(reader, 1) == [0]
    with pytest.raises(DamagedError, match="padding"):
        reader.close()


def test_the_end_of_the_data() -> None:
    with pytest.raises(TruncatedError):
        pop_rice(BitReader(Cursor(b"\xff"), "table"), 2)
