"""Whole runs that train a drafter for a tiny tokenizer, and the soft labels that they can learn from."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from speccompact.errors import ArgumentError, LimitError, ModelError
from speccompact.modelstore.merging import fingerprint
from speccompact.speculative.block import BlockDrafter
from speccompact.speculative.blockfile import read_block
from speccompact.speculative.drafter import Slot
from speccompact.text.tokenizer import Tokenizer
from speccompact.text.vocabulary import Vocabulary
from speccompact.training import labelling, provenance
from speccompact.training.batch import make_batch
from speccompact.training.draftlabels import LabelledBatch, LabelStream, Origin, label, read_labels, write_labels
from speccompact.training.draftoptions import DraftOptions
from speccompact.training.drafttraining import Drafted, train_drafter
from speccompact.training.labelling import make_labels
from speccompact.training.network import Network
from speccompact.training.trainer import BRANCH, LAST, Interrupted, Report
from speccompact.training.trainoptions import TrainOptions
from speccompact.training.tuning import load_base
from tests.tiny_corpus import LOG, write_home
from tests.tiny_gguf import write_safetensors

STEPS = 60
RUN: dict[str, Any] = {
    "tokens": STEPS * 512,
    "batch": 512,
    "micro_batch": 256,
    "length": 64,
    "learning_rate": 0.01,
    "rank": None,
    "rounding_from": 1.0,
    "warm_up": 512,
    "evaluate_tokens": 256,
    "evaluate_every": 512 * 20,
    "checkpoint_minutes": 0.0,
    "threads": 1,
}
OWN: dict[str, Any] = {
    "loss": "tvp", "weights": "d-pace", "stride": 2, "listed": 100, "counted": 5000, "window": 6, "block": 4,
    "embed": 8, "width": 32, "inner": 32, "layers": 1, "rank": 16, "markov": 8, "trust": 8,
}  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus and a model."""
    return write_home(tmp_path_factory.mktemp("home"))


def run(home: Path, out: Path, *, stop_after: int | None = None, stop_at: str = "", **changed: Any) -> Drafted:
    seen: list[Report] = []

    def stopping() -> bool:
        ended = bool(seen) and seen[-1].stage == "evaluated" and seen[-1].tokens == seen[-1].total
        return (stop_at == "ended" and ended) or (stop_after is not None and len(seen) > stop_after)

    base, name = load_base(str(home / "tiny.gguf"))
    arguments = {key: changed.pop(key) for key in ("labels", "resume", "held_out") if key in changed}
    shared = {key: changed.pop(key) for key in RUN if key in changed}
    return train_drafter(
        home / "corpus",
        out,
        base,
        name,
        DraftOptions(TrainOptions(**(RUN | shared)), **(OWN | changed)),
        watch=seen.append,
        stopping=stopping,
        **arguments,
    )


@pytest.fixture(scope="module")
def whole(home: Path) -> Path:
    """A run that nothing has disturbed."""
    run(home, home / "whole")
    return home / "whole"


def lines_of(out: Path) -> list[Any]:
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "tokens_per_second"} for line in lines]


def test_a_run_learns_and_leaves_everything_behind(home: Path, whole: Path) -> None:
    names = ["curves.png", "drafter.safetensors", LAST, BRANCH, "metrics.jsonl", "provenance.json"]
    assert sorted(path.name for path in whole.iterdir()) == sorted(names)
    record = json.loads((whole / "provenance.json").read_text())
    result = record["result"]
    assert list(result["held_out"]) == ["logs", "prose", "text"]
    assert result["held_out"]["logs"]["tokens_per_pass"] > 1.5
    assert len(result["held_out"]["logs"]["acceptance"]) == OWN["block"]
    assert result["trust_bits"] > 0
    for name, value in OWN.items():
        assert f"--{name} {value}" in record["command"]
    assert "/" not in record["command"].replace(record["model"]["name"], "")
    steps = [line for line in lines_of(whole) if "loss" in line]
    assert steps[-1]["power"] == 1.0
    assert sum(line["loss"] for line in steps[-5:]) < sum(line["loss"] for line in steps[:5])


def test_what_was_trained_drafts(home: Path, whole: Path) -> None:
    base, _ = load_base(str(home / "tiny.gguf"))
    vocabulary = Vocabulary(base.tokenizer.token_bytes(), base.tokenizer.special_ids)
    drafter = BlockDrafter(read_block(whole / "drafter.safetensors"), vocabulary)
    text = Tokenizer(base.tokenizer, vocabulary).encode(LOG[-4000:].encode())
    slots = [Slot(at, text[:at]) for at in range(20, len(text) - OWN["block"], 7)]
    drafts = drafter.propose(slots, [OWN["block"]] * len(slots))
    first = [draft for draft in drafts if len(draft)]
    right = [draft.symbols[0] == text[slot.key] for slot, draft in zip(slots, drafts, strict=True) if len(draft)]
    assert np.mean(right) > 0.4
    assert abs(np.mean(right) - np.mean([draft.chances[0] for draft in first])) < 0.2


