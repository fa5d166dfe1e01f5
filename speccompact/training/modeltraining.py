"""From a corpus to a small model, target or drafter: everything that `speccompact train model` does.

<out>/model/                    the result, a checkpoint as `models convert` reads it
<out>/curves.png                loss, learning rate, held-out text
<out>/provenance.json           what the run was made of
<out>/metrics.jsonl             every step and evaluation, appended as they happen
<out>/*.safetensors             checkpoints, see `trainer`
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from speccompact.errors import ArgumentError
from speccompact.modelstore.checkpoint_hf import write_hf_folder
from speccompact.modelstore.checkpoints import Checkpoint
from speccompact.modelstore.download import file_sha256
from speccompact.modelstore.merging import fingerprint
from speccompact.shortage import memory_errors
from speccompact.text.tokenizer import Tokenizer
from speccompact.text.vocabulary import Vocabulary
from speccompact.training import provenance
from speccompact.training.batch import Batch
from speccompact.training.causalpass import causal_loss, try_causal
from speccompact.training.conduct import Remark, carry_out, check_run, measured_slices, open_material, unremarked
from speccompact.training.curves import draw
from speccompact.training.draftlabels import LabelStream, read_labels, require_labels
from speccompact.training.draftlosses import ANNEALED, LOSSES, annealing
from speccompact.training.draftpass import Aim
from speccompact.training.evaluation import BITS, evaluate
from speccompact.training.metrics import Line
from speccompact.training.network import Network
from speccompact.training.prefetch import Stream
from speccompact.training.resuming import choose_checkpoint
from speccompact.training.sampling import SequenceStream
from speccompact.training.smallmodels import Sizes, keep_layers, make_new, parse_layers, trained
from speccompact.training.trainer import Report, Watch, make_optimiser, pausing
from speccompact.training.trainoptions import TrainOptions

MODEL, CURVES, PROVENANCE = "model", "curves.png", "provenance.json"

BLOCK = 8
"""Tokens of the drafts that a model is measured by, those of the block drafter."""


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """How to train a small model.

    Attributes:
        run: what it has in common with the training of adapters; `rank` is None.
        layers: layers of the base that it begins with, see `smallmodels.parse_layers`; "" for all.
        new: sizes of a model that begins with random numbers instead, see `smallmodels.Sizes.parse`; "" for none.
        loss: name, see `draftlosses.LOSSES`.
        listed: tokens that it learns to tell, the first ones of the vocabulary; 0 for all.
        text: learn from the text of a file of labels, not from what the target expects, to compare with that.
    """

    run: TrainOptions
    layers: str = ""
    new: str = ""
    loss: str = "cross-entropy"
    listed: int = 0
    text: bool = False

    def __post_init__(self) -> None:
        if self.layers and self.new:
            raise ArgumentError("layers are those of the model to start from, and new starts from none; leave one out")
        if self.new:
            Sizes.parse(self.new)
        if self.loss not in LOSSES:
            raise ArgumentError(f'loss is "{self.loss}"; choose one of {", ".join(LOSSES)}')
        if self.listed < 0:
            raise ArgumentError(f"listed is {self.listed}; choose 0 (all) or more")
        if self.run.device != "cpu":
            raise ArgumentError(f'device is "{self.run.device}"; small models are trained on the cpu')

    def own_settings(self) -> dict[str, Any]:
        """Return what of the settings is about small models alone."""
        return {"layers": self.layers, "new": self.new, "loss": self.loss, "listed": self.listed, "text": self.text}

    def settings(self) -> dict[str, Any]:
        """Return, as JSON, what has to stay the same for a run to go on."""
        return self.run.settings() | self.own_settings()

    def start(self, base: Checkpoint) -> Checkpoint:
        """Return the model that training begins with."""
        if self.new:
            return make_new(base, Sizes.parse(self.new), self.run.seed)
        return keep_layers(base, parse_layers(self.layers, base.config.layers)) if self.layers else base


@dataclass(frozen=True, slots=True)
class Made:
    """What a finished run has come to.

    Attributes:
        model: folder of the checkpoint.
        tokens: trained on.
        seconds: spent, all parts of the run together.
        parameters: of the model.
        bpb: of held-out text by kind, as integers would have it.
        tokens_per_pass: of held-out text by kind, if it drafted BLOCK tokens for a target.
    """

    model: Path
    tokens: int
    seconds: float
    parameters: int
    bpb: dict[str, float]
    tokens_per_pass: dict[str, float]

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON; its keys are a stable contract."""
        kinds = {
            kind: {"bpb": value, "tokens_per_pass": self.tokens_per_pass[kind]} for kind, value in self.bpb.items()
        }
        return {
            "tokens": self.tokens,
            "seconds": self.seconds,
            "parameters": self.parameters,
            "mean_bpb": sum(self.bpb.values()) / max(1, len(self.bpb)),
            "mean_tokens_per_pass": sum(self.tokens_per_pass.values()) / max(1, len(self.tokens_per_pass)),
            "held_out": kinds,
        }


