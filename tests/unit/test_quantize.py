"""Conversion: the same file on every machine, and the network that the checkpoint means."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from speccompact.errors import ModelError
from speccompact.exact import reference
from speccompact.exact.cache import Cache, Rows, Span
from speccompact.exact.transformer import Transformer
from speccompact.exact.weights import load_weights
from speccompact.modelstore.exactfile import read_exact_file
from speccompact.modelstore.modelconfig import Checkpoint
from speccompact.modelstore.quantize import convert, rotate
from tests.tiny_model import CONFIG, TINY_DIGEST, TINY_EXACT, checkpoint, contents, training_tokens, write_tiny

Floats = npt.NDArray[np.float64]


def test_conversion_still_yields_the_committed_file(tmp_path: Path) -> None:
    assert write_tiny(tmp_path / "tiny.exact").hex() == TINY_DIGEST
    assert (tmp_path / "tiny.exact").read_bytes() == TINY_EXACT.read_bytes()


def test_the_committed_file_is_what_its_digest_says() -> None:
    exact = read_exact_file(TINY_EXACT, bytes.fromhex(TINY_DIGEST))
    assert exact.metadata == contents()[0]
    assert {name: tensor.tobytes() for name, tensor in exact.tensors.items()} == {
        name: tensor.tobytes() for name, tensor in contents()[1].items()
    }


@pytest.mark.parametrize("width", [1, 2, 3, 5, 8, 12, 48, 80, 576, 1536])
def test_rotation_is_orthogonal_and_its_own_inverse(width: int) -> None:
    matrix = rotate(np.eye(width))
    assert np.abs(matrix @ matrix - np.eye(width)).max() < 1e-13
    assert np.abs(matrix - matrix.T).max() < 1e-15
    x = np.sin(np.arange(7 * width, dtype=np.float64)).reshape(7, width)
    assert np.abs(rotate(rotate(x)) - x).max() < 1e-13
    assert np.abs(rotate(x) - x @ matrix).max() < 1e-13


def test_rotation_spreads_a_spike() -> None:
    spike = np.zeros(576)
    spike[5] = 1000.0
    assert np.abs(rotate(spike)).max() < 1000 * 0.89


def test_rotation_does_not_touch_its_argument() -> None:
    x = np.ones(48)
    rotate(x)
    assert (x == 1).all()


@pytest.mark.parametrize("name", [name for name in CONFIG.shapes() if not name.startswith("layers.1")])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_tensor_that_is_not_finite_is_refused(name: str, value: float) -> None:
    with pytest.raises(ModelError, match="finite"):
        convert(spoiled(name, value))


def spoiled(name: str, value: float) -> Checkpoint:
    tensor = checkpoint().tensors[name].copy()
    tensor.reshape(-1)[-1] = value
    return Checkpoint(CONFIG, {**checkpoint().tensors, name: tensor}, checkpoint().tokenizer)


def scaled(name: str, factor: float) -> Checkpoint:
    tensor = checkpoint().tensors[name] * np.float32(factor)
    return Checkpoint(CONFIG, {**checkpoint().tensors, name: tensor}, checkpoint().tokenizer)


@pytest.mark.parametrize(("name", "factor"), [("embed", 2.0**40), ("layers.0.down", 2.0**60), ("head", 2.0**60)])
def test_weights_beyond_all_bounds_are_refused(name: str, factor: float) -> None:
    with pytest.raises(ModelError, match="sound"):
        convert(scaled(name, factor))


@pytest.mark.parametrize("name", ["embed", "layers.0.q", "layers.0.v", "layers.0.gate", "layers.1.up"])
def test_weights_of_nothing_but_zeros_convert(name: str) -> None:
    metadata, tensors = convert(scaled(name, 0.0))
    load_weights(metadata, tensors, "cpu")


def test_stated_bounds_are_those_of_the_weights() -> None:
    metadata, tensors = contents()
    for name, bound in metadata["linears"].items():
        input_max = 127 * 128 if name.endswith("down") else 127
        sums = np.abs(tensors[f"{name}.weight"].astype(np.int64)).sum(1) * input_max
        assert bound["acc"] == sums.max()
        assert bound["inner"] > (sums * tensors[f"{name}.channel"]).max() >> bound["k1"]
        assert bound["inner"] < 1 << 31
        assert tensors[f"{name}.channel"].max() <= 1 << 20
        assert np.abs(tensors[f"{name}.weight"]).max() <= 127


def test_a_tied_head_is_the_embedding() -> None:
    tensors = {name: tensor for name, tensor in checkpoint().tensors.items() if name != "head"}
    seen: list[tuple[str, int, int]] = []
    tied = convert(
        Checkpoint(replace(CONFIG, tied=True), tensors, checkpoint().tokenizer), lambda *step: seen.append(step)
    )
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
    assert {(stage, total) for stage, _, total in seen} == {("convert", seen[-1][1])}
    untied = convert(Checkpoint(CONFIG, {**tensors, "head": tensors["embed"]}, checkpoint().tokenizer))
    assert tied[0] == untied[0]
    assert (tied[1]["head.weight"] == untied[1]["head.weight"]).all()


@pytest.mark.parametrize("context", [1, 5, 9000])
def test_positions_follow_the_context_up_to_a_limit(context: int) -> None:
    if context == 9000:
        pytest.skip("tables of 8,192 positions take seconds") if CONFIG.head_dim > 8 else None
    metadata, tensors = convert(
        Checkpoint(replace(CONFIG, context=context), checkpoint().tensors, checkpoint().tokenizer)
    )
    assert metadata["positions"] == len(tensors["rotary"]) == min(context, 8192)


def float_scores(tensors: Any, tokens: list[int]) -> Floats:
    """Return the checkpoint's own scores in log2 units, in real arithmetic: a Llama as everybody knows it."""
    weight = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}
    x = weight["embed"][tokens]
    count, half = len(tokens), CONFIG.head_dim // 2

    def norm(name: str) -> Floats:
        scaled: Floats = x / np.sqrt(np.square(x).mean(-1, keepdims=True) + CONFIG.rms_eps) * weight[name]
        return scaled

    def heads(y: Floats, name: str, number: int) -> Floats:
        split: Floats = (y @ weight[name].T).reshape(count, number, -1)
        return split

    angle = np.arange(count)[:, None] * CONFIG.rope_theta ** (-np.arange(half) / half)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]

    def turn(y: Floats) -> Floats:
        low, high = y[..., :half], y[..., half:]
        return np.concatenate([low * cos - high * sin, low * sin + high * cos], -1)

    for i in range(CONFIG.layers):
        y = norm(f"layers.{i}.attn_norm")
        query = turn(heads(y, f"layers.{i}.q", CONFIG.heads))
        key, value = turn(heads(y, f"layers.{i}.k", CONFIG.kv_heads)), heads(y, f"layers.{i}.v", CONFIG.kv_heads)
        key, value = (np.repeat(part, CONFIG.heads // CONFIG.kv_heads, 1) for part in (key, value))
        scores = np.einsum("qhc,khc->hqk", query, key) / math.sqrt(CONFIG.head_dim)
        scores += np.triu(np.full((count, count), -np.inf), 1)
        share = np.exp(scores - scores.max(-1, keepdims=True))
        share /= share.sum(-1, keepdims=True)
        x = x + np.einsum("hqk,khc->qhc", share, value).reshape(count, -1) @ weight[f"layers.{i}.o"].T
        y = norm(f"layers.{i}.ffn_norm")
        gate, up = y @ weight[f"layers.{i}.gate"].T, y @ weight[f"layers.{i}.up"].T
        x = x + (gate / (1 + np.exp(-gate)) * up) @ weight[f"layers.{i}.down"].T
    result: Floats = norm("norm") @ weight["head"].T * math.log2(math.e)
    return result


def test_the_integers_compute_what_the_floats_mean() -> None:
    tokens = list(training_tokens()[:120])
    transformer = Transformer(load_weights(*contents(), "cpu"), reference)
    rows = Rows.of([Span(0, 0, len(tokens))])
    found = transformer.scores(
        *transformer.hidden(torch.tensor(tokens), rows, Cache(transformer.weights, 1, len(tokens)))
    )
    wanted = float_scores(checkpoint().tensors, tokens)
    assert float(np.abs(found.numpy() / 65536 - wanted).max()) < 0.05 * float(np.abs(wanted).max())
    follows = np.arange(len(tokens) - 1), np.array(tokens[1:])

    def bits(scores: Floats) -> float:
        return float((np.log2(np.exp2(scores[:-1]).sum(-1)) - scores[follows]).mean())

    assert bits(wanted) < 6
    assert abs(bits(found.numpy() / 65536) - bits(wanted)) < 0.02 * bits(wanted)
