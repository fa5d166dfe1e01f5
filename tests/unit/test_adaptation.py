"""Adaptation of the output layer against its formulas in Python integers and floats."""

import math

import numpy as np
import pytest
import torch

from speccompact.exact.fixedpoint import SCORE_LIMIT
from speccompact.exact.tables import exp2_table
from speccompact.memory import adaptation
from speccompact.memory.adaptation import BIAS_INPUT, ENTRIES, GRADIENT_BITS, HeadAdaptation, gradients

EXP2 = torch.from_numpy(exp2_table(12, 23))
VOCAB, HIDDEN = 50, 24


def rows(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, np.ndarray, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(-4 << 16, 4 << 16, (count, VOCAB), generator=generator, dtype=torch.int32)
    hidden = torch.randint(-127, 128, (count, HIDDEN), generator=generator, dtype=torch.int8)
    symbols = torch.randint(0, VOCAB + 2, (count,), generator=generator).numpy()
    distance = scores.amax(-1, keepdim=True) - scores
    total = (EXP2[(distance >> 4) & 4095].to(torch.int64) >> (distance >> 16)).sum(-1)
    return scores, hidden, symbols, total


def test_gradients_are_probabilities_less_what_came() -> None:
    scores, _, symbols, total = rows(40, 1)
    entries, sizes = gradients(scores, symbols, total, EXP2)
    likely = torch.softmax(scores * (math.log(2) / 65536), -1).numpy()
    for r in range(40):
        found = dict(entries[r, : sizes[r]].tolist())
        assert set(found) >= {v for v in range(VOCAB) if likely[r, v] > 1 / 255} | {
            s for s in [symbols[r]] if s < VOCAB
        }
        assert all(likely[r, v] > 1 / 257 or v == symbols[r] for v in found)
        for v, slope in found.items():
            assert slope / (1 << GRADIENT_BITS) == pytest.approx((v == symbols[r]) - likely[r, v], abs=1.1 / 1024)


def test_the_gradient_of_one_position_has_at_most_so_many_entries() -> None:
    scores = torch.zeros(1, 300, dtype=torch.int32)
    scores[0, 256:] = -30 << 16
    total = torch.tensor([256 * int(EXP2[0])])
    _, sizes = gradients(scores, np.array([299]), total, EXP2)
    assert sizes.tolist() == [ENTRIES]


def test_what_comes_becomes_likelier_where_it_came() -> None:
    head = HeadAdaptation(VOCAB, HIDDEN, torch.device("cpu"))
    scores, hidden, symbols, total = rows(30, 2)
    symbols = symbols % VOCAB
    entries, sizes = gradients(scores, symbols, total, EXP2)
    before = scores.clone()
    head.apply(before, hidden)
    assert torch.equal(before, scores)
    head.learn(hidden.numpy(), entries, sizes)
    after = scores.clone()
    head.apply(after, hidden)
    came = torch.from_numpy(symbols)[:, None]
    gain = (after.gather(1, came) - scores.gather(1, came)).double()
    assert gain.mean() > 2000
    assert set(symbols.tolist()) <= set(head.tokens[: head.count].tolist())


def test_rows_by_their_formula() -> None:
    head = HeadAdaptation(VOCAB, HIDDEN, torch.device("cpu"))
    totals: dict[int, list[int]] = {}
    energy: dict[int, int] = {}
    for seed in range(4):
        scores, hidden, symbols, total = rows(25, seed)
        entries, sizes = gradients(scores, symbols, total, EXP2)
        head.learn(hidden.numpy(), entries, sizes)
        pairs = [(r, v, g) for r in range(25) for v, g in entries[r, : sizes[r]].tolist()]
        for _, v, g in pairs:
            if v not in totals and (g > 0 or g <= -64):
                totals[v], energy[v] = [0] * (HIDDEN + 1), 0
        for v in {v for _, v, _ in pairs} & set(totals):
            mine = [(r, g) for r, u, g in pairs if u == v]
            squares = sum(g * g for _, g in mine) >> 10
            energy[v] += squares
            root = math.isqrt((energy[v] + 2048) * (4096 + squares) >> 2)
            inputs = [[*hidden[r].tolist(), BIAS_INPUT] for r, _ in mine]
            for h in range(HIDDEN + 1):
                slope = sum(g * u[h] for (_, g), u in zip(mine, inputs, strict=True))
                totals[v][h] += slope * 5120 // root
    assert head.tokens[: head.count].tolist() == list(totals)
    for row, values in enumerate(totals.values()):
        assert head.total[row].tolist() == values
        largest = max(1, *map(abs, values))
        assert head.largest[row] == largest
        assert head.weight[row] == pytest.approx([127 * x / largest for x in values], abs=0.51)
    scores, hidden, _, _ = rows(5, 9)
    changed = scores.clone()
    head.apply(changed, hidden)
    for r in range(5):
        for row, v in enumerate(totals):
            product = sum(
                int(a) * int(b) for a, b in zip(head.weight[row], [*hidden[r].tolist(), BIAS_INPUT], strict=True)
            )
            delta = (product * int(head.largest[row]) + (1 << 21)) >> 22
            assert changed[r, v] == max(-SCORE_LIMIT, min(SCORE_LIMIT, int(scores[r, v]) + delta))


def test_no_more_rows_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    head = HeadAdaptation(3 * adaptation.ROWS, HIDDEN, torch.device("cpu"))
    entries = np.zeros((2, ENTRIES, 2), np.int32)
    hidden = np.ones((2, HIDDEN), np.int8)
    for start in range(0, 3 * adaptation.ROWS - 200, 200):
        entries[:, :100, 0] = np.arange(start, start + 200).reshape(2, 100)
        entries[:, :100, 1] = 900
        head.learn(hidden, entries, np.array([100, 100]))
    assert head.count == adaptation.ROWS
    assert head.tokens.tolist() == list(range(adaptation.ROWS))


@pytest.mark.parametrize("seed", range(3))
def test_devices_compute_the_same(seed: int) -> None:
    scores, hidden, symbols, total = rows(40, seed)
    found, sizes = gradients(scores, symbols, total, EXP2)
    entries, counts = np.zeros_like(found), np.zeros_like(sizes)
    adaptation._gradients_on_device(scores, symbols, total, EXP2, entries, counts)
    assert counts.tolist() == sizes.tolist()
    assert all((entries[r, :n] == found[r, :n]).all() for r, n in enumerate(sizes))
    head = HeadAdaptation(VOCAB, HIDDEN, torch.device("cpu"))
    head.learn(hidden.numpy(), found, sizes)
    here, there = scores.clone(), scores.clone()
    head.apply(here, hidden)
    applied = head._applied
    assert applied is not None
    adaptation._apply_on_device(there, applied.product(hidden), applied)
    assert torch.equal(here, there)
    assert not torch.equal(here, scores)
