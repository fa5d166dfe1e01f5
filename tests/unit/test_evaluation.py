from pathlib import Path

import pytest
import torch
from torch import Tensor

from speccompact.training.batch import Batch
from speccompact.training.corpus import open_corpus
from speccompact.training.evaluation import changes, evaluate, mean_change, short_measures, slices
from speccompact.training.sampling import Cutter
from tests.tiny_corpus import write_corpus
from tests.tiny_vocabulary import tiny_tokenizer


class TwoBits:
    """A model to which every token costs two bits, rounding or not."""

    def __init__(self) -> None:
        self.rounded: set[bool] = set()

    def bits(self, batch: Batch, rounding: bool) -> Tensor:
        assert not torch.is_grad_enabled()
        self.rounded.add(rounding)
        return torch.tensor(2.0 * len(batch.targets))


def measured(folder: Path, tokens: int) -> dict[str, list[Batch]]:
    corpus = open_corpus(folder, None, tiny_tokenizer(), 64)
    return slices(corpus.held_out, Cutter(tiny_tokenizer()), length=64, micro_batch=128, tokens=tokens)


def test_slices_are_bounded_and_the_same_each_time(tmp_path: Path) -> None:
    found = measured(write_corpus(tmp_path), 100)
    assert list(found) == ["logs", "prose", "text"]
    for batches in found.values():
        assert 64 < sum(len(batch.targets) for batch in batches) <= 100
        assert all(len(batch.targets) <= 128 and max(batch.lengths) <= 64 for batch in batches)
    again = measured(tmp_path, 100)
    assert all(
        torch.equal(a.targets, b.targets) for kind in found for a, b in zip(found[kind], again[kind], strict=True)
    )


def test_bits_per_byte(tmp_path: Path) -> None:
    model, found = TwoBits(), measured(write_corpus(tmp_path), 10_000)
    pauses: list[None] = []
    result = evaluate(model, found, torch.device("cpu"), lambda: pauses.append(None))
    assert model.rounded == {True}
    assert len(pauses) == sum(map(len, found.values()))
    for kind, batches in found.items():
        tokens, size = (sum(len(b.targets) for b in batches), sum(b.content_bytes for b in batches))
        assert result[kind] == pytest.approx(2 * tokens / size)


def test_changes() -> None:
    start, now = {"a": 2.0, "b": 4.0, "gone": 1.0}, {"a": 1.0, "b": 5.0}
    assert changes(start, now) == pytest.approx({"a": -50.0, "b": 25.0})
    assert mean_change(start, now) == pytest.approx(-12.5)
    assert mean_change({}, {}) == 0.0


def test_little_text_is_told(tmp_path: Path) -> None:
    found = measured(write_corpus(tmp_path), 100)
    (words,) = short_measures(found)
    assert "logs (" in words
    assert "text (" in words
    assert short_measures({"prose": found["prose"] * 64}) == []
