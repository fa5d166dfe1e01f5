"""FORMAT.md says what the code does: its examples decode, its limits are the code's."""

import io
import re

import pytest

from speccompact import api
from speccompact.container import format as wire
from speccompact.params import MAX_FRAME_BYTES, MAX_FRAME_SLOTS, MAX_FRAME_TOKENS, MAX_SLOT_TOKENS
from speccompact.text.charsets import NAMES
from tests.archives import raw_part, raw_single
from tests.fakes import FakeEngines
from tests.source_tree import ROOT

TEXT = (ROOT / "FORMAT.md").read_text("utf-8")


def examples() -> list[bytes]:
    blocks = re.findall(r"(?:^    [0-9a-f ]+\n)+", TEXT, re.MULTILINE)
    return [bytes.fromhex("".join(block.split())) for block in blocks]


def test_the_examples_are_what_a_writer_writes() -> None:
    made = [
        api.compress(b"", engines=FakeEngines()),
        raw_single(b"hello\n"),
        raw_part([b"one ", b"two "], bytes([1, 2, 3, 4])),
    ]
    assert examples() == made


def test_the_examples_decode() -> None:
    assert [api.decompress(example) for example in examples()] == [b"", b"hello\n", b"one two "]
    with api.open(io.BytesIO(examples()[2])) as content:
        content.seek(4)
        assert content.read() == b"two "


@pytest.mark.parametrize("limit", [MAX_FRAME_SLOTS, MAX_FRAME_BYTES, MAX_FRAME_TOKENS, MAX_SLOT_TOKENS])
def test_limits_are_stated(limit: int) -> None:
    assert f"{limit:,}" in TEXT


@pytest.mark.parametrize("marker", [wire.MAGIC, wire.SYNC, wire.END, wire.TRAILER])
def test_markers_are_stated(marker: bytes) -> None:
    assert marker.hex(" ").upper() in TEXT


def test_every_charset_is_numbered() -> None:
    for number, name in enumerate(NAMES):
        assert number < 5 or f"{number} {name}" in TEXT
