"""Whole runs that train small models: targets and causal drafters, of layers and from nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

from speccompact.errors import ArgumentError
from speccompact.modelstore.checkpoints import load_checkpoint
from speccompact.modelstore.quantize import convert
from speccompact.training.labelling import make_labels
from speccompact.training.modeltraining import Made, ModelOptions, train_model
from speccompact.training.trainer import Interrupted, Report
from speccompact.training.trainoptions import TrainOptions
from speccompact.training.tuning import load_base
from tests.tiny_corpus import write_home

STEPS = 24
RUN: dict[str, Any] = {
    "tokens": STEPS * 512, "batch": 512, "micro_batch": 256, "length": 64, "learning_rate": 0.01, "rank": None,
    "rounding_from": 1.0, "warm_up": 512, "evaluate_tokens": 128, "evaluate_every": 512 * 12,
    "checkpoint_minutes": 0.0, "threads": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus and a model."""
    return write_home(tmp_path_factory.mktemp("home"))


def run(home: Path, out: Path, *, stop_after: int | None = None, **changed: Any) -> Made:
    seen: list[Report] = []
    base, name = load_base(str(home / "tiny.gguf"))
    arguments = {key: changed.pop(key) for key in ("labels", "resume") if key in changed}
    shared = {key: changed.pop(key) for key in (*RUN, "evaluate_length") if key in changed}
    return train_model(
        home / "corpus",
        out,
        base,
        name,
        ModelOptions(TrainOptions(**(RUN | shared)), **changed),
        watch=seen.append,
        stopping=lambda: stop_after is not None and len(seen) > stop_after,
        **arguments,
    )


def steps_of(out: Path) -> list[Any]:
    return [line for line in map(json.loads, (out / "metrics.jsonl").read_text().splitlines()) if "loss" in line]


@pytest.fixture(scope="module")
def whole(home: Path) -> Path:
    """A target from nothing, whose run nothing has disturbed."""
    run(home, home / "whole", new="1,16,2,24")
    return home / "whole"


def test_a_target_from_nothing(whole: Path) -> None:
    record = json.loads((whole / "provenance.json").read_text())
    kinds = record["result"]["held_out"]
    assert list(kinds) == ["logs", "prose", "text"]
    assert kinds["logs"]["bpb"] < 6
    assert kinds["logs"]["tokens_per_pass"] > 1
    assert "speccompact train model" in record["command"]
    assert " --new 1,16,2,24 --loss cross-entropy --listed 0 " in record["command"]
    losses = [line["loss"] for line in steps_of(whole)]
    assert sum(losses[-3:]) < sum(losses[:3])
    assert convert(load_checkpoint(whole / "model"))[0]["layers"] == 1
    assert (whole / "curves.png").exists()


def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(home: Path, whole: Path, tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        run(home, tmp_path / "out", stop_after=40, new="1,16,2,24")
    with pytest.raises(ArgumentError, match="new is 1,16,2,32, but the run began with 1,16,2,24"):
        run(home, tmp_path / "out", resume=True, new="1,16,2,32")
    run(home, tmp_path / "out", resume=True, new="1,16,2,24")
    name = "model/model.safetensors"
    assert (tmp_path / "out" / name).read_bytes() == (whole / name).read_bytes()


def test_layers_learn_from_soft_labels(home: Path, tmp_path: Path) -> None:
    base, _ = load_base(str(home / "tiny.gguf"))
    labels = tmp_path / "labels"
    options = TrainOptions(**(RUN | {"tokens": 2048, "micro_batch": 512}))
    make_labels(home / "corpus", labels, base, options, 8, watch=lambda _: None, stopping=lambda: False)
    made = run(home, tmp_path / "out", labels=labels, layers="1", loss="tvp", listed=200, tokens=4 * 512)
    assert made.tokens == 2048
    assert load_checkpoint(made.model).config.layers == 1
    assert [line["power"] for line in steps_of(tmp_path / "out")] == [0, pytest.approx(1 / 3), pytest.approx(2 / 3), 1]
    record = json.loads((tmp_path / "out" / "provenance.json").read_text())
    assert record["result"]["tokens_by_kind"] == {"labels": 2048}
    assert " --labels LABELS " in record["command"]
    run(home, tmp_path / "text", labels=labels, layers="1", text=True, tokens=512)
    assert " --text " in json.loads((tmp_path / "text" / "provenance.json").read_text())["command"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"text": True}, "text is about labels"),
        ({"length": 1 << 20, "micro_batch": 1 << 20, "batch": 1 << 20}, "length is 1048576, but the model"),
        ({"evaluate_length": 2048, "micro_batch": 2048, "batch": 2048}, "evaluate_length is 2048, but the model"),
    ],
)
def test_what_does_not_fit_is_refused(home: Path, tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        run(home, tmp_path / "out", **({"layers": "0"} | changed))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"loss": "l2"}, 'loss is "l2"'),
        ({"listed": -1}, "listed is -1"),
        ({"layers": "0", "new": "1,16,2,24"}, "leave one out"),
    ],
)
def test_options_are_checked(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        ModelOptions(TrainOptions(**RUN), **changed)
