import pytest
from hypothesis import given
from hypothesis import strategies as st

from speccompact.container.fields import Cursor, pack_varint
from speccompact.errors import DamagedError, TruncatedError


@given(st.integers(0, (1 << 63) - 1))
def test_varints_come_back(value: int) -> None:
    cursor = Cursor(pack_varint(value) + b"rest")
    assert cursor.varint("field") == value
    assert cursor.take(4, "rest") == b"rest"


def test_known_varints() -> None:
    assert pack_varint(0) == b"\x00"
    assert pack_varint(127) == b"\x7f"
    assert pack_varint(300) == b"\xac\x02"


@pytest.mark.parametrize("value", [-1, 1 << 63])
def test_out_of_range(value: int) -> None:
    with pytest.raises(ValueError, match="out of range"):
        pack_varint(value)


@pytest.mark.parametrize("data", [b"\x80\x00", b"\xff" * 9, b"\xff" * 20])
def test_impossible_varints(data: bytes) -> None:
    with pytest.raises(DamagedError, match='"length"'):
        Cursor(data).varint("length")


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 8])
def test_cut_varints(data: bytes) -> None:
    with pytest.raises(TruncatedError, match='"length"'):
        Cursor(data).varint("length")


def test_taking_too_much() -> None:
    with pytest.raises(TruncatedError, match='"digest"'):
        Cursor(b"abc").take(4, "digest")