def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(home: Path, whole: Path, tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        run(home, tmp_path / "out", stop_after=90)
    with pytest.raises(ArgumentError, match="loss is tv, but the run began with tvp"):
        run(home, tmp_path / "out", resume=True, loss="tv")
    run(home, tmp_path / "out", resume=True)
    name = "drafter.safetensors"
    assert (tmp_path / "out" / name).read_bytes() == (whole / name).read_bytes()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"loss": "l2"}, 'loss is "l2"; choose one of cross-entropy'),
        ({"weights": "none"}, 'weights is "none"'),
        ({"stride": 0}, "stride is 0; choose 1 to 256"),
        ({"width": 0}, "width is 0; choose 1 to 65536"),
        ({"width": 65537}, "width is 65537; choose 1 to 65536"),
        ({"layers": 10**12}, "layers is 1000000000000; choose 0 to 1024"),
        ({"window": 512, "embed": 256}, "window is 512 and embed 256; choose a product of at most 65536"),
        ({"markov": -1}, "markov is -1; choose 0 to"),
        ({"counted": 0}, "counted is 0; choose 1 to"),
    ],
)
def test_options_are_checked(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        DraftOptions(TrainOptions(**RUN), **(OWN | changed))


def test_text_without_labels_is_refused(home: Path, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="text is about labels, and there are none"):
        run(home, tmp_path / "out", text=True)


def test_other_shapes(home: Path, tmp_path: Path) -> None:
    run(home, tmp_path / "out", tokens=1024, layers=0, markov=0, loss="cross-entropy", weights="until-failure")
    read = read_block(tmp_path / "out" / "drafter.safetensors")
    assert "before" not in read.tensors


@pytest.fixture(scope="module")
def labels(home: Path) -> Path:
    """A file of soft labels."""
    base, _ = load_base(str(home / "tiny.gguf"))
    path = home / "labels.safetensors"
    options = TrainOptions(**(RUN | {"tokens": 2048, "batch": 512, "micro_batch": 512}))
    assert make_labels(home / "corpus", path, base, options, 8, watch=lambda _: None, stopping=lambda: False) == 2048
    return path


def test_a_run_learns_from_soft_labels(home: Path, labels: Path, tmp_path: Path) -> None:
    run(home, tmp_path / "out", labels=labels, loss="kl", tokens=20 * 512, evaluate_every=512 * 20)
    steps = [line["loss"] for line in lines_of(tmp_path / "out") if "loss" in line]
    assert steps[-1] < steps[0]
    record = json.loads((tmp_path / "out" / "provenance.json").read_text())
    assert " --labels LABELS " in record["command"]
    assert record["result"]["tokens_by_kind"] == {"labels": 20 * 512}


def test_labels_are_what_the_target_expects(home: Path, tmp_path: Path) -> None:
    base, _ = load_base(str(home / "tiny.gguf"))
    network = Network(base, 1, 1.0, 0)
    vocabulary = Vocabulary(base.tokenizer.token_bytes(), base.tokenizer.special_ids)
    batch = make_batch([np.arange(20, 60, dtype=np.int32), np.arange(7, dtype=np.int32)], vocabulary)
    symbols, chances = label(network, batch, 5)
    with torch.no_grad():
        with torch.autocast("cpu", torch.bfloat16):  # base weights are bfloat16
            hidden, head = network.hidden(batch, rounding=False)
        expected = (hidden.double() @ head.double().T).softmax(-1)
    found = expected.gather(1, symbols.long())
    torch.testing.assert_close(found, expected.topk(5).values, rtol=1e-6, atol=0)
    torch.testing.assert_close(chances.double(), found, rtol=2**-10, atol=2**-24)  # what float16 rounds
    origin = Origin(fingerprint(base), vocabulary.digest().hex(), "c0ffee", {"top": 5})
    write_labels(tmp_path / "x", origin, [(batch, symbols, chances)])
    read = read_labels(tmp_path / "x", vocabulary)
    assert (read.origin, read.tokens) == (origin, 47)
    assert read.tensors["symbols"].tolist() == symbols.tolist()
    assert read.tensors["chances"].tolist() == chances.tolist()
    with pytest.raises(ModelError, match="x: the labels are of another vocabulary"):
        read_labels(tmp_path / "x", Vocabulary(base.tokenizer.token_bytes()[:-1], base.tokenizer.special_ids))
    write_safetensors(tmp_path / "y", {"a": np.zeros(3, np.float32)})
    with pytest.raises(ModelError, match="no file of labels"):
        read_labels(tmp_path / "y", vocabulary)


@pytest.mark.parametrize("wrong", [np.nan, -0.5, 1.5, np.inf])
def test_chances_of_labels_are_chances(tmp_path: Path, home: Path, wrong: float) -> None:
    base, _ = load_base(str(home / "tiny.gguf"))
    vocabulary = Vocabulary(base.tokenizer.token_bytes(), base.tokenizer.special_ids)
    batch = make_batch([np.arange(20, 60, dtype=np.int32)], vocabulary)
    chances = torch.full((40, 2), 0.25, dtype=torch.float16)
    chances[7, 1] = wrong
    origin = Origin("", vocabulary.digest().hex(), "", {})
    write_labels(tmp_path / "x", origin, [(batch, torch.zeros(40, 2, dtype=torch.int32), chances)])
    with pytest.raises(ModelError, match="x: damaged labels: chances"):
        read_labels(tmp_path / "x", vocabulary)


def test_labels_take_no_place_that_is_taken(home: Path, labels: Path, tmp_path: Path) -> None:
    base, _ = load_base(str(home / "tiny.gguf"))
    for out, message in ((labels, "exists already"), (tmp_path / "no" / "x", "there is no folder")):
        with pytest.raises(ArgumentError, match=message):
            make_labels(
                home / "corpus", out, base, TrainOptions(**RUN), 8, watch=lambda _: None, stopping=lambda: False
            )


def test_labels_say_what_they_are_of(home: Path, labels: Path) -> None:
    base, _ = load_base(str(home / "tiny.gguf"))
    origin = read_labels(labels, Vocabulary(base.tokenizer.token_bytes(), base.tokenizer.special_ids)).origin
    assert origin.model == fingerprint(base)
    assert origin.settings == {
        "tokens": 2048, "length": 64, "short_share": 0.2, "batch": 512, "mix": {}, "seed": 0, "top": 8,
    }  # fmt: skip
    assert len(origin.corpus) == 64
    assert origin.conditions == json.loads(json.dumps(provenance.conditions(torch.device("cpu"), TrainOptions())))
    assert len(origin.conditions["versions"]["speccompact_source"]) == 64


def test_labels_for_which_memory_is_short(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labelling, "label", lambda *_: torch.empty(10**14))
    base, _ = load_base(str(home / "tiny.gguf"))
    options = TrainOptions(**RUN)
    with pytest.raises(LimitError, match="fewer --tokens"):
        make_labels(home / "corpus", tmp_path / "x", base, options, 8, watch=lambda _: None, stopping=lambda: False)
    assert list(tmp_path.iterdir()) == []


def test_a_labelled_batch_moves_with_all_that_it_has(home: Path, labels: Path) -> None:
    base, _ = load_base(str(home / "tiny.gguf"))
    read = read_labels(labels, Vocabulary(base.tokenizer.token_bytes(), base.tokenizer.special_ids))
    (batch, *_) = LabelStream(read, 512, 256, 3).next_step()
    moved = batch.to(torch.device("meta"))
    assert isinstance(moved, LabelledBatch)
    tensors = (moved.inputs, moved.targets, moved.symbols, moved.chances)
    assert [tensor.device.type for tensor in tensors] == ["meta"] * 4


def test_a_run_whose_loss_goes_by_its_length_cannot_be_made_longer(home: Path, tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        run(home, tmp_path / "out", stop_after=12)
    for tokens in (STEPS * 1024, STEPS * 256):
        with pytest.raises(ArgumentError, match="its loss goes by where in the run a step is"):
            run(home, tmp_path / "out", resume=True, tokens=tokens)
    with pytest.raises(Interrupted):
        run(home, tmp_path / "other", stop_after=12, loss="cross-entropy")
    run(home, tmp_path / "other", resume=True, loss="cross-entropy", tokens=3 * 512)


def test_a_run_that_is_stopped_behind_its_last_step_goes_on(home: Path, tmp_path: Path) -> None:
    changed: dict[str, Any] = {"tokens": 1024, "evaluate_every": 1024, "loss": "kl"}
    with pytest.raises(Interrupted):
        run(home, tmp_path / "out", stop_at="ended", **changed)
    assert not (tmp_path / "out" / "drafter.safetensors").exists()
    run(home, tmp_path / "out", resume=True, **changed)
    assert (tmp_path / "out" / "drafter.safetensors").exists()


def test_streams_of_labels_go_on_where_they_were(home: Path, labels: Path) -> None:
    base, _ = load_base(str(home / "tiny.gguf"))
    read = read_labels(labels, Vocabulary(base.tokenizer.token_bytes(), base.tokenizer.special_ids))
    stream = LabelStream(read, 512, 256, 3)
    for _ in range(5):
        stream.next_step()
    state, consumed = stream.state(), stream.consumed()
    following = stream.next_step()
    other = LabelStream(read, 512, 256, 3)
    other.restore(json.loads(json.dumps(state)))
    assert other.consumed() == consumed == {"labels": 2560}
    for one, two in zip(following, other.next_step(), strict=True):
        assert isinstance(one, LabelledBatch)
        assert isinstance(two, LabelledBatch)
        assert one.lengths == two.lengths
        assert one.targets.equal(two.targets)
        assert one.symbols.equal(two.symbols)
        assert one.chances.equal(two.chances)
        assert len(one.targets) == len(one.chances) == 256
    with pytest.raises(ArgumentError, match="labels hold 2048 tokens"):
        LabelStream(read, 4096, 4096, 0)
