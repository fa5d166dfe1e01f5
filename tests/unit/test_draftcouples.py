"""Drafters that are bound to a target or trained together with one, as docs/ has them for its studies."""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch

from speccompact.text.vocabulary import Vocabulary
from speccompact.training.batch import make_batch
from speccompact.training.labelling import make_labels
from speccompact.training.network import Network
from speccompact.training.trainoptions import TrainOptions
from speccompact.training.tuning import load_base
from tests.unit.test_draftstudy import DOCS, call, folders, home

__all__ = ["home"]

FAST = ["--tokens=1024", "--batch=512", "--length=64", "--evaluate-tokens=128", "--listed=100"]


def test_a_bound_drafter_runs_under_targets_of_its_width(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = tmp_path / "labels"
    options = TrainOptions(tokens=1024, batch=512, length=64, rank=None, threads=1)
    base, _ = load_base(str(home / "tiny.gguf"))
    make_labels(home / "corpus", labels, base, options, 8, watch=lambda _: None, stopping=lambda: False)
    under = f"--under=itself={home / 'tiny.gguf'}"
    call(monkeypatch, "draftbound", *folders(home, tmp_path / "out"), "--labels", str(labels), under, *FAST)
    found = json.loads((tmp_path / "out" / "result.json").read_text())["under"]["itself"]
    assert {"prose", "transcripts_json"} <= set(found)
    assert all(value >= 1 for value in found.values())


def test_a_bound_drafter_reads_what_a_decoder_has(home: Path) -> None:
    """The token just before a draft has not been through the target yet."""
    base, _ = load_base(str(home / "tiny.gguf"))
    network = Network(base, 1, 1.0, 0)
    vocabulary = Vocabulary(base.tokenizer.token_bytes(), base.tokenizer.special_ids)
    texts = [np.arange(20, 40, dtype=np.int32), np.arange(50, 57, dtype=np.int32)]
    states_of = runpy.run_path(str(DOCS / "draftbound.py"))["states_of"]
    states = states_of(network, make_batch(texts, vocabulary))
    assert states.shape == (27, base.config.hidden)
    assert not states[[0, 20]].any()
    texts[0][9] = 99  # what is drafted from token 10 on follows it
    changed = (states_of(network, make_batch(texts, vocabulary)) != states).any(1)
    assert changed.nonzero()[:, 0].tolist() == list(range(11, 20))


@pytest.mark.parametrize("way", ["together", "apart"])
def test_training_together_and_apart(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    torch.manual_seed(0)
    call(monkeypatch, "codesign", way, *folders(home, tmp_path / "out"), "--new=1,16,2,24", *FAST)
    found = json.loads((tmp_path / "out" / "result.json").read_text())
    assert set(found["bpb"]) == set(found["tokens_per_pass"]) >= {"prose", "transcripts_json"}
    call(monkeypatch, "codesign", way, *folders(home, tmp_path / "out"), "--new=1,16,2,24", *FAST)
    assert json.loads((tmp_path / "out" / "result.json").read_text()) == found
