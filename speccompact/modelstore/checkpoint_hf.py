"""Checkpoints in folders as the Hugging Face hub keeps them: config.json, tokenizer.json, *.safetensors.

`load_hf_folder` is the inverse of `write_hf_folder`.
"""

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from speccompact.errors import ModelError
from speccompact.modelstore.modelconfig import Checkpoint, LazyTensors, ModelConfig, shortest_float32
from speccompact.modelstore.safetensors import SafetensorsFile, read_json
from speccompact.modelstore.storefiles import commit, temporary, write_whole
from speccompact.modelstore.tokenizer_json import read_tokenizer_json, tokenizer_json

_MODEL_TYPES = ("llama", "mistral")

_PLAIN_NAMES = {"model.embed_tokens.weight": "embed", "model.norm.weight": "norm", "lm_head.weight": "head"}
_LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "q",
    "self_attn.k_proj": "k",
    "self_attn.v_proj": "v",
    "self_attn.o_proj": "o",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "gate",
    "mlp.up_proj": "up",
    "mlp.down_proj": "down",
}
_LAYER = re.compile(r"model\.layers\.(0|[1-9][0-9]{0,3})\.([a-z_.]+)\.weight")
_ROTARY_BUFFER = re.compile(r"model\.layers\.[0-9]+\.self_attn\.rotary_emb\.inv_freq")
"""Old checkpoints carry these tables; they follow from rope_theta."""


def load_hf_folder(folder: Path) -> Checkpoint:
    """Read a folder as a checkpoint.

    Raises:
        ModelError: a file is missing or damaged, or the architecture or the tokenizer is not supported.
    """
    config = _config(read_json(folder / "config.json"), folder)
    places: dict[str, tuple[SafetensorsFile, str]] = {}
    for path in _weight_files(folder):
        file = SafetensorsFile(path)
        for name in file.tensors:
            canonical = _canonical_name(name, path)
            # a tied checkpoint may repeat the embedding as the head; the configuration decides
            if canonical is None or (canonical == "head" and config.tied):
                continue
            if canonical in places:
                raise ModelError(f"{path}: tensor {name!r} appears in two files")
            places[canonical] = (file, name)

    def load(name: str) -> npt.NDArray[np.float32]:
        file, stored = places[name]
        return file.floats(stored)

    shapes = {name: file.tensors[stored].shape for name, (file, stored) in places.items()}
    tensors = LazyTensors(config, shapes, load, str(folder))
    tokenizer = read_tokenizer_json(read_json(folder / "tokenizer.json"), config.vocab, folder / "tokenizer.json")
    return Checkpoint(config, tensors, tokenizer)


def write_hf_folder(folder: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint as a folder; the configuration comes last, so that a folder that has one is whole.

    Args:
        folder: made where it is missing.
        checkpoint: its tensors are written as float32.

    Raises:
        OSError: a file cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    plain = {canonical: name for name, canonical in _PLAIN_NAMES.items()}
    in_layers = {canonical: name for name, canonical in _LAYER_NAMES.items()}
    tensors = {}
    for canonical in checkpoint.config.shapes():
        _, _, rest = canonical.partition("layers.")
        index, _, part = rest.partition(".")
        name = f"model.layers.{index}.{in_layers[part]}.weight" if part else plain[canonical]
        tensors[name] = np.ascontiguousarray(checkpoint.tensors[canonical], np.float32)
    write_whole(folder / "model.safetensors", partial(save_file, tensors, metadata={"format": "pt"}))
    config = checkpoint.config
    described = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_hidden_layers": config.layers,
        "hidden_size": config.hidden,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_dim,
        "intermediate_size": config.ffn,
        "vocab_size": config.vocab,
        "max_position_embeddings": config.context,
        "rms_norm_eps": config.rms_eps,
        "rope_theta": config.rope_theta,
        "tie_word_embeddings": config.tied,
        "hidden_act": "silu",
    }
    for name, content in {"tokenizer.json": tokenizer_json(checkpoint.tokenizer), "config.json": described}.items():
        with temporary(folder) as place:
            place.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", "utf-8")
            commit(place, folder / name)


