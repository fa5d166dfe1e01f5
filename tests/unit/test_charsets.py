import hashlib

import pytest

from speccompact.errors import DamagedError, UnsupportedError
from speccompact.text.charset_tables import FIRST_SINGLE_BYTE, TABLES
from speccompact.text.charsets import (
    BYTES,
    NAMES,
    SINGLE_BYTE,
    UTF16BE,
    UTF16LE,
    UTF32BE,
    UTF32LE,
    code_points,
    from_utf8,
    to_utf8,
)

TABLES_DIGEST = "61c560308419649b97d877965ca59175cce2d1f4409cb6ca5adbbb5ce028d8cc"

WIDE = {UTF16LE: "utf-16-le", UTF16BE: "utf-16-be", UTF32LE: "utf-32-le", UTF32BE: "utf-32-be"}


def test_the_tables_are_part_of_the_format() -> None:
    joined = b"".join(code_points(charset).astype("<u4").tobytes() for charset in SINGLE_BYTE)
    assert hashlib.sha256("\n".join(NAMES).encode() + joined).hexdigest() == TABLES_DIGEST


def test_numbers_are_stable() -> None:
    assert NAMES[:5] == ("bytes", "utf-16le", "utf-16be", "utf-32le", "utf-32be")
    assert FIRST_SINGLE_BYTE == 5
    assert next(iter(TABLES)) == "cp1252"
    assert NAMES[-1] == "cp037"
    assert len(NAMES) == 30


@pytest.mark.parametrize("charset", SINGLE_BYTE, ids=lambda charset: NAMES[charset])
def test_single_byte_tables_are_bijections_and_agree_with_the_codecs(charset: int) -> None:
    points = code_points(charset).tolist()
    assert len(set(points)) == 256
    for value, point in enumerate(points):
        try:
            # Should a later release of Python change a codec, this line must go, never the table.
            assert chr(point) == bytes([value]).decode(NAMES[charset])
        except UnicodeDecodeError:
            assert point in (value, 0xF700 + value)


@pytest.mark.parametrize("charset", SINGLE_BYTE, ids=lambda charset: NAMES[charset])
def test_every_byte_survives_every_single_byte_charset(charset: int) -> None:
    data = bytes(range(256))
    text = to_utf8(data, charset)
    assert text is not None
    assert text.decode("utf-8")
    assert from_utf8(text, charset) == data


@pytest.mark.parametrize("charset", WIDE, ids=lambda charset: NAMES[charset])
def test_wide_charsets_carry_everything(charset: int) -> None:
    text = "\ufeffAß漢\0\n🙂\ud800x\udfff"
    data = text.encode(WIDE[charset], "surrogatepass")
    utf8 = to_utf8(data, charset)
    assert utf8 == text.encode("utf-8", "surrogatepass")
    assert from_utf8(utf8, charset) == data


@pytest.mark.parametrize("charset", WIDE, ids=lambda charset: NAMES[charset])
def test_what_is_not_reversible_is_refused(charset: int) -> None:
    assert to_utf8(b"abc", charset) is None
    if charset in (UTF32LE, UTF32BE):
        assert to_utf8(b"\xff\xff\xff\xff", charset) is None


def test_bytes_pass_unchanged() -> None:
    data = bytes(range(256))
    assert to_utf8(data, BYTES) == data
    assert from_utf8(data, BYTES) == data


@pytest.mark.parametrize(
    ("data", "charset"),
    [
        (b"\xff", UTF16LE),
        (b"\xff", UTF32BE),
        (b"\xff", SINGLE_BYTE[0]),
        ("漢".encode(), SINGLE_BYTE[0]),
        ("🙂".encode(), SINGLE_BYTE[0]),
        ("\uffff".encode(), SINGLE_BYTE[0]),
        (b"\xed\xa0\x80", SINGLE_BYTE[0]),
    ],
)
def test_damage_is_told(data: bytes, charset: int) -> None:
    with pytest.raises(DamagedError):
        from_utf8(data, charset)


@pytest.mark.parametrize("charset", [-1, len(NAMES)])
def test_unknown_charsets_need_a_newer_release(charset: int) -> None:
    with pytest.raises(UnsupportedError):
        to_utf8(b"", charset)
    with pytest.raises(UnsupportedError):
        from_utf8(b"", charset)
