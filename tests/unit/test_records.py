import pytest
from hypothesis import given
from hypothesis import strategies as st

from speccompact.archive.records import (
    HEAD_BYTES,
    HEADER_BYTES,
    MAX_GROUP_BYTES,
    TRAILER_BYTES,
    Coding,
    RecordHead,
    RecordKind,
    Trailer,
    pack_head,
    pack_header,
    pack_trailer,
    unpack_head,
    unpack_header,
    unpack_trailer,
)
from speccompact.errors import DamagedError, FormatError, NotSpecCompactError, TruncatedError

ID = b"abcdefgh"
HEAD = RecordHead(RecordKind.GROUP, Coding.TEXT, 1, 7, 100, 200, 300, ID)
TRAILER = Trailer(1000, 200, 1200 + TRAILER_BYTES, 3, ID)


def test_sizes_are_those_of_the_document() -> None:
    assert (HEADER_BYTES, HEAD_BYTES, TRAILER_BYTES) == (24, 48, 52)


def test_structures_come_back() -> None:
    assert unpack_header(pack_header(ID)) == ID
    assert unpack_head(pack_head(HEAD)) == HEAD
    assert unpack_trailer(pack_trailer(TRAILER)) == TRAILER


@given(st.integers(0, HEAD_BYTES - 1), st.integers(0, 7))
def test_every_flipped_bit_of_a_head_is_noticed(at: int, bit: int) -> None:
    data = bytearray(pack_head(HEAD))
    data[at] ^= 1 << bit
    with pytest.raises(FormatError):
        unpack_head(bytes(data))


@given(st.integers(0, TRAILER_BYTES - 1), st.integers(0, 7))
def test_every_flipped_bit_of_a_trailer_is_noticed(at: int, bit: int) -> None:
    data = bytearray(pack_trailer(TRAILER))
    data[at] ^= 1 << bit
    with pytest.raises(DamagedError):
        unpack_trailer(bytes(data))


def test_what_is_no_archive_is_told_from_what_is_cut() -> None:
    with pytest.raises(NotSpecCompactError):
        unpack_header(b"PK\3\4" + bytes(30))
    with pytest.raises(TruncatedError):
        unpack_header(pack_header(ID)[:-1])
    with pytest.raises(TruncatedError):
        unpack_head(pack_head(HEAD)[:-1])


def test_heads_that_contradict_themselves_are_refused() -> None:
    for head in (
        RecordHead(RecordKind.GROUP, Coding.TEXT, 0, 0, 10, 10, MAX_GROUP_BYTES + 1, ID),
        RecordHead(RecordKind.GROUP, Coding.NONE, 0, 0, 10, 10, 10, ID),
        RecordHead(RecordKind.GROUP, Coding.RAW, 0, 0, 10, 0, 10, ID),
    ):
        with pytest.raises(DamagedError):
            unpack_head(pack_head(head))
