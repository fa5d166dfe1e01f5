"""From a corpus to an adapter: everything that `speccompact train adapter` does.

<out>/adapter.safetensors       the result (not with every weight trained)
<out>/curves.png                loss, learning rate, held-out text
<out>/provenance.json           what the run was made of
<out>/metrics.jsonl             every step and evaluation, appended as they happen
<out>/*.safetensors             checkpoints, see `trainer`
"""

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from speccompact.errors import ArgumentError
from speccompact.modelstore.adapterfile import ADAPTER_NAME, Adapter, read_adapter, tensor_file, write_adapter
from speccompact.modelstore.checkpoints import Checkpoint
from speccompact.modelstore.download import Progress, file_sha256, no_progress
from speccompact.modelstore.loading import check_device
from speccompact.modelstore.merging import fingerprint
from speccompact.modelstore.registered import open_checkpoint
from speccompact.modelstore.registry import REGISTRY
from speccompact.options import Options
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
from speccompact.training.evaluation import BITS, evaluate, results
from speccompact.training.metrics import Line
from speccompact.training.network import Network
from speccompact.training.resuming import choose_checkpoint
from speccompact.training.sampling import SequenceStream
from speccompact.training.schedule import Schedule
from speccompact.training.trainer import Report, Watch, make_optimiser
from speccompact.training.trainoptions import TrainOptions
from speccompact.training.trainstate import RunState

CURVES, PROVENANCE = "curves.png", "provenance.json"


@dataclass(frozen=True, slots=True)
class Tuned:
    """What a finished run has come to.

    Attributes:
        adapter: the adapter's file, or None where every weight was trained.
        tokens: trained on.
        start, end: bits per byte of held-out text by kind, before and after.
        seconds: spent, all parts of the run together.
    """

    adapter: Path | None
    tokens: int
    start: dict[str, float]
    end: dict[str, float]
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON; its keys are a stable contract."""
        return {"tokens": self.tokens, "seconds": self.seconds} | results(self.start, self.end)


def load_base(model: str, progress: Progress = no_progress) -> tuple[Checkpoint, str]:
    """Return the float model that a user named, and a name of it that tells nothing about the machine.

    Args:
        model: see `registered.open_checkpoint`.
        progress: told how far fetching is.

    Raises:
        ModelError: it cannot be read or fetched.
    """
    return open_checkpoint(model, progress=progress), model if model in REGISTRY else Path(model).resolve().name


def check_first(
    corpus_folder: Path,
    out: Path,
    options: TrainOptions,
    *,
    held_out: Path | None,
    start: Path | None,
    resume: bool,
) -> torch.device:
    """Refuse what can be refused without the model, before somebody waits for that; see `tune`.

    Returns:
        The device to train on.

    Raises:
        ArgumentError: an option, an extra that is not installed, or the run in `out` does not allow it.
        ModelError: `start` is no adapter.
        OSError: a folder or a file is missing, or `out` cannot be written.
    """
    check_run(corpus_folder, out, held_out=held_out, resume=resume)
    device = torch.device(check_device(Options(device=options.device)))
    if options.compile and device.type == "cpu":
        _require_compiler()
    if start is not None and options.rank is None:
        raise ArgumentError("start is an adapter; leave it out, or train one")
    if start is not None:
        _read_start(start, options)
    return device


def tune(
    corpus_folder: Path,
    out: Path,
    base: Checkpoint,
    base_name: str,
    options: TrainOptions,
    *,
    held_out: Path | None = None,
    start: Path | None = None,
    resume: bool = False,
    watch: Watch,
    stopping: Callable[[], bool],
    remark: Remark = unremarked,
) -> Tuned:
    """Train, and write the results.

    Args:
        corpus_folder: see `corpus.open_corpus`.
        out: folder of the results, made where it is missing.
        base: the float model.
        base_name: what provenance calls it.
        options: see there.
        held_out: see `corpus.open_corpus`.
        start: an adapter of the same rank and model, from which training goes on; see `read_adapter`.
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
    device = check_first(corpus_folder, out, options, held_out=held_out, start=start, resume=resume)
    for name, length in (("length", options.length), ("evaluate_length", options.measured_length)):
        if length > base.config.context:
            raise ArgumentError(f"{name} is {length}, but the model was made for {base.config.context} tokens")
    if options.rank is not None and options.rank > base.config.hidden:
        raise ArgumentError(f"rank is {options.rank}, but the model is only {base.config.hidden} wide")
    if options.threads:
        torch.set_num_threads(options.threads)
    base_digest = fingerprint(base)
    first = _read_start(start, options, base_digest) if start is not None else None
    watch(Report("reading", 0, options.tokens, None, None, None, None))
    tokenizer = Tokenizer(base.tokenizer, Vocabulary(base.tokenizer.token_bytes(), base.tokenizer.special_ids))
    material = open_material(corpus_folder, held_out, tokenizer, options)
    same = {
        "corpus": material.corpus.digest(),
        "held_out": material.corpus.held_digest(),
        "model": base_digest,
        "start": file_sha256(tensor_file(start)) if start is not None else None,
    } | options.settings()
    chosen = choose_checkpoint(out, options.schedule(), same) if resume else None

    network = Network(base, options.rank, options.strength, options.seed).to(device)
    if options.compile:
        network.fuse()
    optimiser = make_optimiser(network, options.learning_rate)
    measured = measured_slices(material, options, remark)
    subject = _Tuning(network, options.schedule(), measured, first, device)
    stream = SequenceStream(material.corpus.training, material.shares, material.cutter, options.sampling())
    state, lines, parts = carry_out(
        out, subject, optimiser, stream, options, same, chosen, watch=watch, stopping=stopping, remark=remark
    )

    adapter = None
    if options.rank is not None:
        adapter = out / ADAPTER_NAME
        write_adapter(adapter, Adapter(options.rank, network.scale, base_digest, network.factors(), {}), dtype="I8")
    draw(out / CURVES, lines, "bits", "bits per token, training", BITS)
    tokens = state.step * options.batch
    tuned = Tuned(adapter, tokens, state.evaluations[0][1], state.evaluations[-1][1], state.seconds)
    model = {"name": base_name, "fingerprint": base_digest}
    provenance.write_json(out / PROVENANCE, _provenance(tuned, material, state, options, model, parts))
    return tuned


