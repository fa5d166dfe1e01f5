from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speccompact.container.fields import Cursor
from speccompact.container.format import (
    END,
    MAGIC,
    SYNC,
    TRAILER,
    TRAILER_BYTES,
    EndBlock,
    FileHeader,
    ModelIdentity,
    SeekIndex,
    frame_check_bytes,
    pack_end_block,
    pack_header,
    parse_end_block,
    parse_header,
    parse_trailer,
    sha_prefix,
)
from speccompact.errors import DamagedError, FormatError, NotSpecCompactError, TruncatedError, UnsupportedError

models = st.builds(
    ModelIdentity,
    st.integers(0, 255),
    st.integers(0, 255),
    st.binary(min_size=8, max_size=8),
    st.binary(min_size=2, max_size=2),
)
headers = st.builds(FileHeader, st.integers(0, 15), st.none() | models, st.none() | st.binary(min_size=4, max_size=4))
sizes = st.integers(0, (1 << 58) - 1)


@given(headers)
def test_headers_come_back(header: FileHeader) -> None:
    data = pack_header(header)
    cursor = Cursor(data + b"rest")
    assert parse_header(cursor) == header
    assert cursor.position == len(data)


@given(st.lists(st.tuples(sizes, sizes), min_size=1, max_size=20), headers, st.binary(min_size=8, max_size=8))
def test_end_blocks_come_back(frames: list[tuple[int, int]], header: FileHeader, check: bytes) -> None:
    index = SeekIndex(array("Q", [frame[0] for frame in frames]), array("Q", [frame[1] for frame in frames]))
    block = EndBlock(index, pack_header(header), check)
    data = pack_end_block(block)
    cursor = Cursor(data)
    assert parse_end_block(cursor) == block
    assert cursor.position == len(data) - TRAILER_BYTES
    block_bytes, part_bytes = parse_trailer(data[-TRAILER_BYTES:])
    assert block_bytes == cursor.position
    assert part_bytes == len(pack_header(header)) + 4 + sum(index.compressed) + len(data)


def test_sizes() -> None:
    model = ModelIdentity(1, 28, bytes(8), bytes(2))
    assert len(pack_header(FileHeader(5, None, None))) == 6
    assert len(pack_header(FileHeader(5, model, None))) == 18
    assert len(pack_header(FileHeader(5, model, bytes(4)))) == 22
    assert frame_check_bytes(single=True, slots=1) == 4
    assert frame_check_bytes(single=True, slots=2) == frame_check_bytes(single=False, slots=1) == 8


def test_markers_are_far_from_each_other_and_from_text() -> None:
    for marker in (MAGIC, SYNC, END, TRAILER):
        with pytest.raises(UnicodeDecodeError):
            marker.decode()
    for first, second in ((MAGIC, SYNC), (MAGIC, END), (SYNC, END), (SYNC, TRAILER), (END, TRAILER)):
        distance = int.from_bytes(first, "big") ^ int.from_bytes(second, "big")
        assert distance.bit_count() >= 5


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", TruncatedError),
        (MAGIC, TruncatedError),
        (b"PK\x03\x04", NotSpecCompactError),
        (b"\xd3SPX\x01\x01", NotSpecCompactError),
        (MAGIC + b"\x02\x01", UnsupportedError),
        (MAGIC + b"\x01\x05", UnsupportedError),
        (MAGIC + b"\x01\x08", UnsupportedError),
        (MAGIC + b"\x01\x02abcd", TruncatedError),
    ],
)
def test_headers_that_are_none(data: bytes, error: type[FormatError]) -> None:
    with pytest.raises(error):
        parse_header(Cursor(data))


def test_any_damage_to_an_end_block_is_found() -> None:
    index = SeekIndex.empty()
    index.add(100, 1000)
    index.add(120, 900)
    data = pack_end_block(EndBlock(index, pack_header(FileHeader(5, None, b"abcd")), bytes(8)))[:-TRAILER_BYTES]
    for at in range(len(data)):
        for bit in range(8):
            broken = data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
            with pytest.raises(FormatError):
                parse_end_block(Cursor(broken))


def test_trailers_that_are_none() -> None:
    with pytest.raises(TruncatedError):
        parse_trailer(TRAILER)
    with pytest.raises(DamagedError):
        parse_trailer(bytes(TRAILER_BYTES))


def test_checks_are_prefixes_of_sha256() -> None:
    assert sha_prefix(4, b"a", b"bc").hex() == "ba7816bf"
