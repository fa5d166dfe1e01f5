"""Losses of causal models against plain torch, and drafts that are told from one reading of the text."""

import numpy as np
import pytest
import torch

from speccompact.modelstore.checkpoints import Checkpoint
from speccompact.text.vocabulary import Vocabulary
from speccompact.training.batch import Batch, make_batch
from speccompact.training.causalpass import causal_loss, trial_of, try_causal
from speccompact.training.draftlabels import LabelledBatch
from speccompact.training.draftlosses import LOSSES, Buckets, top_buckets
from speccompact.training.draftpass import Aim
from speccompact.training.network import Network
from speccompact.training.tuning import load_base
from tests.tiny_corpus import write_model

TOP = 4


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """A tiny float model."""
    return load_base(str(write_model(tmp_path_factory.mktemp("model"))))[0]


def batch_of(base: Checkpoint) -> Batch:
    vocabulary = Vocabulary(base.tokenizer.token_bytes(), base.tokenizer.special_ids)
    random = np.random.default_rng(4)
    return make_batch([random.integers(1, 259, n).astype(np.int32) for n in (40, 33, 7)], vocabulary)


def labelled(batch: Batch) -> LabelledBatch:
    generator = torch.Generator().manual_seed(1)
    count = len(batch.targets)
    symbols = torch.stack([torch.randperm(259, generator=generator)[:TOP] for _ in range(count)])
    chances = torch.rand(count, TOP, generator=generator).softmax(-1) * 0.9
    return LabelledBatch(batch.inputs, batch.targets, batch.lengths, 0, symbols, chances)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("listed", [259, 100])
def test_losses_are_those_of_the_definition(base: Checkpoint, loss: str, soft: bool, listed: int) -> None:
    network = Network(base, None, 1.0, 0)
    batch = labelled(batch_of(base)) if soft else batch_of(base)
    value = causal_loss(network, batch, Aim(loss, "uniform", 0.5), listed)
    value.backward()  # type: ignore[no-untyped-call]
    found = {name: parameter.grad for name, parameter in network.named_parameters()}
    network.zero_grad()
    hidden, head = network.hidden(batch, rounding=False)
    logs = (hidden @ head[:listed].T).log_softmax(-1)
    if isinstance(batch, LabelledBatch):
        places = batch.symbols.masked_fill(batch.symbols >= listed, -1)
        wanted = LOSSES[loss](top_buckets(logs, places, batch.chances), 0.5).mean()
    else:
        known = batch.targets < listed
        chosen = logs[known].gather(1, batch.targets[known, None])
        wanted = LOSSES[loss](Buckets(torch.ones_like(chosen), chosen), 0.5).mean()
    wanted.backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(value, wanted, rtol=1e-4, atol=1e-5)
    for name, parameter in network.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad, rtol=1e-2, atol=1e-4)


def test_trials_follow_the_text() -> None:
    single = torch.tensor([True, True, False, True, True, True, True, False])
    trial = trial_of(single, (3, 5), 2)
    assert trial.passes.tolist() == [0, 3, 6]
    assert trial.judged.hits.tolist()[:3] == [[True, True], [True, False], [False, False]]
    assert trial.judged.reached.tolist()[2] == [True, False]
    assert trial.tokens_per_pass == pytest.approx(8 / 3)


def test_a_model_is_tried_on_every_kind(base: Checkpoint) -> None:
    network, batch = Network(base, None, 1.0, 0), batch_of(base)
    trials = try_causal(network, {"a": [batch, batch], "b": []}, 259, 3, lambda: None)
    assert list(trials) == ["a"]
    assert len(trials["a"].judged.hits) == 160
