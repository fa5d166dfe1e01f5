import pytest

from speccompact.text.charsets import BYTES, NAMES
from speccompact.text.detection import detect_charset
from tests.tiny_vocabulary import TRAINING_TEXT, tiny_tokenizer

LINES = TRAINING_TEXT.strip().splitlines()
GERMAN = "\n".join(line for line in LINES if line.startswith("Der")) * 4
RUSSIAN = "\n".join(line for line in LINES if "а" in line) * 4


@pytest.mark.parametrize("name", ["cp1251", "iso8859-5", "koi8-r", "mac-cyrillic"])
def test_russian_charsets(name: str) -> None:
    assert NAMES[detect_charset(RUSSIAN.encode(name), tiny_tokenizer())] == name


@pytest.mark.parametrize("name", ["cp1252", "mac-roman", "cp437"])
def test_german_charsets(name: str) -> None:
    assert NAMES[detect_charset(GERMAN.encode(name), tiny_tokenizer())] == name


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"plain",
        GERMAN.encode(),
        RUSSIAN.encode(),
        (GERMAN * 2).encode() + GERMAN.encode("cp1252")[:200],
        b"a few \xe9 stray \xe8 bytes",
        bytes(range(0x80, 0xC0)) * 40,
    ],
    ids=["empty", "ascii", "german", "russian", "mixed", "stray", "continuation bytes"],
)
def test_everything_else_stays_as_it_is(data: bytes) -> None:
    assert detect_charset(data, tiny_tokenizer()) == BYTES
