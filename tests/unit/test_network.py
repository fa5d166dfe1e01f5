"""The trainable network is the target in floats: against a plain forward pass, and against the exact integers."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from speccompact.exact.cache import Cache, Rows, Span
from speccompact.exact.transformer import Transformer, choose_kernels
from speccompact.exact.weights import load_weights
from speccompact.modelstore.adapterfile import Adapter
from speccompact.modelstore.merging import merge
from speccompact.modelstore.modelconfig import Checkpoint
from speccompact.modelstore.quantize import convert
from speccompact.training.batch import Batch, make_batch
from speccompact.training.loss import code_length
from speccompact.training.network import Network
from speccompact.training.rounding import rounded, rounded_linear, to_int8
from tests.tiny_adapter import adapter_for, linear_shapes
from tests.tiny_model import checkpoint, noise, training_tokens
from tests.tiny_vocabulary import tiny_vocabulary

RANK, LENGTHS = 3, (40, 40, 17, 1)

BFLOAT16 = 2e-3
"""What is frozen is held in bfloat16: code lengths differ by less than this share."""


def batch(*lengths: int) -> Batch:
    tokens = np.array(training_tokens(), np.int32)
    starts = np.cumsum((5, *lengths))
    return make_batch([tokens[a : a + n] for a, n in zip(starts, lengths, strict=False)], tiny_vocabulary())


def adapted(base: Checkpoint, rank: int | None = RANK) -> tuple[Network, Checkpoint]:
    """Return a network with an adapter of noticeable size, in float32, and the checkpoint that this amounts to."""
    network = Network(base, rank, 2.0 * (rank or 1), 1).float()
    if rank is None:
        return network, base
    adapter = adapter_for(linear_shapes(base.config), rank=rank)
    with torch.no_grad():
        for layer in range(base.config.layers):
            for linear in network.layers[layer].linears.values():  # type: ignore[operator]
                for part, a, b in zip(linear.parts, linear.a, linear.b, strict=True):
                    first, second = adapter.factors[f"layers.{layer}.{part}"]
                    a.copy_(torch.from_numpy(first * 0.25))
                    b.copy_(torch.from_numpy(second * 0.25))
    return network, merge(base, Adapter(rank, network.scale, "", network.factors(), {}))


def plain_bits(model: Checkpoint, sequence: Tensor) -> float:
    """Code length of one sequence, written down from the architecture's definition, without rotations."""
    config, t = (
        model.config,
        {name: torch.from_numpy(np.array(model.tensors[name], np.float64)) for name in model.tensors},
    )
    n, width = len(sequence), config.head_dim
    x = t["embed"][torch.cat([torch.zeros(1, dtype=torch.int64), sequence[:-1]])]
    angle = torch.arange(n)[:, None] * config.rope_theta ** (-torch.arange(0, width, 2).double() / width)

    def norm(values: Tensor, gain: Tensor) -> Tensor:
        return values * torch.rsqrt((values**2).mean(-1, keepdim=True) + config.rms_eps) * gain

    def turned(values: Tensor) -> Tensor:
        low, high = values.chunk(2, -1)
        return torch.cat([low * angle.cos() - high * angle.sin(), low * angle.sin() + high * angle.cos()], -1)

    for i in range(config.layers):
        part = {name.rpartition(".")[2]: value for name, value in t.items() if name.startswith(f"layers.{i}.")}
        h = norm(x, part["attn_norm"])
        query, key, value = ((h @ part[p].T).view(n, -1, width).transpose(0, 1) for p in "qkv")
        key, value = (each.repeat_interleave(config.heads // config.kv_heads, 0) for each in (key, value))
        scores = turned(query) @ turned(key).transpose(1, 2) / width**0.5
        scores = scores.masked_fill(torch.ones(n, n).triu(1) > 0, -torch.inf)
        x = x + (scores.softmax(-1) @ value).transpose(0, 1).reshape(n, -1) @ part["o"].T
        h = norm(x, part["ffn_norm"])
        x = x + (functional.silu(h @ part["gate"].T) * (h @ part["up"].T)) @ part["down"].T
    logits = norm(x, t["norm"]) @ t["embed" if config.tied else "head"].T
    return float(-torch.log2(logits.softmax(-1)).gather(1, sequence[:, None]).sum())


def exact_bits(model: Checkpoint, sequence: Tensor) -> float:
    """Code length under the integers of the converted model."""
    target = Transformer(load_weights(*convert(model), "cpu"), choose_kernels("torch", "cpu"))
    cache, n = Cache(target.weights, 1, len(sequence)), len(sequence)
    hidden = target.hidden(
        torch.cat([torch.zeros(1, dtype=torch.int64), sequence[:-1]]), Rows.of([Span(0, 0, n)]), cache
    )
    scores = target.scores(*hidden).double() / 2**16
    log2 = scores - torch.logsumexp(scores * np.log(2), 1, keepdim=True) / np.log(2)
    return float(-log2.gather(1, sequence[:, None]).sum())


@pytest.mark.parametrize("rank", [RANK, None])
def test_code_length_is_that_of_the_architecture(rank: int | None) -> None:
    network, model = adapted(checkpoint(), rank)
    several = batch(*LENGTHS)
    expected = sum(plain_bits(model, part) for part in torch.split(several.targets, list(LENGTHS)))
    assert network.bits(several, rounding=False).item() == pytest.approx(
        expected, rel=1e-4 if rank is None else BFLOAT16
    )


def test_adapters_change_what_is_measured() -> None:
    network, model = adapted(checkpoint())
    sequence = batch(40).targets
    assert abs(plain_bits(model, sequence) - plain_bits(checkpoint(), sequence)) > 1
    assert network.bits(batch(40), rounding=False).item() == pytest.approx(plain_bits(model, sequence), rel=BFLOAT16)


def test_a_new_network_is_its_base() -> None:
    expected = plain_bits(checkpoint(), batch(40).targets)
    assert Network(checkpoint(), RANK, 3.0, 1).float().bits(batch(40), rounding=False).item() == pytest.approx(
        expected, rel=BFLOAT16
    )


def test_rounding_comes_close_to_the_integers() -> None:
    network, model = adapted(checkpoint())
    sequence = batch(60).targets
    exact = exact_bits(model, sequence)
    simulated = network.bits(batch(60), rounding=True).item()
    plain = network.bits(batch(60), rounding=False).item()
    assert simulated == pytest.approx(exact, rel=0.02)
    assert simulated != plain


def test_gradients_reach_every_parameter() -> None:
    for rank in (RANK, None):
        for rounding in (False, True):
            network, _ = adapted(checkpoint(), rank)
            network.bits(batch(*LENGTHS), rounding).backward()  # type: ignore[no-untyped-call]
            for name, parameter in network.named_parameters():
                assert parameter.grad is not None, name
                assert parameter.grad.abs().max() > 0, name


def test_gradients_are_the_slope_of_the_code_length() -> None:
    network, _ = adapted(checkpoint())
    network.bits(batch(*LENGTHS), rounding=False).backward()  # type: ignore[no-untyped-call]
    for parameter in list(network.parameters())[::5]:
        assert parameter.grad is not None
        direction = parameter.grad / parameter.grad.norm()
        ends = []
        for step in (0.01, -0.01):
            with torch.no_grad():
                parameter.add_(direction, alpha=step)
                ends.append(network.bits(batch(*LENGTHS), rounding=False).item())
                parameter.sub_(direction, alpha=step)
        assert (ends[0] - ends[1]) / 0.02 == pytest.approx(parameter.grad.norm().item(), rel=0.05, abs=0.5)


def test_only_what_is_trained_is_state() -> None:
    network, _ = adapted(checkpoint())
    assert set(network.state_dict()) == {name for name, _ in network.named_parameters()}
    assert set(network.factors()) == set(linear_shapes(checkpoint().config))


def test_everything_goes_to_the_device_together() -> None:
    network = Network(checkpoint(), RANK, 1.0, 1).to("meta")
    for module in network.modules():
        for name, value in vars(module).items():
            assert not isinstance(value, Tensor), name
        assert all(each.is_meta for each in (*module.parameters(), *module.buffers()))
    rotations = [name for name, _ in network.named_buffers() if "turn" in name]
    assert len(rotations) == checkpoint().config.layers * 6


def test_code_length_matches_cross_entropy() -> None:
    hidden, head = (
        torch.from_numpy(np.asarray(noise(i, shape, 1.0), np.float32)) for i, shape in ((1, (700, 8)), (2, (50, 8)))
    )
    targets = torch.arange(700) % 50
    results: list[Any] = []
    for function in (code_length, lambda h, w, t: functional.cross_entropy(h @ w.T, t, reduction="sum") / np.log(2)):
        inputs = hidden.clone().requires_grad_(), head.clone().requires_grad_()
        bits = function(*inputs, targets)
        bits.backward()
        results.append((bits.detach(), *(each.grad for each in inputs)))
    for mine, theirs in zip(*results, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-3)
    with torch.no_grad():
        torch.testing.assert_close(code_length(hidden, head, targets), results[1][0], rtol=1e-5, atol=1e-3)


def test_measuring_a_head_that_is_trained_takes_no_gradients() -> None:
    hidden, head = (
        torch.from_numpy(np.asarray(noise(i, shape, 4.0), np.float32)) for i, shape in ((1, (300, 8)), (2, (50, 8)))
    )
    targets = torch.arange(300) % 50
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert code_length(hidden, head.clone().requires_grad_(), targets) == code_length(hidden, head, targets)


def test_every_weight_is_rounded_whether_it_is_trained_or_not() -> None:
    sequence = batch(60)
    wanted = exact_bits(checkpoint(), sequence.targets)
    for rank in (RANK, None):
        network = Network(checkpoint(), rank, 1.0, 1).float()
        with torch.no_grad():
            before = network.bits(sequence, rounding=True).item()
            assert before == pytest.approx(wanted, rel=0.02)
            network.head.copy_(rounded(network.head))  # what is rounded already stays
            assert network.bits(sequence, rounding=True).item() == pytest.approx(before, rel=1e-6)


def test_a_likely_token_still_pulls() -> None:
    """In bfloat16, where a probability above 0.998 rounds to 1."""
    head = torch.eye(8, dtype=torch.bfloat16)
    hidden = torch.zeros(1, 8).index_fill_(1, torch.tensor([3]), 9.0).requires_grad_()
    code_length(hidden, head, torch.tensor([3])).backward()  # type: ignore[no-untyped-call]
    missing = 1 - torch.softmax(hidden.detach(), 1)[0, 3].item()
    assert missing < 0.001
    assert hidden.grad is not None
    assert -hidden.grad[0, 3].item() == pytest.approx(missing / np.log(2), rel=0.01)


def test_rounding_is_int8_and_transparent_to_gradients() -> None:
    x = torch.from_numpy(np.asarray(noise(3, (6, 32), 1.0), np.float32)).requires_grad_()
    whole, scale = to_int8(x.detach())
    assert whole.abs().amax(1).tolist() == [127.0] * 6
    assert torch.equal(whole, whole.round())
    torch.testing.assert_close(rounded(x).detach(), whole.float() * scale)
    assert (rounded(x) - x).abs().max() <= scale.max() / 2 * 1.001
    rounded(x).sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    assert torch.equal(x.grad, torch.ones_like(x))


def test_rounded_linear_multiplies_what_is_rounded() -> None:
    x, w = (
        torch.from_numpy(np.asarray(noise(i, (n, 32), 1.0), np.float32)).requires_grad_() for i, n in ((4, 6), (5, 9))
    )
    result = rounded_linear(x, w)
    torch.testing.assert_close(result, rounded(x) @ rounded(w).T, rtol=0.01, atol=0.02)
    result.sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    assert w.grad is not None
    torch.testing.assert_close(x.grad, rounded(w).sum(0).expand_as(x).detach(), rtol=0.02, atol=0.02)
    torch.testing.assert_close(w.grad, rounded(x).sum(0).expand_as(w).detach(), rtol=0.02, atol=0.02)


def test_rows_of_zeros_stay_zero() -> None:
    assert not rounded(torch.zeros(2, 8)).any()
