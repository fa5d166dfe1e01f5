import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speccompact.errors import ModelError
from speccompact.modelstore.checkpoint_gguf import to_half_pairs
from speccompact.modelstore.checkpoints import Checkpoint, load_checkpoint
from tests import tiny_gguf
from tests.tiny_gguf import F32, MERGES, STRING, TOKENS, TYPE_F32, U32, RawTensor, permuted, tiny_llama, value


def folder_of(path: Path, **config: Any) -> Path:
    """Write the tiny llama as a Hugging Face folder; None removes a key of the configuration."""
    path.mkdir(exist_ok=True)
    merged = {key: entry for key, entry in (tiny_gguf.hf_config() | config).items() if entry is not None}
    (path / "config.json").write_text(json.dumps(merged))
    (path / "tokenizer.json").write_text(json.dumps(tiny_gguf.hf_tokenizer()))
    tiny_gguf.write_safetensors(path / "model.safetensors", tiny_gguf.hf_weights())
    return path


def same(one: Checkpoint, other: Checkpoint) -> bool:
    return (
        one.config == other.config
        and one.tokenizer == other.tokenizer
        and list(one.tensors) == list(other.tensors)
        and all(np.array_equal(one.tensors[name], other.tensors[name]) for name in one.tensors)
    )


def test_gguf_and_safetensors_give_the_same_checkpoint(tmp_path: Path) -> None:
    gguf = load_checkpoint(tiny_llama().write(tmp_path / "m.gguf"))
    assert same(gguf, load_checkpoint(folder_of(tmp_path / "hf")))
    assert gguf.config.tied
    assert gguf.config.head_dim == 8
    assert gguf.config.rms_eps == 1e-5
    assert "head" not in gguf.tensors
    assert gguf.tokenizer.tokens == TOKENS
    assert gguf.tokenizer.merges == MERGES
    assert gguf.tokenizer.special_ids == {0}
    weights = tiny_gguf.hf_weights()
    assert np.array_equal(gguf.tensors["layers.1.q"], weights["model.layers.1.self_attn.q_proj.weight"])


def test_sharded_folders_are_read(tmp_path: Path) -> None:
    single = folder_of(tmp_path / "single")
    sharded = folder_of(tmp_path / "sharded")
    (sharded / "model.safetensors").unlink()
    weights = tiny_gguf.hf_weights()
    names = sorted(weights)
    shards = {"model-00001-of-00002.safetensors": names[:9], "model-00002-of-00002.safetensors": names[9:]}
    for shard, members in shards.items():
        tiny_gguf.write_safetensors(sharded / shard, {name: weights[name] for name in members})
    weight_map = {name: shard for shard, members in shards.items() for name in members}
    index = sharded / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    assert same(load_checkpoint(single), load_checkpoint(sharded))
    elsewhere: tuple[Any, ...] = ("../single/model.safetensors", "/etc/passwd", "x.bin", 7)
    for place in elsewhere:
        index.write_text(json.dumps({"weight_map": {names[0]: place}}))
        with pytest.raises(ModelError, match="no name of a shard"):
            load_checkpoint(sharded)


def test_half_and_brain_floats_are_widened_exactly(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "hf")
    weights = tiny_gguf.hf_weights()
    halves = {name: array.astype(np.float16) for name, array in weights.items()}
    tiny_gguf.write_safetensors(folder / "model.safetensors", halves)
    found = load_checkpoint(folder).tensors["embed"]
    assert np.array_equal(found, halves["model.embed_tokens.weight"].astype(np.float32))


def test_an_own_head_is_read(tmp_path: Path) -> None:
    raw = tiny_llama()
    head = np.ones((len(TOKENS), tiny_gguf.HIDDEN), np.float32)
    raw.tensors["output.weight"] = tiny_gguf.float_tensor(head)
    checkpoint = load_checkpoint(raw.write(tmp_path / "m.gguf"))
    assert not checkpoint.config.tied
    assert np.array_equal(checkpoint.tensors["head"], head)
    with pytest.raises(KeyError):
        checkpoint.tensors["absent"]


@given(st.integers(1, 4), st.integers(1, 6), st.integers(1, 3))
def test_rotary_reordering_undoes_the_permutation(heads: int, half: int, width: int) -> None:
    rows = np.arange(heads * half * 2 * width, dtype=np.float32).reshape(-1, width)
    assert np.array_equal(to_half_pairs(permuted(rows, heads), heads), rows)


