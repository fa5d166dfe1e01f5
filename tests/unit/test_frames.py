import pytest
from hypothesis import given
from hypothesis import strategies as st

from speccompact.container.fields import Cursor, pack_varint
from speccompact.container.frames import FrameHead, Kind, Slot, pack_frame_head, parse_frame_head
from speccompact.errors import DamagedError, FormatError, TruncatedError, UnsupportedError


@st.composite
def heads(draw: st.DrawFn) -> FrameHead:
    slots, content = [], 0
    for _ in range(draw(st.integers(1, 12))):
        size = draw(st.integers(1, 20_000))
        kind = draw(st.sampled_from(Kind))
        payload = size if kind == Kind.RAW else draw(st.integers(1, size))
        if kind == Kind.MODEL:
            slots.append(Slot(kind, payload, None, draw(st.integers(1, min(8192, size))), draw(st.integers(0, 255))))
        else:
            slots.append(Slot(kind, payload, size))
        content += size
    return FrameHead(tuple(slots), content, draw(st.integers(0, 1 << 40)), draw(st.integers(0, 1 << 60)))


@given(heads())
def test_heads_come_back(head: FrameHead) -> None:
    data = pack_frame_head(head, single=False)
    cursor = Cursor(data + b"rest")
    assert parse_frame_head(cursor, single=False) == head
    assert cursor.position == len(data)


@given(heads())
def test_single_frames_leave_out_their_place(head: FrameHead) -> None:
    parsed = parse_frame_head(Cursor(pack_frame_head(head, single=True)), single=True)
    assert parsed == FrameHead(head.slots, head.content_bytes)


@given(heads(), st.data())
def test_cut_heads_are_truncated(head: FrameHead, data: st.DataObject) -> None:
    packed = pack_frame_head(head, single=False)
    with pytest.raises(TruncatedError):
        parse_frame_head(Cursor(packed[: data.draw(st.integers(0, len(packed) - 1))]), single=False)


@given(st.binary(max_size=200))
def test_anything_else_is_a_format_error(data: bytes) -> None:
    try:
        head = parse_frame_head(Cursor(data), single=True)
    except FormatError:
        return
    assert pack_frame_head(head, single=True)[0] & 3 in (0, 1, 2, 3)
    assert head.tokens <= 3 * head.content_bytes
    assert head.payload_bytes <= head.content_bytes + len(head.slots)


def test_a_small_message_takes_eight_bytes() -> None:
    head = FrameHead((Slot(Kind.MODEL, 160, None, 230),), 1000)
    assert len(pack_frame_head(head, single=True)) == 1 + 2 + 2 + 2


def test_a_balanced_table_takes_two_bytes_a_slot() -> None:
    slots = tuple(Slot(Kind.MODEL, 1100 + 97 * (i % 5 - 2), None, 1900 + 7 * (i % 3 - 1)) for i in range(20))
    assert len(pack_frame_head(FrameHead(slots, 150_000), single=True)) <= 11 + 2 * 20


def test_no_slots_only_in_a_single_frame() -> None:
    assert parse_frame_head(Cursor(b"\x02\x00"), single=True) == FrameHead((), 0)
    with pytest.raises(DamagedError, match="slot count"):
        parse_frame_head(Cursor(b"\x02\x00\x00\x00"), single=False)


@pytest.mark.parametrize("first", [0x40, 0x80, 0x0C])
def test_reserved_bits(first: int) -> None:
    with pytest.raises(UnsupportedError):
        parse_frame_head(Cursor(bytes([first]) + bytes(9)), single=True)


@pytest.mark.parametrize(
    ("data", "field"),
    [
        (b"\x02" + pack_varint(4097), "slot count"),
        (b"\x02\x01", "slot count"),
        (b"\x11" + pack_varint(10) + pack_varint(11), "payload bytes"),
        (b"\x10" + pack_varint(10) + pack_varint(31) + pack_varint(1), "token total"),
        (b"\x10" + pack_varint(10) + pack_varint(0) + pack_varint(1), "token total"),
        (b"\x10" + pack_varint(10) + pack_varint(5) + pack_varint(11), "payload total"),
        (b"\x10" + pack_varint(1 << 40) + pack_varint(1 << 40) + pack_varint(11), "slot table"),
        (b"\x02\x02" + pack_varint(10) + pack_varint(3) + pack_varint(4), "content bytes"),
        (b"\x16" + pack_varint(10), "frame kind"),
    ],
)
def test_impossible_values_name_their_field(data: bytes, field: str) -> None:
    with pytest.raises(DamagedError, match=field):
        parse_frame_head(Cursor(data + bytes(9)), single=True)
