"""Whatever the bytes: symbols join to them, charsets undo themselves, slots cover them."""

from hypothesis import given
from hypothesis import strategies as st

from speccompact.text.charsets import NAMES, from_utf8, to_utf8
from speccompact.text.slots import plan_frame
from tests.tiny_vocabulary import SPECIAL_TOKENS, tiny_tokenizer, tiny_vocabulary

_PIECES = st.one_of(
    st.binary(max_size=40),
    st.text(max_size=40).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.sampled_from([*(token.encode() for token in SPECIAL_TOKENS), b"\r\n", b"\xed\xa0\x80", "мельник ".encode()]),
    st.builds(lambda data, times: data * times, st.binary(min_size=1, max_size=4), st.integers(1, 2000)),
    st.text("абвгд еёжз\n", min_size=50).map(lambda text: text.encode("cp1251") * 40),
    st.text(min_size=20).map(lambda text: text.encode("utf-16-le", "surrogatepass") * 100),
)
CONTENTS = st.lists(_PIECES, max_size=6).map(b"".join)


@given(CONTENTS)
def test_symbols_join_to_the_text(data: bytes) -> None:
    symbols = tiny_tokenizer().encode(data)
    assert tiny_vocabulary().join(symbols) == data


@given(st.binary(max_size=300), st.integers(0, len(NAMES) - 1))
def test_charsets_undo_themselves(data: bytes, charset: int) -> None:
    text = to_utf8(data, charset)
    assert text is None or from_utf8(text, charset) == data


@given(CONTENTS, st.integers(16, 400), st.integers(1, 20))
def test_slots_join_to_the_content(data: bytes, slot_tokens: int, frame_slots: int) -> None:
    joined = b""
    while len(joined) < len(data):
        plan = plan_frame(
            data[len(joined) :],
            final=True,
            tokenizer=tiny_tokenizer(),
            slot_tokens=slot_tokens,
            frame_slots=frame_slots,
        )
        assert 1 <= len(plan.slots) <= frame_slots
        start = len(joined)
        for slot in plan.slots:
            assert start + slot.start == len(joined)
            if slot.symbols is None:
                joined += data[start + slot.start : start + slot.stop]
            else:
                assert 1 <= slot.symbols.size <= slot_tokens
                joined += from_utf8(tiny_vocabulary().join(slot.symbols), slot.charset)
        assert len(joined) == start + plan.consumed
    assert joined == data
