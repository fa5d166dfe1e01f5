"""What all runs of training have in common: the text that they read, and the way from a start to an end."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from speccompact.errors import ArgumentError, ModelError
from speccompact.text.tokenizer import Tokenizer
from speccompact.training import provenance
from speccompact.training.batch import Batch
from speccompact.training.corpus import Corpus, mixture, open_corpus
from speccompact.training.curves import require_plots
from speccompact.training.evaluation import short_measures, slices
from speccompact.training.folders import require_folder, require_place
from speccompact.training.metrics import Line, MetricsFile
from speccompact.training.prefetch import Stream
from speccompact.training.resuming import refuse_occupied, require_run
from speccompact.training.sampling import Cutter
from speccompact.training.trainer import Subject, Trainer, Watch
from speccompact.training.trainoptions import TrainOptions
from speccompact.training.trainstate import RunState, load_state

Remark = Callable[[str], None]
"""Told, in a line each, what is unusual about a run."""


def unremarked(words: str) -> None:
    """Let a remark go by."""


@dataclass(frozen=True, slots=True)
class Material:
    """What a run reads.

    Attributes:
        corpus: the text.
        shares: of the training tokens, by kind.
        cutter: makes sequences of it.
    """

    corpus: Corpus
    shares: Mapping[str, float]
    cutter: Cutter


def check_run(corpus_folder: Path, out: Path, *, held_out: Path | None, resume: bool) -> None:
    """Refuse what can be refused of any run without the model, before somebody waits for that.

    Args:
        corpus_folder, held_out: see `corpus.open_corpus`.
        out: folder of the results.
        resume: whether it holds a run to go on with.

    Raises:
        ArgumentError: an extra that is not installed, or the run in `out` does not allow it.
        OSError: a folder is missing, or `out` cannot be written.
    """
    require_plots()
    for folder in (corpus_folder, *([held_out] if held_out is not None else [])):
        require_folder(folder)
    require_place(out)
    (require_run if resume else refuse_occupied)(out)


def open_material(folder: Path, held_out: Path | None, tokenizer: Tokenizer, options: TrainOptions) -> Material:
    """Read a corpus through; see `corpus.open_corpus` for arguments and errors."""
    corpus = open_corpus(folder, held_out, tokenizer, options.length, options.measured_length)
    return Material(corpus, mixture(corpus.training, options.mix), Cutter(tokenizer))


def measured_slices(material: Material, options: TrainOptions, remark: Remark = unremarked) -> dict[str, list[Batch]]:
    """Return what each kind is measured with, and remark on too little of it, or of training.

    Raises:
        ArgumentError: there is no text to measure with.
    """
    measured = slices(
        material.corpus.held_out,
        material.cutter,
        length=options.measured_length,
        micro_batch=options.passed_at_once,
        tokens=options.evaluate_tokens,
    )
    for words in options.schedule().remarks() + short_measures(measured):
        remark(words)
    if not any(measured.values()):
        raise ArgumentError("held_out text is needed to measure with, and what is held out is no text")
    return measured


def carry_out(
    out: Path,
    subject: Subject,
    optimiser: torch.optim.Optimizer,
    stream: Stream,
    options: TrainOptions,
    same: Mapping[str, Any],
    chosen: Path | None,
    *,
    watch: Watch,
    stopping: Callable[[], bool],
    remark: Remark = unremarked,
) -> tuple[RunState, list[Line], list[Line]]:
    """Train to the end, from the beginning or from a checkpoint.

    Args:
        out: folder of the results, made where it is missing.
        subject: what is trained.
        optimiser: of its parameters.
        stream: at its beginning.
        options: see there.
        same: what must stay the same for a run to go on.
        chosen: the checkpoint to go on from, if any.
        watch: told how far the run is.
        stopping: whether somebody wants the run to end.
        remark: told if the run changes its length.

    Returns:
        Where the run has come to, and what `MetricsFile.read` returns.

    Raises:
        Interrupted, ArgumentError, LimitError, ModelError, OSError: see `Trainer.run` and `trainstate.load_state`.
    """
    state = RunState(0, options.tokens, dict(same), stream.state(), stream.consumed(), [], 0.0)
    out.mkdir(parents=True, exist_ok=True)
    metrics = MetricsFile(out / "metrics.jsonl")
    if chosen is not None:
        state = load_state(chosen, subject.network, optimiser)
        if state.total != options.tokens:
            remark(f"the run was to have {state.total} tokens; it goes on at {state.step * options.batch}")
        state.total = options.tokens
        try:
            stream.restore(state.stream)
        except (AttributeError, LookupError, TypeError, ValueError):
            raise ModelError(f"{chosen}: damaged checkpoint: its place in the corpus makes no sense") from None
    device = next(subject.network.parameters()).device
    conditions = {"tokens": options.tokens} | provenance.conditions(device, options)
    metrics.resume(state.step if chosen is not None else -1, conditions)
    trainer = Trainer(
        subject,
        optimiser,
        stream,
        options.schedule(),
        state,
        out,
        evaluation_steps=options.evaluation_steps,
        checkpoint_seconds=60 * options.checkpoint_minutes,
        watch=watch,
        stopping=stopping,
    )
    trainer.run()
    lines, parts = metrics.read()
    return state, lines, parts
