"""Adapters averaged: one that is better than each, for the time of a measurement.

Runs that go on from one another end at places around a good one, each with the noise of its last steps; their mean has
less of it (Izmailov et al., "Averaging Weights Leads to Wider Optima and Better Generalization", 2018; Wortsman et al.,
"Model soups", 2022).
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from speccompact.errors import ArgumentError, LimitError
from speccompact.modelstore.adapterfile import ADAPTER_NAME, Adapter, Floats, read_adapter, tensor_file, write_adapter
from speccompact.modelstore.checkpoints import Checkpoint
from speccompact.modelstore.download import file_sha256
from speccompact.modelstore.loading import check_device
from speccompact.modelstore.merging import fingerprint
from speccompact.modelstore.storefiles import commit, temporary
from speccompact.options import Options
from speccompact.shortage import memory_errors
from speccompact.text.tokenizer import Tokenizer
from speccompact.text.vocabulary import Vocabulary
from speccompact.training import provenance
from speccompact.training.corpus import open_held_out
from speccompact.training.evaluation import evaluate, results, short_measures, slices
from speccompact.training.folders import require_folder, require_place
from speccompact.training.network import Network
from speccompact.training.resuming import refuse_occupied
from speccompact.training.sampling import Cutter
from speccompact.training.trainoptions import TrainOptions
from speccompact.training.tuning import PROVENANCE

Watch = Callable[[int, int], None]
"""Told how many tokens were measured, and of how many."""


@dataclass(frozen=True, slots=True)
class Averaged:
    """What has become of the adapters.

    Attributes:
        adapter: file of their mean.
        start, end: bits per byte of held-out text by kind, of the model without and with it.
    """

    adapter: Path
    start: dict[str, float]
    end: dict[str, float]

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON; its keys are a stable contract."""
        return results(self.start, self.end)


def mean_adapter(adapters: Sequence[Adapter]) -> Adapter:
    """Return the adapter whose factors are the means of those given.

    The mean of factors is near the mean of what they add to the weights only where the runs have a start in common:
    adapters of runs that began with factors of their own do not fit together.

    Raises:
        ArgumentError: they are less than two, differ in base, rank, scale or shapes, or change nothing.
    """
    if len(adapters) < 2:
        raise ArgumentError("averaging takes two adapters or more")
    first = adapters[0]
    if not first.scale:
        raise ArgumentError(f"{first.source}: its scale is 0: it changes nothing")
    based = next((adapter for adapter in adapters if adapter.base), first)
    for other in adapters[1:]:
        if other.base not in ("", based.base):
            raise ArgumentError(
                f"{other.source}: its base is {other.base[:16]}, but that of {based.source} is {based.base[:16]}"
            )
        for what in ("rank", "scale"):
            ours, theirs = getattr(first, what), getattr(other, what)
            if ours != theirs:
                raise ArgumentError(f"{other.source}: its {what} is {theirs}, but that of {first.source} is {ours}")
        if _shapes(other) != _shapes(first):
            raise ArgumentError(f"{other.source}: it changes other weights than {first.source}")
    factors = {
        name: (_mean([each.factors[name][0] for each in adapters]), _mean([each.factors[name][1] for each in adapters]))
        for name in first.factors
    }
    return Adapter(first.rank, first.scale, based.base, factors, source=based.source)


def check_first(
    files: Sequence[Path], out: Path, held_out: Path, options: TrainOptions
) -> tuple[torch.device, Adapter]:
    """Refuse what can be refused without the model, before somebody waits for that; see `average`.

    Returns:
        The device to measure on, and the mean of the adapters.

    Raises:
        ArgumentError: an option does not allow it, the adapters do not fit together, or `out` holds results.
        ModelError: a file is no adapter.
        OSError: a folder or a file is missing, or `out` cannot be written.
    """
    device = torch.device(check_device(Options(device=options.device)))
    require_folder(held_out)
    require_place(out)
    if (out / PROVENANCE).exists():  # which is written last
        raise ArgumentError(f"output {out} holds a result already; name another folder")
    refuse_occupied(out)
    return device, mean_adapter([read_adapter(path) for path in files])


