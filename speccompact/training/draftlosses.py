"""Losses of drafters, and the weights of the positions of a block, all chosen by name.

p is what the draft is to hit: the text itself (a single symbol has all of p), or a target's soft labels. q is what the
drafter says. Both come as *buckets*, the same for p and q: one for the symbol of a text, or one for each of the
target's k likeliest symbols and a last one for all the rest (top-k). With as many labels as there are tokens (`train
labels --top`), every symbol has a bucket of its own, and losses are those of whole distributions. A loss is a function
of these alone, and it is never averaged here: one number for each position, in nats where it is a logarithm.

alpha = sum_v min(p_v, q_v) = 1 - TV(p, q) is the chance that speculative sampling takes a draft (Leviathan et al.,
2023, arXiv 2211.17192); for a text it is q_y. With a rest bucket it is an upper bound, since symbols of the rest are
taken for one.

Weights say how much each position of a block counts. They are constants: no gradient passes through them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

_FLOOR = 1e-30  # stands for no chance at all, whose logarithm is not finite
_SMALL_POWER = 1e-3  # below it (1 - a**s) / s is -log a, to less than float32 can tell


@dataclass(frozen=True, slots=True)
class Buckets:
    """Two distributions over the same buckets.

    Attributes:
        wanted: (..., buckets) float32, p; sums to at most 1, and what is missing is out of the drafter's reach.
        logs: (..., buckets) float32, log q.
    """

    wanted: Tensor
    logs: Tensor


def text_buckets(logs: Tensor, symbols: Tensor) -> Buckets:
    """One bucket: the symbol of the text.

    Args:
        logs: (..., vocabulary) float32, log q.
        symbols: (...) int64.
    """
    chosen = logs.gather(-1, symbols[..., None])
    return Buckets(torch.ones_like(chosen), chosen)


def top_buckets(logs: Tensor, symbols: Tensor, chances: Tensor) -> Buckets:
    """One bucket for each of k symbols, and one for the rest, of which there is none where every symbol has its own.

    Args:
        logs: (..., vocabulary) float32, log q.
        symbols: (..., k) int64, different ones; what is below 0 is out of reach and has no q.
        chances: (..., k) float32, p of each; what is missing to 1 is p of the rest.
    """
    reachable = symbols >= 0
    chosen = logs.gather(-1, symbols.clamp_min(0)).masked_fill(~reachable, math.log(_FLOOR))
    rest = 1 - (chosen.exp() * reachable).sum(-1, keepdim=True)
    missing = (1 - chances.sum(-1, keepdim=True)).clamp_min(0)
    missing = missing.masked_fill(reachable.sum(-1, keepdim=True) == logs.shape[-1], 0.0)  # rounding, or out of reach
    wanted = torch.cat([chances * reachable, missing], -1)
    return Buckets(wanted, torch.cat([chosen, rest.clamp_min(_FLOOR).log()], -1))


def log_acceptance(buckets: Buckets) -> Tensor:
    """log alpha = log sum_v min(p_v, q_v), without leaving logarithms: (...) float32."""
    return torch.minimum(buckets.wanted.clamp_min(_FLOOR).log(), buckets.logs).logsumexp(-1)


def cross_entropy(buckets: Buckets) -> Tensor:
    """-sum_v p_v log q_v; for a text -log q_y. Direction: from p to q, mass-covering (Shannon, 1948).

    Gradient at the scores z of q: q - p.
    """
    return -(buckets.wanted * buckets.logs).sum(-1)


def kl(buckets: Buckets) -> Tensor:
    """KL(p || q) = sum_v p_v (log p_v - log q_v). Direction: forward, from p to q, mass-covering.

    Distillation (Hinton et al., 2015, arXiv 1503.02531); for drafters DistillSpec (Zhou et al., 2024, arXiv
    2310.08461). For a text it is the cross-entropy. Gradient at the scores z of q: q - p.
    """
    known: Tensor = torch.special.xlogy(buckets.wanted, buckets.wanted)
    return (known - buckets.wanted * buckets.logs).sum(-1)


def total_variation(buckets: Buckets) -> Tensor:
    """TV(p, q) = 1 - alpha; symmetric. What is lost of acceptance itself (DistillSpec, arXiv 2310.08461).

    Gradient at the scores z of q: q_j (M - [q_j < p_j]), M = sum of q_v over q_v < p_v; for a text q_y (q - 1_y), which
    vanishes where the draft is hopeless.
    """
    lost: Tensor = -torch.expm1(log_acceptance(buckets).clamp_max(0))
    return lost


def acceptance_log(buckets: Buckets) -> Tensor:
    """-log alpha, "LK-alpha" (Samarin et al., 2026, arXiv 2602.23881); symmetric. For a text the cross-entropy.

    Gradient: that of TV, divided by alpha, so that it does not vanish at little overlap.
    """
    return -log_acceptance(buckets)


def lk(buckets: Buckets, eta: float = 3.0) -> Tensor:
    """lambda KL(p || q) + (1 - lambda) TV, lambda = exp(-eta alpha) without gradient, for each position of its own.

    "LK-lambda" (Samarin et al., 2026, arXiv 2602.23881; eta 3 was best there): KL while there is little overlap, TV
    once there is.
    """
    log_alpha = log_acceptance(buckets).clamp_max(0)
    share = torch.exp(-eta * log_alpha.detach().exp())
    return share * kl(buckets) - (1 - share) * torch.expm1(log_alpha)


def annealed_variation(buckets: Buckets, power: float) -> Tensor:
    """L_s = (1 - alpha^s) / s, power-annealed total variation (TVP): -log alpha for s = 0, 1 - alpha for s = 1.

    Symmetric. s rises from 0 to 1 over a run. Gradient: alpha^(s - 1) times that of TV; for a text q_y^s (q - 1_y),
    so that hopeless positions count the less the further a run is. For a text it is the generalised cross-entropy of
    Zhang and Sabuncu (2018, arXiv 1805.07836). No source is known for the annealed form with soft labels; it is
    defined here.

    Args:
        buckets: see there.
        power: s, 0 to 1.
    """
    log_alpha = log_acceptance(buckets).clamp_max(0)
    return -log_alpha if power < _SMALL_POWER else -torch.expm1(power * log_alpha) / power


LOSSES: dict[str, Callable[[Buckets, float], Tensor]] = {
    "cross-entropy": lambda buckets, _power: cross_entropy(buckets),
    "kl": lambda buckets, _power: kl(buckets),
    "tv": lambda buckets, _power: total_variation(buckets),
    "acceptance": lambda buckets, _power: acceptance_log(buckets),
    "lk": lambda buckets, _power: lk(buckets),
    "tvp": annealed_variation,
}
"""Name -> loss of buckets and of the power that belongs to the moment (see `annealing`)."""


ANNEALED = frozenset({"tvp"})
"""Losses that go by where in the whole run a step is: such a run cannot be made longer."""


def annealing(step: int, steps: int) -> float:
    """The power of `annealed_variation` at a step (from 0) of a run: from 0 at the first to 1 at the last."""
    return step / max(1, steps - 1)


def uniform_weights(chances: Tensor, hits: Tensor) -> Tensor:
    """w_k = 1."""
    return torch.ones_like(chances)


def exponential_weights(chances: Tensor, hits: Tensor, decay: float = 4.0) -> Tensor:
    """w_k = exp(-(k - 1) / decay), k from 1: DFlash (Chen et al., 2026, arXiv 2602.06036), here with DSpark's decay."""
    return torch.exp(-torch.arange(chances.shape[-1], device=chances.device) / decay).expand_as(chances)


def dpace_weights(chances: Tensor, hits: Tensor, smoothing: float = 0.5) -> Tensor:
    """w_k = sum_{j >= k} prod_{i <= j} c_i, c = (1 - a) q_y + a, a = 0.5: D-PACE (2026, arXiv 2605.18810).

    The slope, by log c_k, of the expected length sum_j prod_{i <= j} c_i: what limits the length at present counts
    most. With soft labels alpha stands for q_y.
    """
    survival = ((1 - smoothing) * chances + smoothing).cumprod(-1)
    return survival.flip(-1).cumsum(-1).flip(-1)


def first_failure_weights(chances: Tensor, hits: Tensor) -> Tensor:
    """w_k = 1 up to and including the first position at which the draft is wrong, then 0: Spec-AUF (arXiv 2607.01893).

    What lies beyond is never read while decoding.
    """
    before = torch.cat([torch.ones_like(hits[..., :1]), hits[..., :-1]], -1)
    return before.to(chances.dtype).cumprod(-1)


WEIGHTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "uniform": uniform_weights,
    "exponential": exponential_weights,
    "d-pace": dpace_weights,
    "until-failure": first_failure_weights,
}
"""Name -> weights of (..., block) chances that each is right, float32 without gradient, and whether it is, bool."""
