"""Scores to intervals and back, by the reference and by the fused form, against the definition in Python integers."""

import random
from itertools import pairwise
from types import ModuleType

import pytest
import torch
from torch import Tensor

from speccompact.entropy import cdf, fusedcdf
from speccompact.entropy.cdf import Claims, Tiling
from speccompact.errors import ArgumentError
from speccompact.exact import fixedpoint
from speccompact.exact.tables import exp2_table
from speccompact.params import ESCAPE_BITS, PRECISION

EXP2 = torch.from_numpy(exp2_table(fixedpoint.EXP2_INDEX_BITS, fixedpoint.EXP2_BITS))
BOTH = pytest.mark.parametrize("form", [cdf, fusedcdf], ids=["reference", "fused"])
TILINGS = [Tiling(1, 0, 20), Tiling(2, 3, 20), Tiling(255, 1, 24), Tiling(256, 0, 28), Tiling(257, 21, PRECISION)]


def score_rows(vocab: int, limit: int = (1 << 30) - 1, seed: int = 0) -> Tensor:
    """Return rows of scores: flat, at both limits, one winner anywhere, far apart, and as a network gives them."""
    source = random.Random(seed)
    rows = [[0] * vocab, [limit] * vocab, [-limit] * vocab]
    for winner in (0, vocab // 2, vocab - 1):
        rows.append([limit if v == winner else -limit for v in range(vocab)])
        rows.append([-limit if v == winner else limit for v in range(vocab)])
    for spread in (1, 16, 1 << 12, 1 << 16, 20 << 16, 1 << 30):
        spread = min(spread, limit)
        rows.append([source.randint(-spread, spread) for _ in range(vocab)])
    rows.append([-(v % 40) << 16 for v in range(vocab)])
    return torch.tensor(rows, dtype=torch.int32)


def weights_of(scores: list[int]) -> list[int]:
    top, table = max(scores), EXP2.tolist()
    return [table[(top - s) >> 4 & 4095] >> min(top - s >> 16, 31) for s in scores]


def tiled(scores: list[int], tiling: Tiling, claims: dict[int, int] | None = None) -> list[int]:
    """Return where every symbol starts without its claim, and the end of the last one, from the module's formula."""
    claims = claims or {}
    weights = [0 if v in claims else weight for v, weight in enumerate(weights_of(scores))]
    if not any(weights):
        weights[-1] = 1
    total, below, base = sum(weights), 0, sum(claims.values())
    borders = []
    for v, weight in enumerate(weights):
        borders.append(base + v + below * (tiling.mass - base) // total)
        below += weight
    escape = 1 << (tiling.precision - ESCAPE_BITS)
    borders += [(1 << tiling.precision) - (tiling.escapes - i) * escape for i in range(tiling.escapes)]
    return [*borders, 1 << tiling.precision]


def repeated(scores: Tensor, count: int) -> Tensor:
    return scores[None].expand(count, -1).contiguous()


@BOTH
@pytest.mark.parametrize("tiling", TILINGS, ids=str)
def test_intervals_are_those_of_the_formula(form: ModuleType, tiling: Tiling) -> None:
    symbols = torch.arange(tiling.vocab + tiling.escapes)
    for row in score_rows(tiling.vocab):
        borders = tiled(row.tolist(), tiling)
        starts, frequencies = form.intervals(repeated(row, len(symbols)), symbols, tiling, EXP2)
        assert starts.tolist() == borders[:-1]
        assert (starts + frequencies).tolist() == borders[1:]
        assert int(frequencies.min()) >= 1
        assert int(frequencies.sum()) == 1 << tiling.precision


@BOTH
@pytest.mark.parametrize("tiling", TILINGS, ids=str)
def test_find_is_the_inverse_at_every_kind_of_point(form: ModuleType, tiling: Tiling) -> None:
    for row in score_rows(tiling.vocab):
        borders = tiled(row.tolist(), tiling)
        wanted = []
        for symbol, (start, stop) in enumerate(pairwise(borders)):
            wanted += [(symbol, point, start, stop - start) for point in {start, (start + stop) // 2, stop - 1}]
        points = torch.tensor([point for _, point, _, _ in wanted])
        found = form.find(repeated(row, len(points)), points, tiling, EXP2)
        assert [part.tolist() for part in found] == [
            [symbol for symbol, _, _, _ in wanted],
            [start for _, _, start, _ in wanted],
            [size for _, _, _, size in wanted],
        ]


CLAIMED = [{}, {0: 1}, {256: 70_000, 3: 1, 270: 5}, {5: 900_000, 256: 1}, {277: 3, 0: 12}]
"""Claims on a vocabulary of 257 tokens and 21 escapes; the fourth takes the winner of some rows."""


@BOTH
@pytest.mark.parametrize("claims", CLAIMED, ids=str)
def test_claims_come_first_and_the_rest_is_shared_by_the_formula(form: ModuleType, claims: dict[int, int]) -> None:
    tiling = Tiling(257, 21, PRECISION)
    width = len(claims) + 1
    for row in score_rows(tiling.vocab):
        borders = tiled(row.tolist(), tiling, claims)
        wanted, start = {}, 0
        for symbol, (low, high) in enumerate(pairwise(borders)):
            wanted[symbol] = (low, high - low)
        for symbol, size in claims.items():
            wanted[symbol] = (start, size)
            start += size
        symbols = torch.tensor(list(wanted))
        named = torch.tensor([[*claims, -1]]).expand(len(symbols), width).contiguous()
        sizes = torch.tensor([[*claims.values(), 0]]).expand(len(symbols), width).contiguous()
        given = form.intervals(repeated(row, len(symbols)), symbols, tiling, EXP2, Claims(named, sizes))
        assert list(zip(*(part.tolist() for part in given), strict=True)) == list(wanted.values())
        for points in (given[0], given[0] + given[1] - 1):
            found = form.find(repeated(row, len(points)), points, tiling, EXP2, Claims(named, sizes))
            assert [part.tolist() for part in found] == [part.tolist() for part in (symbols, *given)]
        assert sum(size for _, size in wanted.values()) + unused(borders, claims) == 1 << PRECISION


def unused(borders: list[int], claims: dict[int, int]) -> int:
    """Return what claimed symbols have beside their claims."""
    return sum(high - low for symbol, (low, high) in enumerate(pairwise(borders)) if symbol in claims)


@BOTH
def test_points_beside_a_claim_stay_in_the_tiling(form: ModuleType) -> None:
    tiling = Tiling(257, 21, PRECISION)
    row = score_rows(tiling.vocab)[9]
    borders = tiled(row.tolist(), tiling, {4: 1000, 258: 7})
    points = torch.tensor([borders[4], borders[258] + 1])
    claims = Claims(torch.tensor([[4, 258]] * 2), torch.tensor([[1000, 7]] * 2))
    symbols, starts, sizes = form.find(repeated(row, 2), points, tiling, EXP2, claims)
    assert symbols.tolist() == [4, 258]
    assert starts.tolist() == [borders[4], borders[258]]
    assert sizes.tolist() == [1, tiling.escape]


@BOTH
def test_weights_of_some_symbols(form: ModuleType) -> None:
    wanted = torch.tensor([[0, 256, -1, 5, 257, 277]])
    for row in score_rows(257):
        weights = weights_of(row.tolist())
        best, total, found = form.weigh(row[None], wanted, EXP2)
        assert int(best) == row.tolist().index(max(row.tolist()))
        assert int(total) == sum(weights)
        escape = sum(weights) >> ESCAPE_BITS
        assert found[0].tolist() == [weights[0], weights[256], 0, weights[5], escape, escape]


@BOTH
def test_rows_do_not_mix(form: ModuleType) -> None:
    tiling = Tiling(257, 21, PRECISION)
    scores = score_rows(tiling.vocab)
    symbols = torch.arange(len(scores)) * 19 % (tiling.vocab + tiling.escapes)
    together = form.intervals(scores, symbols, tiling, EXP2)
    alone = [form.intervals(scores[i : i + 1], symbols[i : i + 1], tiling, EXP2) for i in range(len(scores))]
    for part, pieces in zip(together, zip(*alone, strict=True), strict=True):
        assert torch.equal(part, torch.cat(pieces))


@pytest.mark.parametrize("vocab", [1, 255, 256, 257, 511, 512, 513, 49152])
def test_both_forms_agree_at_the_edges_of_blocks(vocab: int) -> None:
    tiling = Tiling(vocab, 21, PRECISION)
    scores = score_rows(vocab)
    edges = [v for block in range(0, vocab + 257, 256) for v in (block - 1, block) if 0 <= v < vocab]
    for symbol in (0, *edges[-5:]):
        symbols = torch.full((len(scores),), symbol)
        starts, frequencies = cdf.intervals(scores, symbols, tiling, EXP2)
        for ours, theirs in zip(fusedcdf.intervals(scores, symbols, tiling, EXP2), (starts, frequencies), strict=True):
            assert torch.equal(ours, theirs)
        for points in (starts, starts + frequencies - 1):
            for form in (cdf, fusedcdf):
                assert torch.equal(form.find(scores, points, tiling, EXP2)[0], symbols)


def test_both_forms_agree_on_the_largest_distance() -> None:
    tiling = Tiling(3, 0, PRECISION)
    limit = fixedpoint.SCORE_LIMIT
    scores = torch.tensor([[limit, -limit, 0], [-limit, limit, limit]], dtype=torch.int32)
    for symbol in range(3):
        symbols = torch.full((2,), symbol)
        ours, theirs = (form.intervals(scores, symbols, tiling, EXP2) for form in (fusedcdf, cdf))
        assert [part.tolist() for part in ours] == [part.tolist() for part in theirs]


def test_the_largest_vocabulary_does_not_overflow() -> None:
    tiling = Tiling(1 << 18, 256, 28)
    flat = torch.zeros(2, tiling.vocab, dtype=torch.int32)
    symbols = torch.tensor([tiling.vocab - 1, tiling.vocab // 2])
    starts, frequencies = cdf.intervals(flat, symbols, tiling, EXP2)
    for form in (cdf, fusedcdf):
        found = form.find(flat, starts + frequencies - 1, tiling, EXP2)
        assert [part.tolist() for part in found] == [symbols.tolist(), starts.tolist(), frequencies.tolist()]
    assert int(starts[0] + frequencies[0]) == tiling.escape_start


def test_an_escape_costs_less_than_two_bytes() -> None:
    tiling = Tiling(460, 19, PRECISION)
    assert tiling.escape << ESCAPE_BITS == 1 << PRECISION
    assert ESCAPE_BITS < 16


@pytest.mark.parametrize("wrong", [(460, 19, 19), (460, 19, 29), (0, 0, 28), ((1 << 18) + 1, 0, 28), (1 << 18, 0, 18)])
def test_what_does_not_fit_is_refused(wrong: tuple[int, int, int]) -> None:
    with pytest.raises(ArgumentError):
        Tiling(*wrong)