class _Tuning:
    """The subject of a run: adapters, or every weight, by the bits of the text."""

    loss_name, figure = "bits", BITS

    def __init__(
        self,
        network: Network,
        schedule: Schedule,
        measured: Mapping[str, Sequence[Batch]],
        start: Adapter | None,
        device: torch.device,
    ) -> None:
        self.network = network
        self._tuned, self._schedule, self._measured = network, schedule, measured
        self._start, self._device = start, device

    def begin(self) -> None:
        """Put the adapter in that the run starts from: the model without it is what results are compared with."""
        if self._start is not None:
            self._tuned.take_factors(self._start)

    def loss(self, batch: Batch, step: int) -> Tensor:
        return self._tuned.bits(batch, self._schedule.rounding(step))

    def conditions(self, step: int) -> Line:
        return {"rounding": self._schedule.rounding(step)}

    def measure(self, pause: Callable[[], None]) -> dict[str, float]:
        return evaluate(self._tuned, self._measured, self._device, pause)


def _read_start(path: Path, options: TrainOptions, base_digest: str | None = None) -> Adapter:
    """Return the adapter that a run starts from; where its base is not known yet, any will do."""
    adapter = read_adapter(path)
    if base_digest is not None and adapter.base not in ("", base_digest):
        raise ArgumentError(f"{path}: the adapter was made for another model (weights {adapter.base[:16]})")
    if adapter.rank != options.rank:
        raise ArgumentError(f"{path}: its rank is {adapter.rank}; train with --rank {adapter.rank}")
    return adapter


def _require_compiler() -> None:
    """Refuse to start where torch would look for a compiler in vain, with a page of its own insides."""
    name = os.environ.get("CXX") or ("clang++" if sys.platform == "darwin" else "g++")
    if shutil.which(name) is None:
        raise ArgumentError(f"compile needs a C++ compiler, and there is no {name!r}; CXX can name another")


def _provenance(
    tuned: Tuned,
    material: Material,
    state: RunState,
    options: TrainOptions,
    model: dict[str, str],
    parts: list[Line],
) -> dict[str, Any]:
    corpus = material.corpus
    return {
        "format": provenance.FORMAT,
        "command": provenance.command_line(
            options, model["name"], held_out=bool(corpus.held_files), start=state.settings.get("start") is not None
        ),
        "model": model,
        "start_sha256": state.settings.get("start"),
        "settings": {"tokens": options.tokens} | options.settings(),
        "parts": parts,
        **provenance.texts(corpus, material.shares),
        "result": tuned.to_json()
        | {
            "steps": state.step,
            "tokens_by_kind": state.tokens_by_kind,
            "adapter_sha256": file_sha256(tuned.adapter) if tuned.adapter else None,
        },
    }