GGUF_CHANGES: dict[str, dict[str, bytes]] = {
    "architecture 'qwen2' is not supported": {"general.architecture": value(STRING, "qwen2")},
    "'llama.block_count' is missing": {"llama.block_count": value(STRING, "2")},
    "layers is 0": {"llama.block_count": value(U32, 0)},
    "'layers.2.attn_norm' is missing": {"llama.block_count": value(U32, 3)},
    "0 attention heads": {"llama.attention.head_count": value(U32, 0)},
    "cannot share": {"llama.attention.head_count_kv": value(U32, 3)},
    "has the shape": {"llama.feed_forward_length": value(U32, 32)},
    "differs from the width": {"llama.rope.dimension_count": value(U32, 4)},
    "experts": {"llama.expert_count": value(U32, 8)},
    "scaled rotary": {"llama.rope.scaling.type": value(STRING, "yarn")},
    "rope_theta": {"llama.rope.freq_base": value(F32, float("nan"))},
    "rms_eps": {"llama.attention.layer_norm_rms_epsilon": value(F32, -1.0)},
    "tokenizer 'llama' is not supported": {"tokenizer.ggml.model": value(STRING, "llama")},
    "pre-tokenizer 'tekken' is not supported": {"tokenizer.ggml.pre": value(STRING, "tekken")},
    "does not list a token": {"tokenizer.ggml.tokens": value(tiny_gguf.ARRAY, (STRING, ["a"]))},
    "no array of strings": {"tokenizer.ggml.merges": value(U32, 1)},
}


@pytest.mark.parametrize("message", GGUF_CHANGES)
def test_unsupported_gguf_models_are_refused(tmp_path: Path, message: str) -> None:
    raw = tiny_llama()
    raw.metadata |= GGUF_CHANGES[message]
    with pytest.raises(ModelError, match=message):
        load_checkpoint(raw.write(tmp_path / "m.gguf"))


@pytest.mark.parametrize("name", ["blk.0.attn_q.bias", "rope_freqs.weight", "blk.0.ffn_gate_exps.weight", "x"])
def test_tensors_without_a_place_are_refused(tmp_path: Path, name: str) -> None:
    raw = tiny_llama()
    raw.tensors[name] = RawTensor((4,), TYPE_F32, bytes(16))
    with pytest.raises(ModelError, match="not supported"):
        load_checkpoint(raw.write(tmp_path / "m.gguf"))


def test_weights_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    raw = tiny_llama()
    raw.tensors["output_norm.weight"] = tiny_gguf.float_tensor(np.full(tiny_gguf.HIDDEN, np.inf, np.float32))
    checkpoint = load_checkpoint(raw.write(tmp_path / "m.gguf"))
    with pytest.raises(ModelError, match="not finite"):
        checkpoint.tensors["norm"]


CONFIG_CHANGES: dict[str, dict[str, Any]] = {
    "model_type 'qwen2' is not supported": {"model_type": "qwen2"},
    "model_type None": {"model_type": None},
    "hidden_act 'gelu'": {"hidden_act": "gelu"},
    "attention_bias True": {"attention_bias": True},
    "hidden_size is missing": {"hidden_size": None},
    "hidden_size is missing or no integer": {"hidden_size": True},
    "num_hidden_layers is missing or no integer": {"num_hidden_layers": "2"},
    "0 attention heads": {"num_attention_heads": 0},
    "scaled rotary": {"rope_scaling": {"rope_type": "llama3", "factor": 8}},
    "rope_scaling is no object": {"rope_scaling": 7},
    "rope_theta is missing or no number": {"rope_theta": "many"},
    "neither true nor false": {"tie_word_embeddings": 1},
    "'head' is missing": {"tie_word_embeddings": False},
    "has the shape": {"intermediate_size": 32},
}


@pytest.mark.parametrize("message", CONFIG_CHANGES)
def test_unsupported_folders_are_refused(tmp_path: Path, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load_checkpoint(folder_of(tmp_path / "hf", **CONFIG_CHANGES[message]))


def test_newer_configurations_and_windows_are_understood(tmp_path: Path) -> None:
    parameters = {"rope_type": "default", "rope_theta": 500000}
    folder = folder_of(tmp_path / "hf", rope_theta=None, rope_parameters=parameters, sliding_window=64)
    config = load_checkpoint(folder).config
    assert (config.rope_theta, config.context) == (500000.0, 64)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_missing_and_damaged_files_are_refused(tmp_path: Path, name: str) -> None:
    folder = folder_of(tmp_path / "hf")
    for damage in (b"", b"[]", b"{", b"[" * 100_000, b'{"a":1,"a":2}', b"\xff\xff\xff\xff\xff\xff\xff\x7f"):
        (folder / name).write_bytes(damage)
        with pytest.raises(ModelError):
            load_checkpoint(folder)
    (folder / name).unlink()
    with pytest.raises(ModelError, match=name):
        load_checkpoint(folder)


def test_pickles_are_never_read(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    with pytest.raises(ModelError, match="never read"):
        load_checkpoint(tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelError, match="no such file"):
        load_checkpoint(tmp_path / "absent")
