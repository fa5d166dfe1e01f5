"""EXACT.md says what the code does: every number of its examples, constants and digests comes out of the code."""

import hashlib
import re
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest
import torch

from speccompact.entropy import cdf, fusedcdf, rans
from speccompact.entropy.cdf import Tiling
from speccompact.exact import fixedpoint, tables
from speccompact.exact.transformer import ESCAPE_INPUT, START_TOKEN
from speccompact.memory import adaptation, candidates, contexts, flags, logodds
from speccompact.modelstore import quantize
from speccompact.params import ESCAPE_BITS, EXACT_VERSION, MEMORY_VERSION, PRECISION, SLOT_CHECK_BITS
from tests.source_tree import ROOT

TEXT = (ROOT / "EXACT.md").read_text("utf-8")

EXP2 = tables.exp2_table(fixedpoint.EXP2_INDEX_BITS, fixedpoint.EXP2_BITS)
TILING = Tiling(vocab=4, escapes=2, precision=PRECISION)
SCORES = [98304, 0, -6553600, 65536]
SYMBOLS, CHECK = [2, 5, 2], 0x5A


def integers(values: torch.Tensor) -> str:
    return str(values.reshape(-1).tolist())


def shift_round_lines() -> Iterator[str]:
    for x, n in ((5, 1), (-5, 1), (6, 2), (-6, 2), (-7, 2), (1000, 4)):
        yield f"shift_round({x}, {n}) = {fixedpoint.shift_round(torch.tensor(x), n)}"


def quantise_lines() -> Iterator[str]:
    for row, limit in (([3, -7, 0, 5], 127), ([1000000, -999999, 31, -30], 16256), ([0, 0], 127)):
        result, largest = fixedpoint.quantise(torch.tensor(row), limit)
        e = int(largest).bit_length() + 30 - limit.bit_length()
        r = (limit << e) // int(largest)
        yield f"quantise({row}, {limit}): a = {largest}, e = {e}, r = {r}, q = {integers(result)}"


def norm_lines() -> Iterator[str]:
    for row in ([65536, -131072, 32768, 1], [100, 0, -3, 50], [0, 0, 0, 0]):
        result, scale = fixedpoint.norm_quantise(torch.tensor([row]), 16513, 171799)
        yield f"norm_quantise({row}, 16513, 171799): q = {integers(result)}, scale = {scale.item()}"


def weight_lines() -> Iterator[str]:
    table = torch.from_numpy(EXP2.astype(np.int64))
    for distance in (0, 16, 65536, 98304, 1507328, 1572864, (1 << 31) - 2):
        yield f"exp2_weight({distance}) = {fixedpoint.exp2_weights(torch.tensor(distance), table)}"


