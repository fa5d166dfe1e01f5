"""The drafter `model`, with the tiny model itself: it drafts what the target thinks, whatever was rolled back."""

from functools import cache

import numpy as np
import pytest
import torch

from speccompact.exact.cache import Cache, Rows, Span
from speccompact.exact.transformer import Transformer
from speccompact.speculative.causal import KIND, ModelDrafter
from speccompact.speculative.drafter import Draft, Slot
from tests.tiny_model import tiny
from tests.tiny_slots import QUIET, Symbols, text_symbols, wild_symbols


@cache
def transformer() -> Transformer:
    return tiny(QUIET)[0].transformer


def drafter(most: int = 6, floor: float = 0.0) -> ModelDrafter:
    made = ModelDrafter(transformer().weights, transformer().kernels, most, floor)
    made.begin(200)
    return made


def greedy(text: Symbols, count: int) -> list[int]:
    """What the model would say, from nothing."""
    found: list[int] = []
    for _ in range(count):
        inputs = np.concatenate([[0], text, found]).astype(np.int64)
        inputs[inputs >= transformer().weights.vocab] = 0
        cache_ = Cache(transformer().weights, 1, len(inputs))
        rows = Rows.of([Span(0, 0, len(inputs))])
        hidden, scale = transformer().hidden(torch.from_numpy(inputs), rows, cache_)
        found.append(int(transformer().scores(hidden[-1:], scale[-1:]).argmax()))
    return found


def propose(made: ModelDrafter, texts: dict[int, Symbols], limit: int = 6) -> list[Draft]:
    slots = [Slot(key, text) for key, text in texts.items()]
    return made.propose(slots, [limit] * len(slots))


def test_drafts_are_greedy() -> None:
    texts = {5: text_symbols(40), 2: wild_symbols(9), 9: np.empty(0, np.int32)}
    drafts = propose(drafter(), texts)
    assert [draft.symbols.tolist() for draft in drafts] == [greedy(text, 6) for text in texts.values()]
    assert all(draft.kind == KIND and draft.chances.dtype == np.float32 for draft in drafts)
    assert all(((draft.chances > 0) & (draft.chances <= 1)).all() for draft in drafts)


def test_wrong_drafts_and_slots_that_come_and_go_leave_no_trace() -> None:
    made, random = drafter(), np.random.default_rng(1)
    texts = {key: text_symbols(120, key) for key in range(6)}
    lengths = dict.fromkeys(texts, 0)
    for turn in range(30):
        keys = random.permutation(6)[: 1 + turn % 4].tolist()
        found = propose(made, {key: texts[key][: lengths[key]] for key in keys}, 1 + turn % 6)
        for key, draft in zip(keys, found, strict=True):
            if turn % 5 == 0:
                assert draft.symbols.tolist() == greedy(texts[key][: lengths[key]], len(draft))
            lengths[key] += int(random.integers(1, 8))
        made.learn([Slot(key, texts[key][: lengths[key]]) for key in keys], found, [0] * len(keys))
    made.begin(60)
    assert propose(made, {0: texts[3][:50]})[0].symbols.tolist() == greedy(texts[3][:50], 6)


def test_limits_and_doubts_end_a_draft() -> None:
    text = text_symbols(30)
    assert [len(draft) for draft in drafter().propose([Slot(0, text), Slot(1, text)], [0, 2])] == [0, 2]
    sure = propose(drafter(8, 0.5), {0: text}, 8)[0]
    whole = propose(drafter(8, 0.0), {0: text}, 8)[0]
    reached = np.concatenate([[1.0], np.cumprod(whole.chances)])[:8] >= 0.5
    assert len(sure) == (8 if reached.all() else int(reached.argmin()))
    assert drafter().propose([], []) == []


def test_a_slot_that_outgrows_the_model_gets_nothing() -> None:
    made = ModelDrafter(transformer().weights, transformer().kernels)
    made.begin(5000)
    long = np.zeros(transformer().weights.positions - 1, np.int32)
    assert len(propose(made, {0: long})[0]) == 0
    assert len(propose(made, {0: long[:-1]})[0]) == 1


@pytest.mark.parametrize("listed", [50])
def test_only_the_first_tokens_are_drafted(monkeypatch: pytest.MonkeyPatch, listed: int) -> None:
    monkeypatch.setattr("speccompact.speculative.causal.LISTED", listed)
    assert propose(drafter(), {0: text_symbols(20)})[0].symbols.max() < listed