def _weight_files(folder: Path) -> list[Path]:
    """Return the shards that the index names, or the single file."""
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        single = folder / "model.safetensors"
        if not single.exists():
            raise ModelError(f"{folder}: neither model.safetensors nor model.safetensors.index.json is there")
        return [single]
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise ModelError(f"{index}: no weight_map")
    names = set(weight_map.values()) if all(isinstance(name, str) for name in weight_map.values()) else {""}
    for name in sorted(names):
        # a shard is a plain name beside the index: nothing may lead out of the folder
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\.safetensors", name):
            raise ModelError(f"{index}: {name!r} is no name of a shard")
    return [folder / name for name in sorted(names)]


def _canonical_name(name: str, path: Path) -> str | None:
    """Translate a tensor's name; None for tensors that carry nothing of their own."""
    if name in _PLAIN_NAMES:
        return _PLAIN_NAMES[name]
    layer = _LAYER.fullmatch(name)
    if layer and layer[2] in _LAYER_NAMES:
        return f"layers.{layer[1]}.{_LAYER_NAMES[layer[2]]}"
    if _ROTARY_BUFFER.fullmatch(name):
        return None
    raise ModelError(
        f"{path}: tensor {name!r} is not supported; plain llama models have no biases, norms of queries "
        "and keys, or experts"
    )


def _config(raw: dict[str, Any], folder: Path) -> ModelConfig:
    def fail(what: str) -> ModelError:
        return ModelError(f"{folder / 'config.json'}: {what}")

    def integer(key: str, default: int | None = None) -> int:
        value = raw.get(key)
        value = default if value is None else value
        if type(value) is not int:
            raise fail(f"{key} is missing or no integer")
        return value

    def number(value: Any, key: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise fail(f"{key} is missing or no number")
        return shortest_float32(float(value))

    if raw.get("model_type") not in _MODEL_TYPES:
        raise fail(f"model_type {raw.get('model_type')!r} is not supported ({', '.join(_MODEL_TYPES)} are)")
    for key, wanted in {"hidden_act": "silu", "attention_bias": False, "mlp_bias": False}.items():
        if raw.get(key, wanted) != wanted:
            raise fail(f"{key} {raw[key]!r} is not supported")
    rotary = _rotary(raw, fail)
    hidden, heads = integer("hidden_size"), integer("num_attention_heads")
    if heads < 1:
        raise fail(f"{heads} attention heads")
    context = integer("max_position_embeddings")
    # inside the first window, sliding attention sees everything
    window = integer("sliding_window", context)
    tied = raw.get("tie_word_embeddings", False)
    if not isinstance(tied, bool):
        raise fail("tie_word_embeddings is neither true nor false")
    return ModelConfig(
        arch="llama",
        layers=integer("num_hidden_layers"),
        hidden=hidden,
        heads=heads,
        kv_heads=integer("num_key_value_heads", heads),
        head_dim=integer("head_dim", hidden // heads),
        ffn=integer("intermediate_size"),
        vocab=integer("vocab_size"),
        context=min(context, window),
        rope_theta=number(rotary, "rope_theta"),
        rms_eps=number(raw.get("rms_norm_eps", 1e-6), "rms_norm_eps"),
        tied=tied,
    )


def _rotary(raw: dict[str, Any], fail: Any) -> Any:
    """Return rope_theta; both spellings of the configuration are known, scaled positions are refused."""
    for key in ("rope_scaling", "rope_parameters"):
        section = raw.get(key)
        if section is None:
            continue
        if not isinstance(section, dict):
            raise fail(f"{key} is no object")
        if section.get("rope_type", section.get("type", "default")) != "default":
            raise fail("scaled rotary positions are not supported")
        if "rope_theta" in section:
            return section["rope_theta"]
    return raw.get("rope_theta", 10000.0)
