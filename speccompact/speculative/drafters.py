"""Drafters by name, with the weights that they need.

What cannot be had for a vocabulary is replaced by `suffix`, which needs nothing, and the effort says why: an archive
opens whatever drafts.
"""

import time
from collections.abc import Callable
from pathlib import Path

from speccompact.errors import ModelError
from speccompact.exact.transformer import choose_kernels
from speccompact.exact.weights import load_weights
from speccompact.modelstore import store
from speccompact.modelstore.exactfile import read_exact_file
from speccompact.modelstore.tokenizer_tensors import tokenizer_from_tensors
from speccompact.options import Options
from speccompact.parallel import Workers
from speccompact.speculative import block, causal
from speccompact.speculative.block import BlockDrafter
from speccompact.speculative.blockfile import read_block
from speccompact.speculative.causal import ModelDrafter
from speccompact.speculative.controller import Controller
from speccompact.speculative.drafter import Drafter, NoDrafter
from speccompact.speculative.drafting import Drafting
from speccompact.speculative.hybrid import HybridDrafter
from speccompact.speculative.shipped import shipped_block
from speccompact.speculative.suffix import SuffixDrafter
from speccompact.text.vocabulary import Vocabulary


def make_drafting(vocabulary: Vocabulary, options: Options, workers: Workers | None = None) -> Drafting:
    """Return the drafter that options name, for a vocabulary, with a controller; see `make_drafter`."""
    drafter, name, note = make_drafter(vocabulary, options, workers)
    return Drafting(drafter, name, Controller() if name != "none" else None, note=note)


def make_drafter(
    vocabulary: Vocabulary,
    options: Options,
    workers: Workers | None = None,
    *,
    floor: float | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[Drafter, str, str]:
    """Return the drafter that options name, for a vocabulary, its name, and why it is another; "" where it is not.

    Args:
        vocabulary: of the target.
        options: name the drafter, and its weights.
        workers: for drafters whose work can be shared; None for some of their own.
        floor: chance below which drafts end; None leaves that to the drafter, 0 has them as long as they can be.
        clock: seconds, by which `hybrid` judges what a network costs; to one that stands still it costs nothing.

    Raises:
        ModelError: the file that options name cannot be read, or is no drafter.
    """
    name = options.drafter
    if name == "none":
        return NoDrafter(), name, ""
    if name == "suffix":
        return SuffixDrafter(), name, ""
    workers = workers or Workers(options.threads)
    made, reason = (
        _model(vocabulary, options, causal.FLOOR if floor is None else floor)
        if name == "model"
        else _block(vocabulary, options, workers, block.FLOOR if floor is None else floor)
    )
    if made is None:
        return SuffixDrafter(), "suffix", f"suffix drafts in place of {name}: {reason}"
    return (HybridDrafter(SuffixDrafter(), made, clock) if name == "hybrid" else made), name, ""


def _block(vocabulary: Vocabulary, options: Options, workers: Workers, floor: float) -> tuple[BlockDrafter | None, str]:
    """Return the block drafter, or why there is none. Damage to a file that nobody asked for is such a reason, too."""
    digest = vocabulary.digest().hex()
    if not options.drafter_file:
        try:
            weights = shipped_block(digest)
        except ModelError as error:
            return None, str(error)
        if weights is None:
            return None, "no block drafter ships for this vocabulary; `speccompact train drafter` makes one"
    else:
        weights = read_block(Path(options.drafter_file))
        if weights.vocabulary_digest != digest:
            return None, f"{options.drafter_file} was made for another vocabulary"
    return BlockDrafter(weights, vocabulary, floor, workers), ""


def _model(vocabulary: Vocabulary, options: Options, floor: float) -> tuple[ModelDrafter | None, str]:
    """Return the small model as a drafter, or why there is none."""
    wanted = options.drafter_file
    if not wanted:
        return None, "name a small model with the same vocabulary as the drafter's file"
    path, digest, _ = store.locate(wanted)
    exact = read_exact_file(path, digest)
    spec = tokenizer_from_tensors(exact.tensors)
    if Vocabulary(spec.token_bytes(), spec.special_ids).digest() != vocabulary.digest():
        return None, f"{wanted} has another vocabulary"
    weights = load_weights(exact.metadata, exact.tensors, "cpu")
    return ModelDrafter(weights, choose_kernels(options.kernels, "cpu"), floor=floor), ""
