"""Whole runs with a tiny model, through the door that the command line uses."""

import hashlib
import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from speccompact.errors import ArgumentError, LimitError, ModelError
from speccompact.modelstore.adapterfile import read_adapter, stored_name, write_adapter
from speccompact.modelstore.merging import fingerprint, merge
from speccompact.modelstore.safetensors import SafetensorsFile
from speccompact.training import trainer
from speccompact.training.batch import Batch
from speccompact.training.network import Network
from speccompact.training.trainer import BRANCH, LAST, Interrupted, Report
from speccompact.training.trainoptions import TrainOptions
from speccompact.training.trainstate import peek_state
from speccompact.training.tuning import Tuned, load_base, tune
from tests.tiny_adapter import peft_folder
from tests.tiny_corpus import write_corpus, write_home
from tests.tiny_gguf import tiny_llama, write_safetensors

STEPS = 10
OPTIONS: dict[str, Any] = {
    "tokens": STEPS * 512,
    "batch": 512,
    "micro_batch": 256,
    "length": 64,
    "rank": 2,
    "learning_rate": 0.01,
    "warm_up": 512,
    "evaluate_tokens": 128,
    "evaluate_every": 512 * 4,
    "checkpoint_minutes": 0.0,
    "threads": 1,
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus and a model."""
    return write_home(tmp_path_factory.mktemp("home"))


class Watching:
    """Notes reports, and asks for a stop after so many of them."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.reports: list[Report] = []
        self._stop_after = stop_after

    def __call__(self, report: Report) -> None:
        self.reports.append(report)

    def stopping(self) -> bool:
        return self._stop_after is not None and len(self.reports) > self._stop_after


def run(home: Path, out: Path, watching: Watching | None = None, resume: bool = False, **changed: Any) -> Tuned:
    watching = watching or Watching()
    base, name = load_base(str(home / "tiny.gguf"))
    corpus, held_out = changed.pop("corpus", home / "corpus"), changed.pop("held_out", None)
    start, remark = changed.pop("start", None), changed.pop("remark", lambda words: None)
    return tune(
        corpus,
        out,
        base,
        name,
        TrainOptions(**(OPTIONS | changed)),
        held_out=held_out,
        start=start,
        resume=resume,
        watch=watching,
        stopping=watching.stopping,
        remark=remark,
    )


@pytest.fixture(scope="module")
def whole(home: Path) -> Path:
    """A run that nothing has disturbed."""
    run(home, home / "whole")
    return home / "whole"


def test_a_run_learns_and_leaves_everything_behind(home: Path, whole: Path) -> None:
    assert sorted(path.name for path in whole.iterdir()) == [
        "adapter.safetensors",
        BRANCH,
        "curves.png",
        LAST,
        "metrics.jsonl",
        "provenance.json",
    ]
    result = json.loads((whole / "provenance.json").read_text())["result"]
    assert result["mean_change_percent"] < -1
    assert list(result["held_out"]) == ["logs", "prose", "text"]
    adapter = read_adapter(whole / "adapter.safetensors")
    base, _ = load_base(str(home / "tiny.gguf"))
    assert (adapter.rank, adapter.scale, adapter.base) == (2, 1.0, fingerprint(base))
    assert SafetensorsFile(whole / "adapter.safetensors").tensors[stored_name("layers.0.q", "A")].dtype == "I8"
    assert (merge(base, adapter).tensors["layers.0.q"] != base.tensors["layers.0.q"]).any()


def test_a_second_run_is_the_same(home: Path, whole: Path, tmp_path: Path) -> None:
    run(home, tmp_path)
    assert (tmp_path / "adapter.safetensors").read_bytes() == (whole / "adapter.safetensors").read_bytes()
    assert steps_of(tmp_path) == steps_of(whole)


def steps_of(out: Path) -> list[Any]:
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "tokens_per_second"} for line in lines]


@pytest.mark.parametrize("stop_after", [1, 3, 8, 17, 24])
def test_a_run_that_is_stopped_goes_on_to_the_same_bits(
    home: Path, whole: Path, tmp_path: Path, stop_after: int
) -> None:
    with pytest.raises(Interrupted):
        run(home, tmp_path, Watching(stop_after))
    resumed = peek_state(tmp_path / LAST).step
    assert resumed < STEPS
    assert not (tmp_path / "adapter.safetensors").exists()
    run(home, tmp_path, resume=True)
    assert (tmp_path / "adapter.safetensors").read_bytes() == (whole / "adapter.safetensors").read_bytes()
    before, after = (json.loads((out / "provenance.json").read_text()) for out in (whole, tmp_path))
    for one in (before, after):
        del one["result"]["seconds"]
    (first,), (again, second) = before.pop("parts"), after.pop("parts")
    assert again == first == second | {"resumed": -1}
    assert second["resumed"] == resumed
    assert before == after


