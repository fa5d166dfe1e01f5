"""What each token costs: the bits of the archive itself, and the text in pieces that join to it."""

import base64
import io
import itertools

import numpy as np
import pytest

from speccompact.api import compress, compress_stream
from speccompact.codec import Codec
from speccompact.errors import LimitError
from speccompact.options import Options
from speccompact.streams.engine import Engine
from speccompact.streams.tokencosts import CostedEngines, CostedSlot, pieces
from speccompact_grpc.webanalysis import analyse, restore
from tests.tiny_model import babble, tiny


class TinyEngines:
    def __init__(self) -> None:
        target, tokenizer = tiny()
        self._engine = Engine(Codec(target, Options()), tokenizer)

    def named(self, model: str) -> Engine:
        return self._engine

    def for_digest(self, digest: bytes) -> Engine:
        return self._engine


@pytest.mark.parametrize("level", [1, 5])
def test_the_costs_add_up_to_the_archive(level: int) -> None:
    content = babble(3000).encode()
    engines, target = CostedEngines(TinyEngines()), io.BytesIO()
    summary = compress_stream(io.BytesIO(content), target, level=level, model="tiny", engines=engines)
    assert target.getvalue() == compress(content, level=level, model="tiny", engines=TinyEngines())
    assert summary.model_slots == len(engines.slots) > 0
    assert sum(len(slot.bits) for slot in engines.slots) == summary.tokens
    assert sum(slot.bits.sum() for slot in engines.slots) == pytest.approx(summary.ideal_bits)
    found = pieces(content, engines.slots)
    assert "".join(piece.text for piece in found) == content.decode()
    assert sum(piece.bits or 0 for piece in found) == pytest.approx(summary.ideal_bits)


def slot(*tokens: bytes) -> CostedSlot:
    lengths = np.array([len(token) for token in tokens], np.int64)
    return CostedSlot(b"".join(tokens), lengths, np.arange(1.0, len(tokens) + 1))


def told(content: bytes, *slots: CostedSlot) -> list[tuple[str, float | None]]:
    return [(piece.text, piece.bits) for piece in pieces(content, slots)]


def test_tokens_that_share_a_character_are_one_piece() -> None:
    content = "aä€b".encode()
    tokens = [content[:2], content[2:4], content[4:5], content[5:6], content[6:]]
    assert told(content, slot(*tokens)) == [("a", 1.0), ("ä", 2.0), ("€", 7.0), ("b", 5.0)]


def test_what_no_slot_holds_has_no_bits() -> None:
    assert told(b"01abc23de4", slot(b"ab", b"c"), slot(b"de")) == [
        ("01", None), ("ab", 1.0), ("c", 2.0), ("23", None), ("de", 1.0), ("4", None),
    ]  # fmt: skip
    assert told(b"abc", slot(b"elsewhere")) == [("abc", None)]
    assert told(b"") == []


def test_bytes_that_are_no_utf8_are_shown_and_lose_no_bits() -> None:
    content = b"a\xff\xe2\x82"
    found = told(content, slot(*(bytes([byte]) for byte in content)))
    assert found == [("a", 1.0), ("\ufffd", 2.0), ("\ufffd", 7.0)]
    for size in range(1, 5):
        for cut in itertools.product(b"\xff\xe2\x82a", repeat=size):
            parts = told(bytes(cut), slot(*(bytes([byte]) for byte in cut)))
            assert sum(bits or 0 for _, bits in parts) == size * (size + 1) / 2


def test_an_analysis_and_its_way_back() -> None:
    content = babble(2000).encode()
    found = analyse(content, 1, "tiny", TinyEngines())
    archive = base64.b64decode(found["archive"])
    assert archive == compress(content, level=1, model="tiny", engines=TinyEngines())
    assert found["compressed_bytes"] == len(archive)
    assert found["kept"]
    assert found["tokens"] > 0
    assert "".join(text for text, _ in found["pieces"]) == content.decode()
    assert found["xz_bytes"] > 0 < found["zstd_bytes"]
    back = restore(archive, len(content), TinyEngines())
    assert back["sha256"] == found["sha256"]
    assert back["tokens_per_pass"] >= 1
    assert 0 <= back["acceptance"] <= 1
    with pytest.raises(LimitError):
        restore(archive, len(content) - 1, TinyEngines())


def test_what_the_model_has_not_coded_is_shown_all_the_same() -> None:
    found = analyse(b"tiny", 5, "tiny", TinyEngines())
    assert found["pieces"] == [["tiny", None]]
    back = restore(base64.b64decode(found["archive"]), 4, TinyEngines())
    assert (back["drafts"], back["tokens_per_pass"]) == ([], 0)
