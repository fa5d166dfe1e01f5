"""From a corpus to a file of soft labels: everything that `speccompact train labels` does."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

from speccompact.errors import ArgumentError, LimitError
from speccompact.modelstore.checkpoints import Checkpoint
from speccompact.modelstore.merging import fingerprint
from speccompact.shortage import memory_errors
from speccompact.text.tokenizer import Tokenizer
from speccompact.text.vocabulary import Vocabulary
from speccompact.training import provenance
from speccompact.training.batch import Batch
from speccompact.training.conduct import open_material
from speccompact.training.draftlabels import Origin, label, write_labels
from speccompact.training.folders import require_folder, require_place
from speccompact.training.network import Network
from speccompact.training.prefetch import Stream
from speccompact.training.sampling import SequenceStream
from speccompact.training.trainer import Interrupted, Report, Watch
from speccompact.training.trainoptions import TrainOptions


def check_first(corpus_folder: Path, out: Path, options: TrainOptions, top: int) -> None:
    """Refuse what can be refused without the model, before somebody waits for that; see `make_labels`.

    Raises:
        ArgumentError: an option, or what is at `out`, does not allow it.
        OSError: a folder is missing, or that of `out` cannot be written.
    """
    require_folder(corpus_folder)
    if not out.parent.is_dir():
        raise ArgumentError(f"output is {out}, but there is no folder {out.parent}; make it first")
    if out.exists():
        raise ArgumentError(f"output {out} exists already; remove it, or name another file")
    require_place(out.parent)
    if options.device != "cpu":
        raise ArgumentError(f'device is "{options.device}"; labels are made on the cpu')
    if top < 1:
        raise ArgumentError(f"top is {top}; choose 1 or more")


def make_labels(
    corpus_folder: Path,
    out: Path,
    base: Checkpoint,
    options: TrainOptions,
    top: int,
    *,
    watch: Watch,
    stopping: Callable[[], bool],
) -> int:
    """Ask a target about text as drafters are trained on it, and write what it expects. All is held in memory.

    Args:
        corpus_folder: see `corpus.open_corpus`; what a run would hold out of it is not labelled.
        out: file of the labels, which must not exist yet.
        base: the target, as a float model.
        options: those that say which text, mixed how.
        top: likeliest tokens that are kept.
        watch: told how far it is.
        stopping: whether somebody wants it to end.

    Returns:
        Tokens that were labelled.

    Raises:
        trainer.Interrupted: it was asked to stop; nothing is written.
        ArgumentError: an option, the corpus or what is at `out` does not allow it.
        LimitError: there is too little memory.
        OSError: a file cannot be read or written.
    """
    check_first(corpus_folder, out, options, top)
    if top > base.config.vocab:
        raise ArgumentError(f"top is {top}; choose 1 to {base.config.vocab}")
    if options.length > base.config.context:
        raise ArgumentError(f"length is {options.length}, but the model was made for {base.config.context} tokens")
    if options.threads:
        torch.set_num_threads(options.threads)
    watch(Report("reading", 0, options.tokens, None, None, None, None))
    vocabulary = Vocabulary(base.tokenizer.token_bytes(), base.tokenizer.special_ids)
    material = open_material(corpus_folder, None, Tokenizer(base.tokenizer, vocabulary), options)
    stream = SequenceStream(material.corpus.training, material.shares, material.cutter, options.sampling())
    try:
        with memory_errors():
            parts = _ask(Network(base, 1, 1.0, options.seed), stream, options.tokens, top, watch, stopping)
    except MemoryError:
        raise LimitError("the memory here is too small; choose fewer --tokens, or a smaller --batch or --top") from None
    drawn = ("tokens", "length", "short_share", "batch", "mix", "seed")
    settings = {name: value for name, value in asdict(options).items() if name in drawn} | {"top": top}
    conditions = provenance.conditions(torch.device("cpu"), options)
    origin = Origin(fingerprint(base), vocabulary.digest().hex(), material.corpus.digest(), settings, conditions)
    write_labels(out, origin, parts)
    return sum(len(batch.targets) for batch, _, _ in parts)


def _ask(
    network: Network, stream: Stream, enough: int, top: int, watch: Watch, stopping: Callable[[], bool]
) -> list[tuple[Batch, Tensor, Tensor]]:
    """Return batches of the stream until they hold enough tokens, with what a network says of each.

    Args:
        network: the target; adapters that nobody has trained change nothing.
    """
    parts: list[tuple[Batch, Tensor, Tensor]] = []
    tokens = 0
    while tokens < enough:
        for batch in stream.next_step():
            if stopping():
                raise Interrupted
            parts.append((batch, *label(network, batch, top)))
            tokens += len(batch.targets)
            watch(Report("labelling", tokens, enough, None, None, None, None))
    return parts
