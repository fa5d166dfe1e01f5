"""The decoder of tests.reference, written from the specifications alone, reads what the product writes."""

import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speccompact import api
from speccompact.options import Options
from speccompact.streams.inspecting import FileInfo
from tests.reference import charsets, integers
from tests.reference.coding import Lane, interval_starts
from tests.reference.decoder import decode
from tests.reference.exactmodel import ExactModel, read_exact_model
from tests.reference.wire import Refused, check
from tests.reference.writing import WITH_MODEL, identity, single_part, varint, write_lane
from tests.source_tree import ROOT
from tests.tiny_model import GOLDEN, TINY_EXACT, babble, tiny
from tests.tiny_model import integers as random_integers
from tests.tiny_text import RUSSIAN, STORY

MODEL_DATA = TINY_EXACT.read_bytes()
QUIET = Options(threads=1)


def small(folder: str, size: int) -> list[Path]:
    """Return golden archives of at most `size` bytes: plain Python takes about 10 ms a token."""
    return [path for path in sorted((GOLDEN / folder).glob("*.spc")) if path.stat().st_size <= size]


VALID, INVALID = small("valid", 175), small("invalid", 300)


@cache
def model() -> ExactModel:
    return read_exact_model(MODEL_DATA)


def models(digest: bytes) -> bytes:
    assert sha256(MODEL_DATA).digest().startswith(digest)
    return MODEL_DATA


def packed(content: bytes, slot_tokens: int | None = None) -> bytes:
    return api.compress(content, model=str(TINY_EXACT), slot_tokens=slot_tokens, group_frames=0, options=QUIET)


def noise(size: int) -> bytes:
    source = random_integers(1)
    return bytes(next(source) >> 8 for _ in range(size))


def rare(size: int) -> str:
    """Return text that the model finds dearer than zstandard does."""
    source = random_integers(5)
    return "".join(chr(0x4E00 + next(source) % 20000) for _ in range(size))


Expectation = Callable[[FileInfo], bool]

