"""How good drafts are on held-out text: tokens per target pass, acceptance by position, and how far to trust a draft.

Drafts are greedy and held against the text itself, as decoding does: of each block the tokens up to the first wrong one
are settled, and that one's correction with them; the next block begins behind it. What a pass costs, and whether a
shorter draft were better, is not asked here.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from speccompact.training.batch import Batch
from speccompact.training.draftexamples import make_examples
from speccompact.training.draftnetwork import DraftNetwork
from speccompact.training.draftpass import Judged, judge

_FITTING_STEPS = 50
_PRIOR = 0.01  # pulls scale to 1 and shift to 0 where a position was hardly ever reached


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of drafting at every token of some text.

    Attributes:
        judged: the drafts, an example for each token.
        passes: (passes,) int64, the tokens at which the passes of a decoder begin.
    """

    judged: Judged
    passes: Tensor

    @property
    def tokens_per_pass(self) -> float:
        """Tokens that a target pass settles, drafting whole blocks."""
        return len(self.judged.hits) / len(self.passes)

    def acceptance(self) -> list[float]:
        """Return for each position how often a draft there was right, of the passes that reached it; 0 where none."""
        hits, reached = self.judged.hits[self.passes], self.judged.reached[self.passes]
        rates: list[float] = (hits.sum(0) / reached.sum(0).clamp_min(1)).tolist()
        return rates


def try_drafts(
    network: DraftNetwork, measured: Mapping[str, Sequence[Batch]], pause: Callable[[], None]
) -> dict[str, Trial]:
    """Draft at every token of held-out text, kind by kind.

    Args:
        network: the drafter.
        measured: see `evaluation.slices`.
        pause: called before every batch; it may raise.
    """
    trials = {}
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        for kind, batches in measured.items():
            parts = []
            for batch in batches:
                pause()
                parts.append(try_batch(network, batch))
            if parts:
                trials[kind] = joined(parts)
    return trials


def try_batch(network: DraftNetwork, batch: Batch) -> Trial:
    """Draft at every token of a batch."""
    shape = network.shape
    examples = make_examples(batch, network.places, shape.window, shape.block)
    judged = judge(network, examples)
    return Trial(judged, passes_of(judged.hits, batch.lengths))


def passes_of(hits: Tensor, lengths: Sequence[int]) -> Tensor:
    """Return the tokens at which the passes of a decoder begin, (passes,) int64.

    Args:
        hits: (tokens, block) bool, whether drafts were right as far as they were reached.
        lengths: of the sequences.
    """
    settled = (hits.sum(1) + 1).tolist()
    passes, start = [], 0
    for length in lengths:
        at = start
        while at < start + length:
            passes.append(at)
            at += settled[at]
        start += length
    return torch.tensor(passes)


def joined(parts: Sequence[Trial]) -> Trial:
    """Return trials of parts of a text as one."""
    firsts, first = [], 0
    for part in parts:
        firsts.append(part.passes + first)
        first += len(part.judged.hits)
    return Trial(_all_judged(parts), torch.cat(firsts))


def _all_judged(trials: Iterable[Trial]) -> Judged:
    found = [trial.judged for trial in trials]
    return Judged(
        torch.cat([judged.reached for judged in found]),
        torch.cat([judged.hits for judged in found]),
        torch.cat([judged.logits for judged in found]),
    )


def calibration(trials: Mapping[str, Trial]) -> tuple[Tensor, Tensor]:
    """Fit scale and shift of the trust, position by position, so that it says how often drafts are right.

    Logistic regression of right or wrong on the logit (Platt, 1999), by Newton's method, over all tokens of all kinds.

    Returns:
        scale and shift, (block,) float32 each.
    """
    judged = _all_judged(trials.values())
    columns = zip(judged.reached.T, judged.logits.T, judged.hits.T, strict=True)
    found = torch.stack([_fit(logits[reached], hits[reached]) for reached, logits, hits in columns])
    return found[:, 0], found[:, 1]


def _fit(logits: Tensor, hits: Tensor) -> Tensor:
    """Return scale and shift: (2,) float32."""
    inputs = torch.stack([logits.double(), torch.ones_like(logits, dtype=torch.float64)], 1)
    start = torch.tensor([1.0, 0.0], dtype=torch.float64)
    found = start.clone()
    for _ in range(_FITTING_STEPS):
        chances = torch.sigmoid(inputs @ found)
        slope = inputs.T @ (chances - hits.double()) + _PRIOR * (found - start)
        curve = (inputs * (chances * (1 - chances))[:, None]).T @ inputs + _PRIOR * torch.eye(2, dtype=torch.float64)
        step = torch.linalg.solve(curve, slope)
        found = found - step.clamp(-1, 1)
        if float(step.abs().max()) < 1e-6:
            break
    return found.float()


def trust_gain(trials: Mapping[str, Trial], scale: Tensor, shift: Tensor) -> float:
    """Return what chances tell beyond the mean of their position: bits for each draft, less cross-entropy.

    Args:
        trials: drafts of held-out text.
        scale, shift: see `calibration`.
    """
    judged = _all_judged(trials.values())
    reached = judged.reached
    right = judged.hits[reached].float()
    known = functional.binary_cross_entropy_with_logits((judged.logits * scale + shift)[reached], right)
    rates = (judged.hits.sum(0) / reached.sum(0).clamp_min(1)).expand(reached.shape)[reached]
    plain = functional.binary_cross_entropy(rates, right)
    return float(plain - known) / math.log(2)
