"""Losses of a causal model that is to draft, or to be a target: the losses of `draftlosses`, token by token.

Gradients are taken together with the scores, as in `loss`. Positions of a block do not exist here: every token counts
the same. A model may be trained for the first tokens of the vocabulary alone, as the drafter `model` reads them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from speccompact.training.batch import Batch
from speccompact.training.draftlabels import LabelledBatch
from speccompact.training.draftmeasure import Trial, joined, passes_of
from speccompact.training.draftpass import Aim, Judged, Soft, slopes_of_target, slopes_of_text
from speccompact.training.network import Network

_ROWS = 256
"""Rows whose scores are held at once, as in `loss`."""


def causal_loss(network: Network, batch: Batch, aim: Aim, listed: int) -> Tensor:
    """Return the mean loss of a batch, differentiable in the network's parameters: a float32 scalar.

    Args:
        network: every weight of which is trained.
        batch: a labelled one is learned from what the target expects.
        aim: which loss; weights of positions do not matter.
        listed: tokens that count, the first ones of the vocabulary.
    """
    hidden, head = network.hidden(batch, rounding=False)
    soft = None
    if isinstance(batch, LabelledBatch):
        places = batch.symbols.masked_fill(batch.symbols >= listed, -1)
        soft = Soft(places[:, None], batch.chances[:, None])
    loss: Tensor = _CausalLoss.apply(hidden, head[:listed], batch.targets, aim, soft)  # type: ignore[no-untyped-call]
    return loss


class _CausalLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, head: Tensor, targets: Tensor, aim: Aim, soft: Soft | None) -> Tensor:
        low = head.to(torch.bfloat16 if torch.is_autocast_enabled(hidden.device.type) else head.dtype)
        by_hidden, by_head = torch.empty_like(hidden), torch.zeros_like(head, dtype=torch.float32)
        total = weight = 0.0
        for start in range(0, len(hidden), _ROWS):
            here = slice(start, start + _ROWS)
            rows = hidden[here].to(low.dtype)
            scores, wanted = rows @ low.T, targets[here, None]
            chosen = wanted.clamp_max(len(low) - 1)
            usable = (wanted < len(low)).float()
            hits = scores.argmax(1, keepdim=True) == wanted
            if soft is None:
                value, counted, slopes = slopes_of_text(scores, chosen, aim, hits, usable)
            else:
                kept = Soft(soft.places[here], soft.chances[here])
                value, counted, slopes = slopes_of_target(scores, kept, aim, hits, torch.ones_like(usable))
            total, weight = total + value, weight + counted
            by_hidden[here] = (slopes @ low).to(by_hidden.dtype)
            by_head += (slopes.T @ rows).float()
        share = 1 / max(weight, 1.0)
        ctx.save_for_backward(by_hidden * share, by_head * share)
        return torch.tensor(total * share)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        by_hidden, by_head = ctx.saved_tensors
        return by_hidden * grad, by_head * grad, None, None, None


def try_causal(
    network: Network, measured: Mapping[str, Sequence[Batch]], listed: int, block: int, pause: Callable[[], None]
) -> dict[str, Trial]:
    """Draft at every token of held-out text, kind by kind; see `draftmeasure.try_drafts`.

    A draft goes on only where all before it was right, and then it has read what the text has: so the likeliest token
    at every place of the text tells what all drafts would have been.

    Args:
        network: the model.
        measured: see `evaluation.slices`.
        listed: tokens that can be drafted.
        block: tokens of a draft.
        pause: called before every batch; it may raise.
    """
    trials = {}
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        for kind, batches in measured.items():
            parts = []
            for batch in batches:
                pause()
                parts.append(_try_batch(network, batch, listed, block))
            if parts:
                trials[kind] = joined(parts)
    return trials


def _try_batch(network: Network, batch: Batch, listed: int, block: int) -> Trial:
    hidden, head = network.hidden(batch, rounding=False)
    low = head[:listed].to(torch.bfloat16)
    best = [(rows.to(torch.bfloat16) @ low.T).argmax(1) for rows in torch.split(hidden, _ROWS)]
    single = torch.cat(best) == batch.targets
    return trial_of(single, batch.lengths, block)


def trial_of(single: Tensor, lengths: Sequence[int], block: int) -> Trial:
    """Return what came of drafting at every token, where each token is known to be drafted right or not.

    Args:
        single: (tokens,) bool, whether the token is drafted where all before it has been read.
        lengths: of the sequences.
        block: tokens of a draft.
    """
    count = torch.tensor(lengths)
    ends = torch.repeat_interleave(count.cumsum(0), count)
    at = torch.arange(len(single))[:, None] + torch.arange(block)
    inside = at < ends[:, None]
    right = single[at.clamp_max(len(single) - 1)] & inside
    hits = right.cumprod(1).bool()
    before = torch.cat([torch.ones_like(hits[:, :1]), hits[:, :-1]], 1)
    judged = Judged(before & inside, hits, torch.zeros(hits.shape))
    return Trial(judged, passes_of(hits, lengths))