CASES: dict[str, tuple[bytes, int | None, Expectation]] = {
    "one slot": (STORY[:160].encode(), None, lambda info: info.frames[0].model_slots == 1),
    "many slots": (babble(300).encode(), 16, lambda info: info.frames[0].model_slots > 4),
    "many frames": (babble(2300).encode(), 16, lambda info: len(info.frames) > 1 and info.frames[1].model_slots > 0),
    "escapes": (
        STORY[:150].encode() + b"\x00\x04\xff\xfe" + STORY[:80].encode(), None,
        lambda info: info.frames[0].model_slots == 1,
    ),
    "utf-16": (("\ufeff" + babble(200)).encode("utf-16-le"), None, lambda info: info.frames[0].charsets == (1,)),
    "cp1251": (RUSSIAN[:200].encode("cp1251"), None, lambda info: info.frames[0].charsets == (13,)),
    "zstd": (b"\x00\x01\x02\x03" * 100, None, lambda info: info.frames[0].zstd_slots == 1),
    "raw": (noise(300), None, lambda info: info.frames[0].raw_slots == 1),
    "mixed": (
        (STORY[:150] + rare(60) + babble(150)).encode(), 16,
        lambda info: info.frames[0].model_slots > 1 and info.frames[0].raw_slots + info.frames[0].zstd_slots > 0,
    ),
    "empty": (b"", None, lambda info: info.content_bytes == 0),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_it_decodes_what_the_product_writes(name: str) -> None:
    content, slot_tokens, expected = CASES[name]
    archive = packed(content, slot_tokens)
    assert expected(api.inspect(archive)), "the input does not make the slots that this case is for"
    assert decode(archive, models) == content


def test_concatenated_archives_decode() -> None:
    contents = [STORY[:120].encode(), b"", b"hello\n", bytes(900)]
    assert decode(b"".join(map(packed, contents)), models) == b"".join(contents)


@settings(max_examples=6)
@given(st.text(max_size=24) | st.binary(max_size=16))
def test_any_content_decodes(tail: str | bytes) -> None:
    content = STORY[:80].encode() + (tail if isinstance(tail, bytes) else tail.encode())
    assert decode(packed(content), models) == content


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_golden_archives_decode(path: Path) -> None:
    assert decode(path.read_bytes(), models) == path.with_suffix(".content").read_bytes()


@pytest.mark.parametrize("path", INVALID, ids=lambda path: path.stem)
def test_golden_invalid_archives_are_refused(path: Path) -> None:
    def any_model(_digest: bytes) -> bytes:
        return MODEL_DATA

    with pytest.raises(Refused):
        decode(path.read_bytes(), any_model)


def story_symbols(size: int) -> list[int]:
    return [int(symbol) for symbol in tiny(QUIET)[1].encode(STORY[:size].encode())]


def test_its_lanes_are_the_products() -> None:
    content = STORY[:160].encode()
    archive = packed(content)
    payload = api.inspect(archive).frames[0].payload_bytes
    assert write_lane(model(), story_symbols(160), check(1, content)[0]) == archive[-4 - payload : -4]


def lane_archive(symbols: Sequence[int]) -> tuple[bytes, bytes]:
    """Return an archive of one model slot of any symbols, and its content."""
    content = b"".join(model().symbols[symbol] for symbol in symbols)
    lane = write_lane(model(), symbols, check(1, content)[0])
    head = b"\x10" + varint(len(content)) + varint(len(symbols)) + varint(len(lane))
    return single_part(WITH_MODEL, head, lane, content, 1, identity(model(), sha256(MODEL_DATA).digest())), content


@settings(max_examples=3)
@given(st.lists(st.integers(0, 478), max_size=5))
def test_the_product_decodes_any_symbols(tiny_home: Path, symbols: list[int]) -> None:
    """Control tokens, escapes and tokens in an order that no tokenizer would give."""
    assert len(model().symbols) == 479
    archive, content = lane_archive(story_symbols(60) + symbols)
    assert api.decompress(archive, options=QUIET) == content
    assert decode(archive, models) == content


def test_the_product_decodes_all_escapes(tiny_home: Path) -> None:
    archive, content = lane_archive(story_symbols(120) + list(range(model().vocab - 1, len(model().symbols))))
    assert api.decompress(archive, options=QUIET) == content
    assert decode(archive, models) == content


def test_the_tables_of_charsets_are_those_of_the_specification() -> None:
    tables = [charsets.characters(number) for number in range(5, charsets.LAST + 1)]
    assert all(len(set(table)) == 256 for table in tables)
    digest = sha256("".join(tables).encode("utf-16-le")).hexdigest()
    assert digest in (ROOT / "FORMAT.md").read_text("utf-8")


def test_the_tables_of_charsets_are_the_products() -> None:
    from speccompact.text.charsets import from_utf8

    for number in range(5, charsets.LAST + 1):
        assert bytes(from_utf8(charsets.characters(number).encode(), number)) == bytes(range(256))


def test_the_examples_of_the_format_decode() -> None:
    text = (ROOT / "FORMAT.md").read_text("utf-8")
    examples = [bytes.fromhex(block) for block in re.findall(r"(?:^    [0-9a-f ]+\n)+", text, re.MULTILINE)]
    assert [decode(example, models) for example in examples] == [b"", b"hello\n", b"one two "]


def value_of(call: str) -> Any:
    functions = {
        "shift_round": integers.shift_round,
        "quantise": integers.quantise,
        "norm_quantise": integers.norm_quantise,
        "exp2_weight": lambda d: integers.exp2_weight(d, model().exp2),
    }
    return eval(call, {"__builtins__": {}}, functions)


def test_the_examples_of_the_integer_functions_hold() -> None:
    text = (ROOT / "EXACT.md").read_text("utf-8")
    scalars = re.findall(r"^    ((?:shift_round|exp2_weight)\([-0-9, ]+\)) = (-?\d+)$", text, re.MULTILINE)
    quantised = re.findall(r"^    (quantise\(.*?\)): a = (\d+), .*q = (\[.*\])$", text, re.MULTILINE)
    normed = re.findall(r"^    (norm_quantise\(.*?\)): q = (\[.*\]), scale = (\d+)$", text, re.MULTILINE)
    assert (len(scalars), len(quantised), len(normed)) == (13, 3, 3)
    for call, value in scalars:
        assert value_of(call) == int(value)
    for call, a, q in quantised:
        assert value_of(call) == (value_of(q), int(a))
    for call, q, scale in normed:
        assert value_of(call) == (value_of(q), int(scale))


def test_the_example_of_intervals_and_lane_holds() -> None:
    text = (ROOT / "EXACT.md").read_text("utf-8")
    starts = interval_starts([98304, 0, -6553600, 65536], 2, model().exp2)
    stated = re.findall(r"^    symbol (\d): start (\d+), frequency (\d+)$", text, re.MULTILINE)
    assert [(int(a), int(b), int(c)) for a, b, c in stated] == [
        (symbol, start, end - start) for symbol, (start, end) in enumerate(pairwise(starts))
    ]
    stated_lane = re.search(r"^    lane ([0-9a-f ]+)$", text, re.MULTILINE)
    assert stated_lane is not None
    lane = Lane(bytes.fromhex(stated_lane.group(1)))
    assert [lane.symbol(starts) for _ in range(3)] == [2, 5, 2]
    assert lane.end() == 0x5A


@pytest.mark.parametrize("arguments", [("archive", "model"), ("model", "model"), ("archive",)])
def test_it_runs_as_a_program(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    files = {"archive": tmp_path / "archive.spc", "model": TINY_EXACT}
    files["archive"].write_bytes(packed(STORY[:60].encode()))
    command = [sys.executable, "-m", "tests.reference.decoder", *(str(files[name]) for name in arguments)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if arguments == ("archive", "model"):
        assert (result.returncode, result.stdout) == (0, STORY[:60].encode())
    else:
        assert result.returncode == (1 if len(arguments) == 2 else 2)
        assert result.stderr.count(b"\n") == 1
