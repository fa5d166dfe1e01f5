"""From the rows of a drafter to its loss, a few blocks at a time, so that their scores never lie in memory all at once.

Gradients are taken together with the scores, as in `loss`. Of a text every loss depends on q_y alone, so its slope at
the scores is g (q - 1_y) with one number g for each position: that goes into the rows, and nothing of the size of the
scores is kept but their softmax. With soft labels the slopes are left to torch.

Under autocast scores and slopes are bfloat16. Beside 1 that tells nothing below a thousandth, so that the loss of a
draft that is nearly sure, and its slope, would be nothing at all; so log q_y then comes from what all others have.

Two losses are added, each a mean: that of the drafts, over all positions by their weights; and what judges how likely
drafts are right (`blocknet.Trust`), over the positions that are reached, as cross-entropy of right or wrong. The second
changes nothing but its own parameters.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from speccompact.speculative.blocknet import Trust
from speccompact.training.draftexamples import Examples, Places
from speccompact.training.draftlosses import LOSSES, WEIGHTS, Buckets, log_acceptance, top_buckets
from speccompact.training.draftnetwork import DraftNetwork

_ROWS = 512
"""Positions whose scores are held at once: 512 x 8192 in bfloat16 take 8 MB, which the caches nearly hold."""

_FLOOR = 1e-30  # stands for no chance, and for no weight at all


@dataclass(frozen=True, slots=True)
class Soft:
    """What a target expects at each position, in place of the text.

    Attributes:
        places: (examples, block, k) int64, places of its likeliest tokens; below 0 for those that cannot be drafted.
        chances: (examples, block, k) float32.
    """

    places: Tensor
    chances: Tensor


def soft_labels(examples: Examples, places: Places, symbols: Tensor, chances: Tensor) -> Soft:
    """Place what a target expects at every token of a text at the positions of blocks.

    Args:
        examples: of that text.
        places: see there.
        symbols, chances: (tokens, k), see `draftlabels`.
    """
    ahead = examples.anchors[:, None] + torch.arange(examples.wanted.shape[1])
    ahead = ahead.clamp_max(len(symbols) - 1)  # what lies beyond is not counted
    found = places.of[symbols[ahead]]
    return Soft(found.masked_fill(found == len(places.listed), -1), chances[ahead])


@dataclass(frozen=True, slots=True)
class Aim:
    """What is trained for.

    Attributes:
        loss: name, see `draftlosses.LOSSES`.
        weights: name, see `draftlosses.WEIGHTS`.
        power: of annealed total variation, at this moment.
    """

    loss: str
    weights: str
    power: float


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of drafts.

    Attributes:
        reached: (examples, block) bool, whether the text goes that far and all drafts before were right.
        hits: (examples, block) bool, whether the draft is the token of the text, where it is reached.
        logits: (examples, block) float32, of the trust in it, where it is reached.
    """

    reached: Tensor
    hits: Tensor
    logits: Tensor


