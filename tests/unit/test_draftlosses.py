"""Losses of drafters against closed forms of their values and gradients, in float64."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from speccompact.training import draftlosses
from speccompact.training.draftlosses import LOSSES, WEIGHTS, Buckets, annealed_variation, text_buckets, top_buckets

ROWS, SIZE = 5, 9
TEXT = torch.tensor([0, 3, 8, 3, 1])
POWERS = (0.0, 0.25, 0.5, 1.0)


def scores(seed: int = 0) -> Tensor:
    return torch.randn(ROWS, SIZE, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 2


def target() -> Tensor:
    return scores(1).softmax(-1)


def gradient(loss: Callable[[Buckets], Tensor], buckets: Callable[[Tensor], Buckets]) -> tuple[Tensor, Tensor, Tensor]:
    """Return the loss of each row, its gradient at the scores, and q."""
    z = scores().requires_grad_()
    value = loss(buckets(z.log_softmax(-1)))
    (slope,) = torch.autograd.grad(value.sum(), z)
    return value.detach(), slope, z.detach().softmax(-1)


def by_text(logs: Tensor) -> Buckets:
    return text_buckets(logs, TEXT)


def by_target(logs: Tensor) -> Buckets:
    return top_buckets(logs, torch.arange(SIZE).expand(ROWS, SIZE), target())


def one_hot() -> Tensor:
    return torch.nn.functional.one_hot(TEXT, SIZE).double()


def variation_slope(p: Tensor, q: Tensor) -> Tensor:
    below = (q < p).double()
    return q * ((q * below).sum(-1, keepdim=True) - below)


@pytest.mark.parametrize("name", ["cross-entropy", "kl", "acceptance"])
def test_of_a_text_three_losses_are_the_cross_entropy(name: str) -> None:
    value, slope, q = gradient(lambda buckets: LOSSES[name](buckets, 0.0), by_text)
    torch.testing.assert_close(value, -q.gather(1, TEXT[:, None])[:, 0].log())
    torch.testing.assert_close(slope, q - one_hot())


@pytest.mark.parametrize("power", POWERS)
def test_annealed_variation_of_a_text(power: float) -> None:
    value, slope, q = gradient(lambda buckets: annealed_variation(buckets, power), by_text)
    chosen = q.gather(1, TEXT[:, None])[:, 0]
    torch.testing.assert_close(value, (1 - chosen**power) / power if power else -chosen.log())
    torch.testing.assert_close(slope, chosen[:, None] ** power * (q - one_hot()))


@pytest.mark.parametrize("power", POWERS)
def test_annealed_variation_of_a_target(power: float) -> None:
    value, slope, q = gradient(lambda buckets: annealed_variation(buckets, power), by_target)
    alpha = torch.minimum(target(), q).sum(-1)
    torch.testing.assert_close(value, (1 - alpha**power) / power if power else -alpha.log())
    torch.testing.assert_close(slope, alpha[:, None] ** (power - 1) * variation_slope(target(), q))


def test_a_small_power_is_near_its_limit() -> None:
    buckets = by_target(scores().log_softmax(-1))
    for power in (0.0, 0.0009, 0.0011):
        torch.testing.assert_close(annealed_variation(buckets, power), -torch.log(1 - tv()), rtol=2e-3, atol=0)


def tv() -> Tensor:
    return (scores().softmax(-1) - target()).abs().sum(-1) / 2


def test_kl_and_cross_entropy_of_a_target() -> None:
    value, slope, q = gradient(draftlosses.kl, by_target)
    torch.testing.assert_close(value, (target() * (target() / q).log()).sum(-1))
    torch.testing.assert_close(slope, q - target())
    value, slope, q = gradient(draftlosses.cross_entropy, by_target)
    torch.testing.assert_close(value, -(target() * q.log()).sum(-1))
    torch.testing.assert_close(slope, q - target())


def test_total_variation_and_acceptance_of_a_target() -> None:
    value, slope, q = gradient(draftlosses.total_variation, by_target)
    torch.testing.assert_close(value, tv())
    torch.testing.assert_close(slope, variation_slope(target(), q))
    value, slope, q = gradient(draftlosses.acceptance_log, by_target)
    torch.testing.assert_close(value, -(1 - tv()).log())
    torch.testing.assert_close(slope, variation_slope(target(), q) / (1 - tv())[:, None])


@pytest.mark.parametrize(("buckets", "p"), [(by_text, one_hot), (by_target, target)])
def test_lk_weighs_its_parts_without_a_gradient_of_the_weight(
    buckets: Callable[[Tensor], Buckets], p: Callable[[], Tensor]
) -> None:
    value, slope, q = gradient(draftlosses.lk, buckets)
    alpha = torch.minimum(p(), q).sum(-1)
    share = torch.exp(-3 * alpha)
    divergence = torch.special.xlogy(p(), p()).sum(-1) - (p() * q.log()).sum(-1)
    torch.testing.assert_close(value, share * divergence + (1 - share) * (1 - alpha))
    expected = share[:, None] * (q - p()) + (1 - share[:, None]) * variation_slope(p(), q)
    torch.testing.assert_close(slope, expected)


def test_all_symbols_and_an_empty_rest_are_the_full_distribution() -> None:
    everything = torch.arange(SIZE).expand(ROWS, SIZE)
    for name, loss in LOSSES.items():
        whole = gradient(lambda buckets, loss=loss: loss(buckets, 0.5), by_target)  # type: ignore[misc]
        top = gradient(
            lambda buckets, loss=loss: loss(buckets, 0.5),  # type: ignore[misc]
            lambda logs: draftlosses.top_buckets(logs, everything, target()),
        )
        torch.testing.assert_close(top[0], whole[0], msg=name)
        torch.testing.assert_close(top[1], whole[1], msg=name)


def test_top_buckets_hold_all_of_both_distributions() -> None:
    chances, symbols = target().topk(3)
    buckets = draftlosses.top_buckets(scores().log_softmax(-1), symbols, chances)
    torch.testing.assert_close(buckets.wanted.sum(-1), torch.ones(ROWS, dtype=torch.float64))
    torch.testing.assert_close(buckets.logs.exp().sum(-1), torch.ones(ROWS, dtype=torch.float64))
    _, slope, q = gradient(draftlosses.kl, lambda logs: draftlosses.top_buckets(logs, symbols, chances))
    # within the rest q is left as it is: its part of the slope is q times the surplus of the rest
    rest = 1 - q.gather(1, symbols).sum(-1, keepdim=True)
    expected = q * (1 - (1 - chances.sum(-1, keepdim=True)) / rest)
    expected = expected.scatter(1, symbols, q.gather(1, symbols) - chances)
    torch.testing.assert_close(slope, expected)


def test_what_is_out_of_reach_has_no_chance_and_no_gradient() -> None:
    chances, symbols = target().topk(3)
    symbols[:, 1] = -1
    buckets = draftlosses.top_buckets(scores().log_softmax(-1), symbols, chances)
    torch.testing.assert_close(buckets.wanted[:, 1], torch.zeros(ROWS, dtype=torch.float64))
    for loss in LOSSES.values():
        _, slope, _ = gradient(
            lambda buckets, loss=loss: loss(buckets, 0.5),  # type: ignore[misc]
            lambda logs: draftlosses.top_buckets(logs, symbols, chances),
        )
        assert slope.isfinite().all()


def test_hopeless_drafts_stay_finite() -> None:
    z = torch.zeros(1, SIZE)
    z[0, 0] = 200.0
    for name, loss in LOSSES.items():
        scores_ = z.clone().requires_grad_()
        value = loss(text_buckets(scores_.log_softmax(-1), torch.tensor([1])), 0.5)
        value.sum().backward()  # type: ignore[no-untyped-call]
        assert scores_.grad is not None
        assert value.isfinite().all(), name
        assert scores_.grad.isfinite().all(), name


def test_the_power_rises_from_nought_to_one() -> None:
    assert [draftlosses.annealing(step, 5) for step in range(5)] == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert draftlosses.annealing(0, 1) == 0.0


def test_weights() -> None:
    chances = torch.tensor([[0.5, 0.25, 1.0, 0.0]])
    hits = torch.tensor([[True, True, False, True]])
    assert WEIGHTS["uniform"](chances, hits).tolist() == [[1, 1, 1, 1]]
    expected = [math.exp(-k / 4) for k in range(4)]
    torch.testing.assert_close(WEIGHTS["exponential"](chances, hits), torch.tensor([expected]))
    smooth = [0.75, 0.625, 1.0, 0.5]
    survival = [math.prod(smooth[: k + 1]) for k in range(4)]
    expected = [sum(survival[k:]) for k in range(4)]
    torch.testing.assert_close(WEIGHTS["d-pace"](chances, hits), torch.tensor([expected]))
    assert WEIGHTS["until-failure"](chances, hits).tolist() == [[1, 1, 1, 0]]


def test_d_pace_is_the_slope_of_the_expected_length() -> None:
    logs = torch.tensor([0.9, 0.6, 0.7], dtype=torch.float64).log().requires_grad_()
    length = logs.cumsum(-1).exp().sum()
    (slope,) = torch.autograd.grad(length, logs)
    weights = draftlosses.dpace_weights(logs.detach().exp(), torch.ones(3, dtype=torch.bool), smoothing=0.0)
    torch.testing.assert_close(weights, slope)