def average(
    files: Sequence[Path],
    out: Path,
    base: Checkpoint,
    base_name: str,
    held_out: Path,
    options: TrainOptions,
    watch: Watch,
    remark: Callable[[str], None] = lambda words: None,
) -> Averaged:
    """Average adapters, and measure what comes out, which appears under its name only then.

    Args:
        files: adapters of the same rank and model; see `read_adapter`.
        out: folder of the results, made where it is missing: the adapter, and its provenance.
        base: the float model that they are for.
        base_name: what provenance calls it.
        held_out: folder of text to measure with, see `corpus.open_corpus`.
        options: how to measure; what is about training is not looked at.
        watch: told how far measuring is.
        remark: told in a line where there is little to measure with.

    Raises:
        ArgumentError: the adapters do not fit together, there is nothing to measure with, or `out` holds results.
        LimitError: the device has too little memory.
        ModelError: a file is no adapter.
        OSError: a file cannot be read or written.
    """
    device, mean = check_first(files, out, held_out, options)
    digests = [file_sha256(tensor_file(path)) for path in files]
    base_digest = fingerprint(base)
    if mean.base not in ("", base_digest):
        raise ArgumentError(f"{mean.source}: the adapter was made for another model (weights {mean.base[:16]})")
    mean = replace(mean, base=base_digest)
    if options.measured_length > base.config.context:
        raise ArgumentError(
            f"evaluate_length is {options.measured_length}, but the model was made for {base.config.context} tokens"
        )
    if options.threads:
        torch.set_num_threads(options.threads)
    tokenizer = Tokenizer(base.tokenizer, Vocabulary(base.tokenizer.token_bytes(), base.tokenizer.special_ids))
    held = open_held_out(held_out, tokenizer, options.measured_length)
    measured = slices(
        held.chunks,
        Cutter(tokenizer),
        length=options.measured_length,
        micro_batch=options.passed_at_once,
        tokens=options.evaluate_tokens,
    )
    for words in short_measures(measured):
        remark(words)
    if not any(measured.values()):
        raise ArgumentError(f"{held_out}: what it holds is no text")
    total = 2 * sum(len(batch.targets) for batches in measured.values() for batch in batches)
    seen = itertools.accumulate(len(batch.targets) for batches in [*measured.values()] * 2 for batch in batches)
    done = itertools.chain([0], seen)
    place = out / ADAPTER_NAME
    with temporary(out) as unfinished:
        write_adapter(unfinished, mean, dtype="I8")
        try:
            with memory_errors():
                network = Network(base, mean.rank, mean.scale * mean.rank, options.seed).to(device)
                start = evaluate(network, measured, device, lambda: watch(next(done), total))
                network.take_factors(read_adapter(unfinished))
                end = evaluate(network, measured, device, lambda: watch(next(done), total))
        except MemoryError:
            raise LimitError(
                f"the memory here is too small to measure {options.passed_at_once} tokens at once; free some, or "
                "measure on another device"
            ) from None
        commit(unfinished, place)
    averaged = Averaged(place, start, end)
    record = {
        "format": provenance.FORMAT,
        "command": provenance.averaging_command(options, base_name, len(files)),
        "model": {"name": base_name, "fingerprint": base_digest},
        "averaged_sha256": digests,
        **provenance.conditions(device, options),
        "held_out": {"sha256": held.digest(), "files": provenance.list_files(held.files)},
        "result": averaged.to_json() | {"adapter_sha256": file_sha256(place)},
    }
    provenance.write_json(out / PROVENANCE, record)
    return averaged


def _shapes(adapter: Adapter) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
    return {name: (a.shape, b.shape) for name, (a, b) in adapter.factors.items()}


def _mean(values: Sequence[Floats]) -> Floats:
    return np.asarray(np.mean(values, axis=0, dtype=np.float64), np.float32)
