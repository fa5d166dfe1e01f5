import random
from itertools import pairwise

import numpy as np
import pytest

from speccompact.text.charsets import BYTES, UTF16BE, UTF16LE, UTF32BE, UTF32LE
from speccompact.text.runs import BINARY, BLOCK, EIGHT_BIT, find_runs, utf8_mask
from tests.fakes import prose

RANDOM = random.Random(1).randbytes(6 * BLOCK)
TEXT = prose(6 * BLOCK, seed=1)
RUSSIAN = "".join(random.Random(2).choices("оеаинтсрвлкмдпуя  ", k=6 * BLOCK))
JAPANESE = "".join(random.Random(3).choices("のはをにがと日本語文字書人年大出見行生、。", k=3 * BLOCK))


def kinds(data: bytes) -> list[tuple[int, int]]:
    return [(run.stop - run.start, run.kind) for run in find_runs(data)]


def test_runs_cover_the_buffer() -> None:
    data = TEXT[:5000] + RANDOM + TEXT + bytes(9000) + RANDOM[:700]
    runs = find_runs(data)
    assert [run.start for run in runs] == [0, *(run.stop for run in runs[:-1])]
    assert runs[-1].stop == len(data)
    assert all(left.kind != right.kind for left, right in pairwise(runs))


def test_an_empty_buffer_has_no_runs() -> None:
    assert find_runs(b"") == []


@pytest.mark.parametrize("size", [1, 5, 300, BLOCK, 5 * BLOCK + 7])
def test_text_is_text_at_any_length(size: int) -> None:
    assert kinds(TEXT[:size]) == [(size, BYTES)]


@pytest.mark.parametrize("size", [100, 3000, 6 * BLOCK])
def test_random_bytes_are_binary(size: int) -> None:
    assert kinds(RANDOM[:size]) == [(size, BINARY)]


def test_text_and_binary_are_told_apart() -> None:
    assert kinds(TEXT + RANDOM + TEXT) == [(6 * BLOCK, BYTES), (6 * BLOCK, BINARY), (6 * BLOCK, BYTES)]


def test_a_single_foreign_block_stays_with_its_neighbour() -> None:
    assert kinds(TEXT + RANDOM[:BLOCK] + TEXT) == [(13 * BLOCK, BYTES)]
    assert kinds(RANDOM + TEXT[:BLOCK] + RANDOM) == [(13 * BLOCK, BINARY)]


def test_a_few_stray_bytes_do_not_spoil_a_text() -> None:
    spoilt = bytearray(TEXT)
    spoilt[50::40] = b"\xe9" * len(spoilt[50::40])
    assert kinds(bytes(spoilt)) == [(6 * BLOCK, BYTES)]


def test_padding_is_binary_where_it_is_long_and_text_where_it_is_short() -> None:
    header = b"name" + bytes(508)
    assert kinds((header + TEXT[: BLOCK - 512]) * 6) == [(6 * BLOCK, BYTES)]
    assert kinds(TEXT + bytes(10240)) == [(6 * BLOCK, BYTES), (10240, BINARY)]


@pytest.mark.parametrize("piece", [b"a", b" ", b"\n", b"\xff", b"0123456789", b"one line of a log\n"], ids=repr)
def test_what_only_repeats_itself_is_left_to_the_dictionary_coder(piece: bytes) -> None:
    data = (piece * 100_000)[:100_000]
    assert kinds(data) == [(100_000, BINARY)]


def test_a_short_repetition_inside_a_text_is_text() -> None:
    assert kinds(TEXT + b"=" * 3 * BLOCK + TEXT) == [(15 * BLOCK, BYTES)]


@pytest.mark.parametrize(
    ("charset", "codec"),
    [(UTF16LE, "utf-16-le"), (UTF16BE, "utf-16-be"), (UTF32LE, "utf-32-le"), (UTF32BE, "utf-32-be")],
)
def test_wide_text_is_recognised(charset: int, codec: str) -> None:
    for text in (TEXT.decode(), RUSSIAN, "\ufeff" + TEXT.decode(), JAPANESE, "hi"):
        assert [kind for _, kind in kinds(text.encode(codec))] == [charset]


def test_legacy_text_is_eight_bit() -> None:
    assert kinds(RUSSIAN.encode("cp1251")) == [(6 * BLOCK, EIGHT_BIT)]
    assert kinds(RUSSIAN.encode("koi8-r")) == [(6 * BLOCK, EIGHT_BIT)]


def test_utf8_mask_agrees_with_the_codec() -> None:
    pieces = [b"a", "é".encode(), "漢".encode(), "🙂".encode(), b"\xed\x9f\xbf", b"\xf4\x8f\xbf\xbf"]
    broken = [b"\x80", b"\xc0\xaf", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xf0\x80\x80\x80", b"\xf4\x90\x80\x80", b"\xff"]
    chooser = random.Random(3)
    for _ in range(300):
        data = b"".join(chooser.choices(pieces + broken, k=8))[: chooser.randrange(1, 20)]
        text = data.decode("utf-8", "surrogateescape")
        lost = [[False] if "\udc80" <= letter <= "\udcff" else [True] * len(letter.encode()) for letter in text]
        assert utf8_mask(np.frombuffer(data, dtype=np.uint8)).tolist() == [good for run in lost for good in run]