def intervals_of(symbols: list[int]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    scores = torch.tensor([SCORES] * len(symbols), dtype=torch.int32)
    starts, frequencies = cdf.intervals(scores, torch.tensor(symbols), TILING, torch.from_numpy(EXP2))
    return starts.numpy(), frequencies.numpy()


def tiling_lines() -> Iterator[str]:
    yield f"M = {TILING.mass}, escape = {TILING.escape}"
    of_scores = fixedpoint.exp2_weights(max(SCORES) - torch.tensor(SCORES), torch.from_numpy(EXP2.astype(np.int64)))
    yield f"weights of {SCORES}: {integers(of_scores)}, T = {of_scores.sum()}"
    for symbol, (start, frequency) in enumerate(zip(*intervals_of(list(range(6))), strict=True)):
        yield f"symbol {symbol}: start {start}, frequency {frequency}"


def lane() -> bytes:
    starts, frequencies = intervals_of(SYMBOLS)
    return rans.encode_lane(starts, frequencies, PRECISION, CHECK)


def lane_lines() -> Iterator[str]:
    """What a writer does, step by step in Python integers, and the lane of the code."""
    state = rans.CHECK_BASE + CHECK
    starts, frequencies = (values.tolist() for values in intervals_of(SYMBOLS))
    for symbol, start, frequency in reversed(list(zip(SYMBOLS, starts, frequencies, strict=True))):
        before, word = state, ""
        if state >> (64 - PRECISION) >= frequency:
            word, state = f", word {state % (1 << 32):08x}", state >> 32
        state = (state // frequency << PRECISION) + state % frequency + start
        yield f"symbol {symbol}: state {before:x}{word}, then {state:x}"
    yield f"lane {lane().hex(' ')}"


def digest_lines() -> Iterator[str]:
    def digest(table: npt.NDArray[np.int32]) -> str:
        return hashlib.sha256(table.astype("<i4").tobytes()).hexdigest()

    yield f"exp2 {digest(EXP2)}"
    yield f"sigmoid {digest(tables.sigmoid_table(10, 1 << 14, fixedpoint.FRAC_SIGMOID))}"
    for base, head_dim, positions in ((100000, 64, 8192), (10000, 64, 2048), (10000, 8, 2048)):
        table = tables.rotary_table(float(base), head_dim, positions, fixedpoint.FRAC_ROTARY)
        yield f"rotary base {base}, head_dim {head_dim}, positions {positions}: {digest(table)}"


LOG2 = tables.log2_table(logodds.MANTISSA_BITS, logodds.FRAC_ODDS)


def odds_lines() -> Iterator[str]:
    for x in (1, 3, 4095, 4097, (1 << 41) - 1):
        yield f"log2({x}) = {logodds.log2(np.int64(x), LOG2)}"
    for part, rest in ((1, 3), (5, 0), (1 << 41, 1)):
        yield f"odds({part}, {rest}) = {logodds.odds_of(np.int64(part), np.int64(rest), LOG2)}"
    for odds in (0, 1, 4096, -4096, 81920, -81920):
        yield f"squash({odds}) = {logodds.squash(np.int64(odds), EXP2)}"
    yield f"log {hashlib.sha256(LOG2.astype('<i4').tobytes()).hexdigest()}"


def context_lines() -> Iterator[str]:
    line_ends = np.zeros(301, np.bool_)
    line_ends[9] = True
    hashes = np.zeros(contexts.COUNT, np.uint64)
    contexts.hash_contexts(np.array([7, 1, 9, 1, 300], np.int32), np.int64(5), line_ends, hashes)
    for i, value in enumerate(hashes.tolist()):
        yield f"context {i}: {f'{value:016x}' if value else 'none'}"


GROUPS = (
    shift_round_lines, quantise_lines, norm_lines, weight_lines, digest_lines, tiling_lines, lane_lines,
    odds_lines, context_lines,
)  # fmt: skip
"""In the order of the document."""


@pytest.mark.parametrize("line", [line for group in GROUPS for line in group()])
def test_every_example_is_what_the_code_computes(line: str) -> None:
    assert f"    {line}\n" in TEXT


def test_the_document_has_no_other_examples() -> None:
    blocks = re.findall(r"^\*\*(?:Example|Digests)\b[^\n]*\n(?:[^\n]+\n)*\n((?:    [^\n]+\n)+)", TEXT, re.MULTILINE)
    assert "".join(blocks).splitlines() == [f"    {line}" for group in GROUPS for line in group()]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("FRAC_RESIDUAL", fixedpoint.FRAC_RESIDUAL),
        ("FRAC_PROJECTION", fixedpoint.FRAC_PROJECTION),
        ("FRAC_NORM", fixedpoint.FRAC_NORM),
        ("FRAC_SCORE", fixedpoint.FRAC_SCORE),
        ("FRAC_ROTARY", fixedpoint.FRAC_ROTARY),
        ("FRAC_SIGMOID", fixedpoint.FRAC_SIGMOID),
        ("RESIDUAL_LIMIT", fixedpoint.RESIDUAL_LIMIT),
        ("PROJECTION_LIMIT", fixedpoint.PROJECTION_LIMIT),
        ("SCORE_LIMIT", fixedpoint.SCORE_LIMIT),
        ("INT8_MAX", fixedpoint.INT8_MAX),
        ("PLANES_MAX", fixedpoint.PLANES_MAX),
        ("EXP2_BITS", fixedpoint.EXP2_BITS),
        ("MIX_BITS", fixedpoint.MIX_BITS),
        ("CHANNEL_BITS", quantize.CHANNEL_BITS),
        ("ESCAPE_BITS", ESCAPE_BITS),
        ("SLOT_CHECK_BITS", SLOT_CHECK_BITS),
        ("PRECISION", PRECISION),
        ("START_TOKEN", START_TOKEN),
        ("ESCAPE_INPUT", ESCAPE_INPUT),
        ("KEPT", contexts.KEPT),
        ("COUNT_LIMIT", contexts.COUNT_LIMIT),
        ("LINE_LIMIT", contexts.LINE_LIMIT),
        ("POOL", candidates.POOL),
        ("TRIED", flags.TRIED),
        ("FRAC_ODDS", logodds.FRAC_ODDS),
        ("ODDS_LIMIT", logodds.ODDS_LIMIT),
        ("LEAST_ODDS", candidates.LEAST_ODDS),
        ("PROBABILITY_BITS", logodds.PROBABILITY_BITS),
        ("WEIGHT_BITS", flags.WEIGHT_BITS),
        ("MAP_BITS", flags.MAP_BITS),
        ("MAP_CENTRE", flags.MAP_CENTRE),
        ("ROWS", adaptation.ROWS),
        ("GRADIENT_BITS", adaptation.GRADIENT_BITS),
        ("BIAS_INPUT", adaptation.BIAS_INPUT),
    ],
)
def test_constants_are_stated(name: str, value: int) -> None:
    assert re.search(rf"^\| {name} \| {value:,} \|", TEXT, re.MULTILINE)


def test_the_lane_reads_back() -> None:
    exp2, scores = torch.from_numpy(EXP2), torch.tensor([SCORES], dtype=torch.int32)
    reader, place, read = rans.LaneReader(1, PRECISION), np.zeros(1, dtype=np.int64), []
    reader.load(0, lane(), len(SYMBOLS))
    for _ in SYMBOLS:
        symbol, start, frequency = fusedcdf.find(scores, torch.from_numpy(reader.points(place)), TILING, exp2)
        reader.advance(place, start.numpy(), frequency.numpy())
        read.append(int(symbol))
    assert (read, reader.finish(0)) == (SYMBOLS, CHECK)


@pytest.mark.parametrize(("name", "version"), [("Exact", EXACT_VERSION), ("Memory", MEMORY_VERSION)])
def test_the_version_is_the_same(name: str, version: int) -> None:
    stated = re.search(rf"^{name} version \*\*(\d+)\*\*", TEXT, re.MULTILINE)
    assert stated
    assert int(stated[1]) == version