def test_a_run_that_was_killed_goes_on_from_its_checkpoint(
    home: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class KilledError(BaseException):
        pass

    def kill(*_arguments: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(trainer.Trainer, "_save", save_until(5, trainer.Trainer._save, kill))
        with pytest.raises(KilledError):
            run(home, tmp_path)
    assert peek_state(tmp_path / LAST).step == 4
    run(home, tmp_path, resume=True)
    assert (tmp_path / "adapter.safetensors").read_bytes() == (whole / "adapter.safetensors").read_bytes()


def save_until(step: int, save: Callable[..., None], kill: Callable[..., None]) -> Callable[..., None]:
    def save_or_kill(self: trainer.Trainer, name: str) -> None:
        (kill if self.state.step >= step else save)(self, name)

    return save_or_kill


def test_a_run_is_made_longer_from_before_its_decay(home: Path, whole: Path, tmp_path: Path) -> None:
    longer: dict[str, Any] = {"tokens": 2 * STEPS * 512}
    run(home, tmp_path / "long", **longer)
    run(home, tmp_path / "short")
    assert peek_state(tmp_path / "short" / BRANCH).step == 7
    watching = Watching()
    tuned = run(home, tmp_path / "short", watching, resume=True, **longer)
    assert tuned.tokens == 2 * STEPS * 512
    assert watching.reports[1].tokens == 7 * 512
    adapters = [(tmp_path / name / "adapter.safetensors").read_bytes() for name in ("long", "short")]
    assert adapters[0] == adapters[1]
    assert adapters[0] != (whole / "adapter.safetensors").read_bytes()


def test_a_run_is_made_shorter_before_its_decay(home: Path, whole: Path, tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        run(home, tmp_path, Watching(8), tokens=3 * STEPS * 512)
    said: list[str] = []
    run(home, tmp_path, resume=True, remark=said.append)
    assert said[-1].startswith(f"the run was to have {3 * STEPS * 512} tokens; it goes on at ")
    assert (tmp_path / "adapter.safetensors").read_bytes() == (whole / "adapter.safetensors").read_bytes()
    parts = json.loads((tmp_path / "provenance.json").read_text())["parts"]
    assert [part["tokens"] for part in parts] == [3 * STEPS * 512, STEPS * 512]


def test_a_run_cannot_end_before_where_it_is(home: Path, whole: Path) -> None:
    with pytest.raises(ArgumentError, match=r"^tokens is 1024, but the run was planned for 5120"):
        run(home, whole, resume=True, tokens=1024)


def test_a_finished_run_finishes_again(home: Path, whole: Path, tmp_path: Path) -> None:
    run(home, tmp_path)
    (tmp_path / "adapter.safetensors").unlink()
    run(home, tmp_path, resume=True)
    assert (tmp_path / "adapter.safetensors").read_bytes() == (whole / "adapter.safetensors").read_bytes()


@pytest.mark.parametrize(
    "changed",
    [{"learning_rate": 0.02}, {"rank": 4}, {"seed": 1}, {"mix": {"logs": 0.0}}, {"length": 32}, {"rank": None}],
)
def test_another_setting_is_refused(home: Path, whole: Path, changed: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=f"^{next(iter(changed))} is .* began with"):
        run(home, whole, resume=True, **changed)


def test_another_corpus_or_model_is_refused(home: Path, whole: Path, tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus")
    (corpus / "more.txt").write_text("more\n")
    with pytest.raises(ArgumentError, match=r"^corpus has changed"):
        run(home, whole, resume=True, corpus=corpus)
    (tmp_path / "held").mkdir()
    (tmp_path / "held" / "other.txt").write_text("some other words\n" * 9)
    with pytest.raises(ArgumentError, match=r"^held_out has changed"):
        run(home, whole, resume=True, held_out=tmp_path / "held")
    tiny_llama(1).write(tmp_path / "tiny.gguf")
    with pytest.raises(ArgumentError, match=r"^model has changed"):
        run(tmp_path, whole, resume=True, corpus=home / "corpus")


def test_a_folder_with_a_run_is_not_started_anew(home: Path, whole: Path, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="holds a run already"):
        run(home, whole)
    with pytest.raises(ArgumentError, match="finds no checkpoint"):
        run(home, tmp_path, resume=True)


def test_held_out_files_that_are_no_text(home: Path, tmp_path: Path) -> None:
    (tmp_path / "corpus" / "logs").mkdir(parents=True)
    (tmp_path / "corpus" / "logs" / "x").write_bytes((home / "corpus" / "logs" / "server.log").read_bytes()[:10_000])
    (tmp_path / "held").mkdir()
    (tmp_path / "held" / "x").write_bytes(random.Random(0).randbytes(9000))
    with pytest.raises(ArgumentError, match=r"^held_out text is needed"):
        run(home, tmp_path / "out", corpus=tmp_path / "corpus", held_out=tmp_path / "held")
    assert not (tmp_path / "out").exists()


def test_a_damaged_checkpoint_is_refused(home: Path, tmp_path: Path) -> None:
    (tmp_path / LAST).write_bytes(b"nonsense")
    with pytest.raises(ModelError):
        run(home, tmp_path, resume=True)


def test_a_loss_that_is_not_finite_keeps_the_checkpoint(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bits, calls = Network.bits, []

    def breaking(self: Network, batch: Batch, rounding: bool) -> torch.Tensor:
        calls.append(torch.is_grad_enabled())
        return bits(self, batch, rounding) * (float("nan") if sum(calls) > 6 else 1)

    monkeypatch.setattr(Network, "bits", breaking)
    with pytest.raises(ArgumentError, match=r"^learning_rate is 0.01, .* not finite any more at step 3"):
        run(home, tmp_path)
    assert peek_state(tmp_path / LAST).step == 3


@pytest.mark.parametrize("device", [True, False])
def test_too_little_memory(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: bool) -> None:
    def full(_self: Network, _batch: Batch, rounding: bool) -> torch.Tensor:
        if device:
            raise torch.OutOfMemoryError
        return torch.empty(10**14)

    monkeypatch.setattr(Network, "bits", full)
    with pytest.raises(LimitError, match="micro-batch"):
        run(home, tmp_path)


def test_other_errors_of_torch_are_not_taken_for_it(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Network, "bits", lambda _self, _batch, rounding: torch.ones(2) @ torch.ones(3))
    with pytest.raises(RuntimeError, match="size"):
        run(home, tmp_path)


@pytest.mark.parametrize("stream", [{}, {"draws": {}, "tokens": {}, "pool": [["logs", 0, 99, 0, 1]]}, {"draws": 1}])
def test_a_place_in_the_corpus_that_makes_no_sense(
    home: Path, whole: Path, tmp_path: Path, stream: dict[str, Any]
) -> None:
    state = peek_state(whole / LAST)
    file = SafetensorsFile(whole / LAST)
    tensors = {name: file.floats(name) for name in file.tensors}
    changed = json.dumps(vars(state) | {"stream": stream})
    write_safetensors(tmp_path / LAST, tensors, {"speccompact.training": changed})
    with pytest.raises(ModelError, match=f"{LAST}: damaged checkpoint: its place in the corpus"):
        run(home, tmp_path, resume=True)


def test_an_older_checkpoint_of_another_run_is_not_taken(home: Path, whole: Path, tmp_path: Path) -> None:
    run(home, tmp_path, seed=1)
    (tmp_path / LAST).write_bytes((whole / LAST).read_bytes())
    with pytest.raises(ArgumentError, match=r"^seed is 0, but the run began with 1"):
        run(home, tmp_path, resume=True, tokens=2 * STEPS * 512)


def test_a_run_starts_where_an_adapter_is(home: Path, whole: Path, tmp_path: Path) -> None:
    start = whole / "adapter.safetensors"
    tuned = run(home, tmp_path / "more", start=start, learning_rate=1e-9)
    before = json.loads((whole / "provenance.json").read_text("utf-8"))["result"]["held_out"]
    assert tuned.start == {kind: row["start_bpb"] for kind, row in before.items()}
    assert tuned.end == pytest.approx(
        {kind: row["end_bpb"] for kind, row in before.items()}, rel=5e-3
    )  # the file holds int8
    record = json.loads((tmp_path / "more" / "provenance.json").read_text("utf-8"))
    assert record["start_sha256"] == hashlib.sha256(start.read_bytes()).hexdigest()
    assert "--start START" in record["command"]
    longer = run(home, tmp_path / "longer", start=start)
    assert sum(longer.end.values()) < sum(tuned.end.values())


def test_a_start_is_part_of_a_run(home: Path, whole: Path, tmp_path: Path) -> None:
    start = whole / "adapter.safetensors"
    with pytest.raises(Interrupted):
        run(home, tmp_path, Watching(6), start=start)
    with pytest.raises(ArgumentError, match="start has changed"):
        run(home, tmp_path, resume=True)
    stopped = run(home, tmp_path, resume=True, start=start)
    assert stopped.end == run(home, tmp_path / "at once", start=peft_folder(tmp_path / "peft", start)).end


@pytest.mark.parametrize(("changed", "message"), [({"rank": 3}, "--rank 2"), ({"rank": None}, "start is an adapter")])
def test_a_start_must_fit(home: Path, whole: Path, tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        run(home, tmp_path, start=whole / "adapter.safetensors", **changed)


def test_a_start_for_another_model_is_refused(home: Path, whole: Path, tmp_path: Path) -> None:
    start = tmp_path / "other.safetensors"
    write_adapter(start, replace(read_adapter(whole / "adapter.safetensors"), base="0" * 64))
    with pytest.raises(ArgumentError, match="another model"):
        run(home, tmp_path / "out", start=start)


def test_a_start_must_have_all_weights(home: Path, whole: Path, tmp_path: Path) -> None:
    start, adapter = tmp_path / "part.safetensors", read_adapter(whole / "adapter.safetensors")
    name, factors = next(iter(adapter.factors.items()))
    write_adapter(start, replace(adapter, factors={name: factors}))
    with pytest.raises(ArgumentError, match="it has nothing for"):
        run(home, tmp_path / "out", start=start)


def test_every_weight_can_be_trained(home: Path, tmp_path: Path) -> None:
    tuned = run(home, tmp_path, rank=None, learning_rate=0.001)
    assert tuned.adapter is None
    assert sum(tuned.end.values()) < sum(tuned.start.values())
    assert not (tmp_path / "adapter.safetensors").exists()
    assert (tmp_path / "provenance.json").exists()


def test_a_model_with_a_short_context(home: Path, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="length is 512, but the model was made for 256 tokens"):
        run(home, tmp_path, length=512, micro_batch=512)
    with pytest.raises(ArgumentError, match="evaluate_length is 512, but the model was made for 256 tokens"):
        run(home, tmp_path, evaluate_length=512, micro_batch=512)


def test_a_length_to_measure_with_changes_nothing_else(home: Path, whole: Path, tmp_path: Path) -> None:
    tuned = run(home, tmp_path, evaluate_length=128)
    assert (tmp_path / "adapter.safetensors").read_bytes() == (whole / "adapter.safetensors").read_bytes()
    measured = json.loads((whole / "provenance.json").read_text())["result"]["held_out"]
    assert tuned.start["prose"] != measured["prose"]["start_bpb"]


def test_provenance_is_enough_and_tells_nothing_of_the_machine(home: Path, whole: Path) -> None:
    text = (whole / "provenance.json").read_text()
    record = json.loads(text)
    assert str(home) not in text
    assert "/" not in record["command"].replace(record["model"]["name"], "")
    for name, value in OPTIONS.items():
        if name not in ("checkpoint_minutes", "evaluate_every"):
            assert f"--{name.replace('_', '-')} {value}" in record["command"]
    assert set(record["settings"]) == {"tokens", *TrainOptions().settings()}
    files = {file["path"]: file for file in record["corpus"]["files"]}
    assert set(files) == {"logs/server.log", "plain.txt", "prose/babble.txt", "prose/story.txt"}
    assert all(len(file["sha256"]) == 64 for file in files.values())
    (part,) = record["parts"]
    assert set(part["versions"]) >= {"python", "torch", "speccompact", "speccompact_source"}
    assert (part["resumed"], part["device"], part["threads"], part["compile"]) == (-1, "cpu", 1, False)
    assert sum(record["result"]["tokens_by_kind"].values()) == STEPS * 512
    assert len(record["result"]["adapter_sha256"]) == 64


def test_progress_tells_the_time_left(home: Path, tmp_path: Path) -> None:
    watching = Watching()
    run(home, tmp_path, watching)
    last = watching.reports[-1]
    assert (last.stage, last.tokens, last.total) == ("evaluated", STEPS * 512, STEPS * 512)
    assert last.change is not None
    assert last.change < 0
    assert last.seconds_left == 0
    assert watching.reports[0] == Report("reading", 0, STEPS * 512, None, None, None, None)
