"""Checkpoints from GGUF files of the llama architecture."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from speccompact.errors import ModelError
from speccompact.modelstore.gguf import GgufFile
from speccompact.modelstore.modelconfig import Checkpoint, LazyTensors, ModelConfig, shortest_float32
from speccompact.text.spec import TokenizerSpec

_PLAIN_NAMES = {"token_embd": "embed", "output_norm": "norm", "output": "head"}
_LAYER_NAMES = {
    "attn_norm": "attn_norm",
    "attn_q": "q",
    "attn_k": "k",
    "attn_v": "v",
    "attn_output": "o",
    "ffn_norm": "ffn_norm",
    "ffn_gate": "gate",
    "ffn_up": "up",
    "ffn_down": "down",
}
_LAYER = re.compile(r"blk\.(0|[1-9][0-9]{0,3})\.([a-z_]+)\.weight")

_PRE = {"smollm": "smollm", "gpt-2": "gpt2", "llama-bpe": "llama3", "llama3": "llama3", "qwen2": "qwen2"}
"""Pre-tokenizers by their GGUF names."""

_NORMAL_TOKEN = 1
"""Token types: 1 is text; all others (unknown, control, user-defined, unused, byte) are never produced."""


def load_gguf(path: Path) -> Checkpoint:
    """Read a GGUF file as a checkpoint.

    Raises:
        ModelError: the file is damaged, or its architecture or tokenizer is not supported.
    """
    file = GgufFile(path)
    fields = _Fields(file)
    arch = fields.text("general.architecture")
    if arch != "llama":
        raise ModelError(f"{path}: architecture {arch!r} is not supported; llama is")
    places = {_canonical_name(name, path): name for name in file.tensors}
    config = _config(fields, tied="head" not in places, vocab=_vocabulary_size(file))

    def load(name: str) -> npt.NDArray[np.float32]:
        tensor = file.tensor(places[name])
        if name.endswith(".q"):
            return to_half_pairs(tensor, config.heads)
        if name.endswith(".k"):
            return to_half_pairs(tensor, config.kv_heads)
        return tensor

    shapes = {name: file.tensors[place].shape for name, place in places.items()}
    tensors = LazyTensors(config, shapes, load, str(path))
    return Checkpoint(config, tensors, _tokenizer(fields, config.vocab))


def to_half_pairs(rows: npt.NDArray[np.float32], heads: int) -> npt.NDArray[np.float32]:
    """Reorder the rows of every head from rotary pairs (2j, 2j + 1) to pairs (j, j + head_dim / 2).

    Args:
        rows: (heads * head_dim, hidden) as llama-architecture GGUF files keep queries and keys.
        heads: heads that the rows hold.

    Returns:
        A new array of the same shape, in the order of Hugging Face checkpoints.
    """
    paired = rows.reshape(heads, -1, 2, rows.shape[1])
    return np.ascontiguousarray(paired.swapaxes(1, 2)).reshape(rows.shape)


class _Fields:
    """Typed access to metadata."""

    def __init__(self, file: GgufFile) -> None:
        self._metadata = file.metadata
        self.path = file.path

    def get(self, key: str) -> Any:
        return self._metadata.get(key)

    def text(self, key: str) -> str:
        value = self.get(key)
        if not isinstance(value, str):
            raise ModelError(f"{self.path}: key {key!r} is missing or no string")
        return value

    def integer(self, key: str, default: int | None = None) -> int:
        value = self._metadata.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ModelError(f"{self.path}: key {key!r} is missing or no integer")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        value = self._metadata.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ModelError(f"{self.path}: key {key!r} is missing or no number")
        return float(value)

    def strings(self, key: str) -> list[str]:
        value = self.get(key)
        if not isinstance(value, list):
            raise ModelError(f"{self.path}: key {key!r} is missing or no array of strings")
        return value


def _canonical_name(name: str, path: Path) -> str:
    layer = _LAYER.fullmatch(name)
    if layer and layer[2] in _LAYER_NAMES:
        return f"layers.{layer[1]}.{_LAYER_NAMES[layer[2]]}"
    if name.endswith(".weight") and name.removesuffix(".weight") in _PLAIN_NAMES:
        return _PLAIN_NAMES[name.removesuffix(".weight")]
    raise ModelError(
        f"{path}: tensor {name!r} is not supported; plain llama models have no biases, experts or scaled rotary tables"
    )


def _vocabulary_size(file: GgufFile) -> int:
    embedding = file.tensors.get("token_embd.weight")
    if embedding is None:
        raise ModelError(f"{file.path}: tensor 'token_embd.weight' is missing")
    return embedding.shape[0]


def _config(fields: _Fields, *, tied: bool, vocab: int) -> ModelConfig:
    hidden, heads = fields.integer("llama.embedding_length"), fields.integer("llama.attention.head_count")
    if heads < 1:
        raise ModelError(f"{fields.path}: {heads} attention heads")
    head_dim = fields.integer("llama.attention.key_length", hidden // heads)
    for key in ("llama.attention.value_length", "llama.rope.dimension_count"):
        if fields.integer(key, head_dim) != head_dim:
            raise ModelError(f"{fields.path}: {key} differs from the width of a head ({head_dim}): not supported")
    if fields.integer("llama.expert_count", 0):
        raise ModelError(f"{fields.path}: mixtures of experts are not supported")
    if fields.get("llama.rope.scaling.type") not in (None, "none"):
        raise ModelError(f"{fields.path}: scaled rotary positions are not supported")
    context = fields.integer("llama.context_length")
    window = fields.integer("llama.attention.sliding_window", 0)
    return ModelConfig(
        arch="llama",
        layers=fields.integer("llama.block_count"),
        hidden=hidden,
        heads=heads,
        kv_heads=fields.integer("llama.attention.head_count_kv", heads),
        head_dim=head_dim,
        ffn=fields.integer("llama.feed_forward_length"),
        vocab=vocab,
        context=min(context, window) if window > 0 else context,
        rope_theta=shortest_float32(fields.number("llama.rope.freq_base", 10000.0)),
        rms_eps=shortest_float32(fields.number("llama.attention.layer_norm_rms_epsilon")),
        tied=tied,
    )


def _tokenizer(fields: _Fields, vocab: int) -> TokenizerSpec:
    model = fields.text("tokenizer.ggml.model")
    if model != "gpt2":
        raise ModelError(f"{fields.path}: tokenizer {model!r} is not supported; byte-level BPE (gpt2) is")
    pre = fields.text("tokenizer.ggml.pre")
    if pre not in _PRE:
        raise ModelError(f"{fields.path}: pre-tokenizer {pre!r} is not supported ({', '.join(_PRE)} are)")
    tokens = fields.strings("tokenizer.ggml.tokens")
    kinds = fields.get("tokenizer.ggml.token_type")
    if len(tokens) != vocab or not isinstance(kinds, np.ndarray) or kinds.shape != (vocab,):
        raise ModelError(f"{fields.path}: the tokenizer does not list a token and a type for each of {vocab} rows")
    special = np.flatnonzero(kinds != _NORMAL_TOKEN).tolist()
    return TokenizerSpec.build(tokens, fields.strings("tokenizer.ggml.merges"), _PRE[pre], special)