class _Scores:
    """Scores of blocks, some at a time, always in the same memory: fresh memory costs more than the arithmetic."""

    def __init__(self, rows: Tensor, head: Tensor, bias: Tensor) -> None:
        self._rows, self._head, self._bias = rows, head, bias
        self._blocks = min(max(1, _ROWS // rows.shape[1]), rows.shape[0])
        self._memory = torch.empty(self._blocks * rows.shape[1], head.shape[0], dtype=head.dtype, device=rows.device)

    def parts(self) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Yield which blocks, their rows (blocks * block, rank), and their scores (blocks * block, listed)."""
        for start in range(0, self._rows.shape[0], self._blocks):
            here = slice(start, start + self._blocks)
            rows = self._rows[here].flatten(0, 1).to(self._head.dtype)
            scores = self._memory[: len(rows)]
            yield here, rows, torch.addmm(self._bias, rows, self._head.t(), out=scores)


def _arithmetic(head: Tensor) -> torch.dtype:
    """Return the type of the scores: that of autocast, where it is on."""
    kind = head.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else head.dtype


def _trust(network: DraftNetwork) -> Trust:
    ones, zeros = torch.ones(network.shape.block), torch.zeros(network.shape.block)
    return Trust(network.trust_input, network.trust_bias, network.trust_output, ones, zeros)


def judge(network: DraftNetwork, examples: Examples) -> Judged:
    """Draft as decoding does, position by position up to the first wrong one, and compare with the text.

    No gradients are taken. What the positions beyond would say is not asked.
    """
    rows = network.rows(examples)
    dtype = _arithmetic(network.head)
    head, bias = network.head.to(dtype), network.head_bias.to(dtype)
    reached, hits = (torch.zeros(rows.shape[:2], dtype=torch.bool) for _ in range(2))
    logits = torch.zeros(rows.shape[:2])
    going = torch.arange(len(rows))
    for k in range(rows.shape[1]):
        going = going[examples.inside[going, k]]
        if not len(going):
            break
        reached[going, k] = True
        for here, some, scores in _Scores(rows[going, k, None], head, bias).parts():
            best, drafts = scores.max(-1)
            hits[going[here], k] = drafts == examples.wanted[going[here], k]
            judged = _trust(network).logits(some.float(), best.float(), network.trust_bias[k])
            logits[going[here], k] = judged.float()
        going = going[hits[going, k]]
    return Judged(reached, hits, logits)


def draft_loss(network: DraftNetwork, examples: Examples, aim: Aim, soft: Soft | None = None) -> Tensor:
    """Return the loss of a batch, differentiable in the network's parameters: a float32 scalar.

    Args:
        network: the drafter.
        examples: blocks and what stands before them.
        aim: which loss, with which weights.
        soft: a target's expectations; None takes the text.
    """
    rows = network.rows(examples)
    parameters = (network.head, network.head_bias, network.trust_input, network.trust_bias, network.trust_output)
    loss: Tensor = _DraftLoss.apply(rows, *parameters, examples, aim, soft)  # type: ignore[no-untyped-call]
    return loss


class _DraftLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, head: Tensor, bias: Tensor, *rest: Any) -> Tensor:
        *trust, examples, aim, soft = rest
        dtype = _arithmetic(head)
        low = head.to(dtype)
        by_rows = torch.empty(rows.shape, dtype=torch.float32)
        by_head = torch.zeros(head.shape[0], head.shape[1] + 1)
        total, weight = 0.0, 0.0
        hits, best = torch.empty(rows.shape[:2], dtype=torch.bool), torch.empty(rows.shape[:2])
        for here, some, scores in _Scores(rows, low, bias.to(dtype)).parts():
            wanted, inside = examples.wanted[here], examples.inside[here]
            reachable = inside & (wanted < len(head))
            best[here] = scores.amax(-1).float().view(wanted.shape)
            chosen = wanted.clamp_max(len(head) - 1)
            hits[here] = reachable & (scores.gather(1, chosen.view(-1, 1)).float().view(wanted.shape) >= best[here])
            if soft is None:
                value, counted, slopes = slopes_of_text(scores, chosen, aim, hits[here], reachable.float())
            else:
                kept = Soft(soft.places[here], soft.chances[here])
                value, counted, slopes = slopes_of_target(scores, kept, aim, hits[here], inside.float())
            total, weight = total + value, weight + counted
            by_rows[here] = (slopes @ low).view(*wanted.shape, -1)
            by_head += slopes.t() @ torch.cat([some, torch.ones_like(some[:, :1])], 1)
        judged, by_trust = _of_trust(rows, best, hits, examples.inside, trust)
        share = 1 / max(weight, _FLOOR)
        ctx.save_for_backward(by_rows * share, by_head[:, :-1] * share, by_head[:, -1] * share, *by_trust)
        return torch.tensor(total * share + judged)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return (*(slope * grad for slope in ctx.saved_tensors), None, None, None)


def slopes_of_text(
    scores: Tensor, wanted: Tensor, aim: Aim, hits: Tensor, usable: Tensor
) -> tuple[float, float, Tensor]:
    """Return the sum of weighted losses of a text, that of the weights, and the slopes at the scores.

    Args:
        scores: (blocks * block, listed), becomes the slopes.
        wanted: (blocks, block) int64, place of the token of the text.
        aim: see there.
        hits: (blocks, block) bool, whether the draft is right.
        usable: (blocks, block) float32, 0 for positions that do not count.
    """
    q = torch.softmax(scores, -1, out=scores)
    numbers, chosen = torch.arange(len(q)), wanted.flatten()
    right = q[numbers, chosen].float()
    q[numbers, chosen] = 0
    rest = (q @ q.new_ones(q.shape[1], 1))[:, 0].float()  # a product: a sum in float32 would take as long as all else
    sure = torch.log1p(-rest.clamp_max(0.5))
    logs = torch.where(right < 0.5, right.clamp_min(_FLOOR).log(), sure).view(wanted.shape)
    weights = WEIGHTS[aim.weights](logs.exp() * usable, hits) * usable
    with torch.enable_grad():
        logs.requires_grad_()
        losses = LOSSES[aim.loss](Buckets(torch.ones_like(logs)[..., None], logs[..., None]), aim.power)
        value = (weights * losses).sum()
        (g,) = torch.autograd.grad(value, logs)
    g = g.flatten()
    slopes = q.mul_(-g[:, None].to(q.dtype))
    slopes[numbers, chosen] = (-g * torch.expm1(logs.detach().flatten())).to(q.dtype)
    return float(value), float(weights.sum()), slopes


def slopes_of_target(scores: Tensor, soft: Soft, aim: Aim, hits: Tensor, usable: Tensor) -> tuple[float, float, Tensor]:
    """Return the same for soft labels; `slopes_of_text` has the arguments."""
    with torch.enable_grad():
        exact = scores.float().requires_grad_()
        logs = exact.log_softmax(-1).view(*usable.shape, -1)
        buckets = top_buckets(logs, soft.places, soft.chances)
        weights = WEIGHTS[aim.weights](log_acceptance(buckets).detach().exp(), hits) * usable
        value = (weights * LOSSES[aim.loss](buckets, aim.power)).sum()
        (slopes,) = torch.autograd.grad(value, exact)
    return float(value), float(weights.sum()), slopes.to(scores.dtype)


def _of_trust(
    rows: Tensor, best: Tensor, hits: Tensor, inside: Tensor, trust: list[Tensor]
) -> tuple[float, tuple[Tensor, ...]]:
    """Return the loss of the trust over the positions that are reached, and the slopes at its parameters."""
    reached = torch.cat([inside[:, :1], inside[:, 1:] & hits[:, :-1].cumprod(1).bool()], 1)
    with torch.enable_grad(), torch.autocast(rows.device.type, enabled=False):
        inputs, bias, outputs = (parameter.detach().requires_grad_() for parameter in trust)
        numbers, positions = reached.nonzero(as_tuple=True)
        ones = torch.ones(rows.shape[1])
        seen = rows.detach()[numbers, positions].float()
        logits = Trust(inputs, bias, outputs, ones, ones).logits(seen, best[numbers, positions], bias[positions])
        loss = functional.binary_cross_entropy_with_logits(logits, hits[numbers, positions].float())
        slopes = torch.autograd.grad(loss, (inputs, bias, outputs))
    return float(loss), slopes
