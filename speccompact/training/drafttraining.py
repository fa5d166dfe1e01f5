"""From a corpus to a block drafter: everything that `speccompact train drafter` does.

<out>/drafter.safetensors       the result, see `speculative.blockfile`
<out>/curves.png                loss, learning rate, tokens per target pass on held-out text
<out>/provenance.json           what the run was made of
<out>/metrics.jsonl             every step and evaluation, appended as they happen
<out>/*.safetensors             checkpoints, see `trainer`
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from speccompact.errors import ArgumentError
from speccompact.modelstore.checkpoints import Checkpoint
from speccompact.modelstore.download import file_sha256
from speccompact.modelstore.merging import fingerprint
from speccompact.shortage import memory_errors
from speccompact.speculative.blockfile import write_block
from speccompact.text.tokenizer import Tokenizer
from speccompact.text.vocabulary import Vocabulary
from speccompact.training import provenance
from speccompact.training.batch import Batch
from speccompact.training.conduct import (
    Material,
    Remark,
    carry_out,
    check_run,
    measured_slices,
    open_material,
    unremarked,
)
from speccompact.training.curves import draw
from speccompact.training.draftexamples import Places, frequent_tokens, make_examples
from speccompact.training.draftlabels import LabelledBatch, LabelStream, read_labels, require_labels
from speccompact.training.draftlosses import ANNEALED, annealing
from speccompact.training.draftmeasure import Trial, calibration, trust_gain, try_drafts
from speccompact.training.draftnetwork import DraftNetwork
from speccompact.training.draftoptions import DraftOptions
from speccompact.training.draftpass import Aim, draft_loss, soft_labels
from speccompact.training.evaluation import SETTLED
from speccompact.training.metrics import Line
from speccompact.training.prefetch import Stream
from speccompact.training.resuming import choose_checkpoint
from speccompact.training.sampling import SequenceStream
from speccompact.training.trainer import Report, Watch, make_optimiser, pausing
from speccompact.training.trainstate import RunState

DRAFTER, CURVES, PROVENANCE = "drafter.safetensors", "curves.png", "provenance.json"


@dataclass(frozen=True, slots=True)
class Drafted:
    """What a finished run has come to.

    Attributes:
        drafter: its file.
        tokens: of the text that was gone through.
        seconds: spent, all parts of the run together.
        tokens_per_pass: on held-out text by kind, drafting whole blocks greedily.
        acceptance: by kind and position, how often a draft that was reached was right.
        trust_bits: what the trust knows beyond the position, in bits for each draft.
    """

    drafter: Path
    tokens: int
    seconds: float
    tokens_per_pass: dict[str, float]
    acceptance: dict[str, list[float]]
    trust_bits: float

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON; its keys are a stable contract."""
        kinds = {
            kind: {"tokens_per_pass": value, "acceptance": self.acceptance[kind]}
            for kind, value in self.tokens_per_pass.items()
        }
        mean = sum(self.tokens_per_pass.values()) / max(1, len(self.tokens_per_pass))
        return {
            "tokens": self.tokens,
            "seconds": self.seconds,
            "mean_tokens_per_pass": mean,
            "trust_bits": self.trust_bits,
            "held_out": kinds,
        }


class _Drafting:
    """The subject of a run: a drafter, by the drafts that the text confirms."""

    loss_name, figure = "loss", SETTLED

    def __init__(self, network: DraftNetwork, options: DraftOptions, measured: Mapping[str, Sequence[Batch]]) -> None:
        self.network = network
        self._drafter, self._options, self._measured = network, options, measured
        self._steps = options.run.schedule().steps

    def begin(self) -> None:
        """Nothing: what is measured first is a drafter that knows nothing."""

    def loss(self, batch: Batch, step: int) -> Tensor:
        shape, options = self._drafter.shape, self._options
        phase = step % min(options.stride, len(batch.targets))
        examples = make_examples(batch, self._drafter.places, shape.window, shape.block, options.stride, phase)
        soft = None
        if isinstance(batch, LabelledBatch):
            soft = soft_labels(examples, self._drafter.places, batch.symbols, batch.chances)
        return draft_loss(self._drafter, examples, self._aim(step), soft) * len(batch.targets)

    def _aim(self, step: int) -> Aim:
        return Aim(self._options.loss, self._options.weights, annealing(step, self._steps))

    def conditions(self, step: int) -> Line:
        return {"power": self._aim(step).power} if self._options.loss in ANNEALED else {}

    def measure(self, pause: Callable[[], None]) -> dict[str, float]:
        return {kind: trial.tokens_per_pass for kind, trial in self.trials(pause).items()}

    def trials(self, pause: Callable[[], None]) -> dict[str, Trial]:
        return try_drafts(self._drafter, self._measured, pause)