class _Making:
    """The subject of a run: every weight of a small model."""

    loss_name, figure = "loss", BITS

    def __init__(self, network: Network, options: ModelOptions, measured: Mapping[str, Sequence[Batch]]) -> None:
        self.network = network
        self._model, self._options, self._measured = network, options, measured
        self._schedule = options.run.schedule()
        self.listed = options.listed or network.config.vocab

    def begin(self) -> None:
        """Nothing: what is measured first is what training begins with."""

    def loss(self, batch: Batch, step: int) -> Tensor:
        aim = Aim(self._options.loss, "uniform", annealing(step, self._schedule.steps))
        return causal_loss(self._model, batch, aim, self.listed) * len(batch.targets)

    def conditions(self, step: int) -> Line:
        return {"power": annealing(step, self._schedule.steps)} if self._options.loss in ANNEALED else {}

    def measure(self, pause: Callable[[], None]) -> dict[str, float]:
        return evaluate(self._model, self._measured, torch.device("cpu"), pause)


def check_first(
    corpus_folder: Path,
    out: Path,
    options: ModelOptions,
    *,
    held_out: Path | None,
    labels: Path | None,
    resume: bool,
) -> None:
    """Refuse what can be refused without the model, before somebody waits for that; see `train_model`.

    Raises:
        ArgumentError: an option, an extra that is not installed, or the run in `out` does not allow it.
        ModelError: `labels` is no file of labels.
        OSError: a folder or a file is missing, or `out` cannot be written.
    """
    check_run(corpus_folder, out, held_out=held_out, resume=resume)
    if options.text and labels is None:
        raise ArgumentError("text is about labels, and there are none; name some, or leave it out")
    if labels is not None:
        require_labels(labels)


def train_model(
    corpus_folder: Path,
    out: Path,
    base: Checkpoint,
    base_name: str,
    options: ModelOptions,
    *,
    held_out: Path | None = None,
    labels: Path | None = None,
    resume: bool = False,
    watch: Watch,
    stopping: Callable[[], bool],
    remark: Remark = unremarked,
) -> Made:
    """Train a small model, and write the results.

    Args:
        corpus_folder: see `corpus.open_corpus`.
        out: folder of the results, made where it is missing.
        base: the float model whose tokenizer, and some of whose layers, it takes.
        base_name: what provenance calls it.
        options: see there.
        held_out: see `corpus.open_corpus`.
        labels: file of soft labels, whose text is trained on in place of the corpus.
        resume: go on with the run that `out` holds.
        watch: told how far the run is.
        stopping: whether somebody wants the run to end.
        remark: told, in a line each, what is unusual about the run.

    Raises:
        trainer.Interrupted: it was asked to stop; `resume` goes on with it.
        ArgumentError: an option, the corpus or the run in `out` does not allow it.
        ModelError: a checkpoint is damaged.
        OSError: a file cannot be read or written.
    """
    check_first(corpus_folder, out, options, held_out=held_out, labels=labels, resume=resume)
    run = options.run
    start = options.start(base)
    for name, length in (("length", run.length), ("evaluate_length", run.measured_length)):
        if length > base.config.context:
            raise ArgumentError(f"{name} is {length}, but the model was made for {base.config.context} tokens")
    if run.threads:
        torch.set_num_threads(run.threads)
    watch(Report("reading", 0, run.tokens, None, None, None, None))
    vocabulary = Vocabulary(base.tokenizer.token_bytes(), base.tokenizer.special_ids)
    material = open_material(corpus_folder, held_out, Tokenizer(base.tokenizer, vocabulary), run)
    same = {
        "corpus": material.corpus.digest(),
        "held_out": material.corpus.held_digest(),
        "model": fingerprint(base),
        "labels": file_sha256(labels) if labels is not None else None,
    } | options.settings()
    chosen = choose_checkpoint(out, run.schedule(), same, fixed=options.loss in ANNEALED) if resume else None
    measured = measured_slices(material, run, remark)
    network = Network(start, None, 1.0, run.seed)
    subject = _Making(network, options, measured)
    stream: Stream = SequenceStream(material.corpus.training, material.shares, material.cutter, run.sampling())
    if labels is not None:
        read = read_labels(labels, vocabulary)
        stream = LabelStream(read, run.batch, run.passed_at_once, run.seed, soft=not options.text)
    optimiser = make_optimiser(network, run.learning_rate)
    state, lines, parts = carry_out(
        out, subject, optimiser, stream, run, same, chosen, watch=watch, stopping=stopping, remark=remark
    )

    write_hf_folder(out / MODEL, trained(start, network.weights()))
    with memory_errors():
        trials = try_causal(network, measured, subject.listed, BLOCK, pausing(stopping))
    acceptance = {kind: trial.acceptance() for kind, trial in trials.items()}
    draw(out / CURVES, lines, "loss", f"{options.loss}, training", BITS, acceptance)
    made = Made(
        out / MODEL,
        state.step * run.batch,
        state.seconds,
        sum(parameter.numel() for parameter in network.parameters()),
        state.evaluations[-1][1],
        {kind: trial.tokens_per_pass for kind, trial in trials.items()},
    )
    command = provenance.own_command_line(
        run,
        base_name,
        what="model",
        own=options.own_settings(),
        held_out=bool(material.corpus.held_files),
        labels=labels is not None,
    )
    record = {
        "format": provenance.FORMAT,
        "command": command,
        "model": {"name": base_name, "fingerprint": same["model"]},
        "labels_sha256": same["labels"],
        "settings": {"tokens": run.tokens} | options.settings(),
        "parts": parts,
        **provenance.texts(material.corpus, material.shares),
        "result": made.to_json() | {"steps": state.step, "tokens_by_kind": state.tokens_by_kind},
    }
    provenance.write_json(out / PROVENANCE, record)
    return made
