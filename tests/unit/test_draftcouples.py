"""Drafters that are bound to a target or trained together with one, as docs/ has them for its studies."""

import json
from pathlib import Path

import pytest
import torch

from speccompact.training.labelling import make_labels
from speccompact.training.trainoptions import TrainOptions
from speccompact.training.tuning import load_base
from tests.unit.test_draftstudy import call, folders, home

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


@pytest.mark.parametrize("way", ["together", "apart"])
def test_training_together_and_apart(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    torch.manual_seed(0)
    call(monkeypatch, "codesign", way, *folders(home, tmp_path / "out"), "--new=1,16,2,24", *FAST)
    found = json.loads((tmp_path / "out" / "result.json").read_text())
    assert set(found["bpb"]) == set(found["tokens_per_pass"]) >= {"prose", "transcripts_json"}
    call(monkeypatch, "codesign", way, *folders(home, tmp_path / "out"), "--new=1,16,2,24", *FAST)
    assert json.loads((tmp_path / "out" / "result.json").read_text()) == found