def check_first(
    corpus_folder: Path,
    out: Path,
    options: DraftOptions,
    *,
    held_out: Path | None,
    labels: Path | None,
    resume: bool,
) -> None:
    """Refuse what can be refused without the model, before somebody waits for that; see `train_drafter`.

    Raises:
        ArgumentError: an option, an extra that is not installed, or the run in `out` does not allow it.
        ModelError: `labels` is no file of labels.
        OSError: a folder or a file is missing, or `out` cannot be written.
    """
    check_run(corpus_folder, out, held_out=held_out, resume=resume)
    if options.run.device != "cpu":
        raise ArgumentError(f'device is "{options.run.device}"; drafters are trained on the cpu')
    if options.text and labels is None:
        raise ArgumentError("text is about labels, and there are none; name some, or leave it out")
    if labels is not None:
        require_labels(labels)


def train_drafter(
    corpus_folder: Path,
    out: Path,
    base: Checkpoint,
    base_name: str,
    options: DraftOptions,
    *,
    held_out: Path | None = None,
    labels: Path | None = None,
    resume: bool = False,
    watch: Watch,
    stopping: Callable[[], bool],
    remark: Remark = unremarked,
) -> Drafted:
    """Train a drafter, and write the results.

    Args:
        corpus_folder: see `corpus.open_corpus`.
        out: folder of the results, made where it is missing.
        base: the float model whose tokenizer and embedding it takes.
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
    places = Places.make(
        *frequent_tokens(_some_text(material, options), vocabulary.size, options.listed), vocabulary.size
    )
    embed = torch.from_numpy(np.ascontiguousarray(base.tensors["embed"], np.float32))
    network = DraftNetwork(options.shape(vocabulary.size, len(places.listed)), embed, places, run.seed)
    optimiser = make_optimiser(network, run.learning_rate)
    subject = _Drafting(network, options, measured)
    stream: Stream = SequenceStream(material.corpus.training, material.shares, material.cutter, run.sampling())
    if labels is not None:
        read = read_labels(labels, vocabulary)
        stream = LabelStream(read, run.batch, run.passed_at_once, run.seed, soft=not options.text)
    state, lines, parts = carry_out(
        out, subject, optimiser, stream, run, same, chosen, watch=watch, stopping=stopping, remark=remark
    )

    with memory_errors():
        trials = subject.trials(pausing(stopping))
    scale, shift = calibration(trials)
    write_block(out / DRAFTER, network.weights(vocabulary.digest().hex(), scale, shift))
    acceptance = {kind: [round(rate, 4) for rate in trial.acceptance()] for kind, trial in trials.items()}
    draw(out / CURVES, lines, "loss", f"{options.loss}, training", SETTLED, acceptance)
    drafted = Drafted(
        out / DRAFTER,
        state.step * run.batch,
        state.seconds,
        {kind: trial.tokens_per_pass for kind, trial in trials.items()},
        acceptance,
        trust_gain(trials, scale, shift),
    )
    model = {"name": base_name, "fingerprint": same["model"]}
    provenance.write_json(out / PROVENANCE, _provenance(drafted, material, state, options, model, parts))
    return drafted


def _some_text(material: Material, options: DraftOptions) -> Iterator[npt.NDArray[np.int32]]:
    """Yield as much of the training text as is counted, mixed as it is trained on."""
    stream = SequenceStream(material.corpus.training, material.shares, material.cutter, options.run.sampling())
    for _ in range(-(-options.counted // options.run.batch)):
        for batch in stream.next_step():
            yield batch.targets.numpy().astype(np.int32)


def _provenance(
    drafted: Drafted,
    material: Material,
    state: RunState,
    options: DraftOptions,
    model: dict[str, str],
    parts: list[Line],
) -> dict[str, Any]:
    return {
        "format": provenance.FORMAT,
        "command": provenance.drafter_command_line(
            options,
            model["name"],
            held_out=bool(material.corpus.held_files),
            labels=state.settings.get("labels") is not None,
        ),
        "model": model,
        "labels_sha256": state.settings.get("labels"),
        "settings": {"tokens": options.run.tokens} | options.settings(),
        "parts": parts,
        **provenance.texts(material.corpus, material.shares),
        "result": drafted.to_json()
        | {
            "steps": state.step,
            "tokens_by_kind": state.tokens_by_kind,
            "drafter_sha256": file_sha256(drafted.drafter),
        },
    }
