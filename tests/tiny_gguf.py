"""Writes small GGUF files, right or wrong, for tests."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from speccompact.text.spec import BYTE_ALPHABET

U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
TYPE_F32, TYPE_F16, TYPE_Q8_0 = 0, 1, 8

LAYERS, HIDDEN, HEADS, KV_HEADS, FFN = 2, 32, 4, 2, 64
TOKENS = ("<|endoftext|>", *BYTE_ALPHABET, "th", "the")
MERGES = ("t h", "th e")


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def value(kind: int, content: Any) -> bytes:
    """Return a metadata value with its type in front; an array is (element type, sequence)."""
    return struct.pack("<I", kind) + _bare(kind, content)


def _bare(kind: int, content: Any) -> bytes:
    if kind == STRING:
        return text(content)
    if kind == ARRAY:
        inner, items = content
        return struct.pack("<IQ", inner, len(items)) + b"".join(_bare(inner, item) for item in items)
    return struct.pack({U32: "<I", I32: "<i", F32: "<f", BOOL: "<B"}[kind], content)


@dataclass
class RawTensor:
    """A tensor as the file tells it; shape with the rows first."""

    shape: Sequence[int]
    kind: int
    data: bytes
    offset: int | None = None


@dataclass
class RawGguf:
    """A GGUF file in parts, each of which a test may damage before `build`."""

    metadata: dict[str, bytes] = field(default_factory=dict)
    tensors: dict[str, RawTensor] = field(default_factory=dict)
    magic: bytes = b"GGUF"
    version: int = 3
    tensor_count: int | None = None
    key_count: int | None = None

    def build(self) -> bytes:
        places, body = [], b""
        for name, tensor in self.tensors.items():
            body += bytes(-len(body) % 32)
            offset = len(body) if tensor.offset is None else tensor.offset
            extents = struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *reversed(tensor.shape))
            places.append(text(name) + extents + struct.pack("<IQ", tensor.kind, offset))
            body += tensor.data
        tensor_count = len(self.tensors) if self.tensor_count is None else self.tensor_count
        key_count = len(self.metadata) if self.key_count is None else self.key_count
        head = self.magic + struct.pack("<IQQ", self.version, tensor_count, key_count)
        head += b"".join(text(key) + encoded for key, encoded in self.metadata.items()) + b"".join(places)
        return head + bytes(-len(head) % 32) + body

    def write(self, path: Path) -> Path:
        path.write_bytes(self.build())
        return path


def float_tensor(values: np.ndarray[Any, Any]) -> RawTensor:
    return RawTensor(values.shape, TYPE_F32, np.ascontiguousarray(values, "<f4").tobytes())


def hf_weights(seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    """Return the weights of a tiny llama by their Hugging Face names."""
    random = np.random.default_rng(seed)
    head_dim = HIDDEN // HEADS
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (len(TOKENS), HIDDEN),
        "model.norm.weight": (HIDDEN,),
    }
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        shapes |= {
            prefix + "input_layernorm.weight": (HIDDEN,),
            prefix + "self_attn.q_proj.weight": (HIDDEN, HIDDEN),
            prefix + "self_attn.k_proj.weight": (KV_HEADS * head_dim, HIDDEN),
            prefix + "self_attn.v_proj.weight": (KV_HEADS * head_dim, HIDDEN),
            prefix + "self_attn.o_proj.weight": (HIDDEN, HIDDEN),
            prefix + "post_attention_layernorm.weight": (HIDDEN,),
            prefix + "mlp.gate_proj.weight": (FFN, HIDDEN),
            prefix + "mlp.up_proj.weight": (FFN, HIDDEN),
            prefix + "mlp.down_proj.weight": (HIDDEN, FFN),
        }
    return {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def hf_config() -> dict[str, Any]:
    return {
        "model_type": "llama",
        "num_hidden_layers": LAYERS,
        "hidden_size": HIDDEN,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "intermediate_size": FFN,
        "vocab_size": len(TOKENS),
        "max_position_embeddings": 256,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "hidden_act": "silu",
    }


def hf_tokenizer() -> dict[str, Any]:
    return {
        "added_tokens": [{"id": 0, "content": TOKENS[0], "special": True}],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Digits", "individual_digits": True},
                {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
            ],
        },
        "model": {
            "type": "BPE",
            "vocab": {token: number for number, token in enumerate(TOKENS)},
            "merges": list(MERGES),
        },
    }


def write_safetensors(
    path: Path, tensors: Mapping[str, np.ndarray[Any, Any]], metadata: Mapping[str, str] | None = None
) -> Path:
    from safetensors.numpy import save_file

    save_file(dict(tensors), path, dict(metadata) if metadata else None)
    return path


def gguf_name(name: str) -> str:
    """Translate a Hugging Face tensor name to llama.cpp's."""
    for theirs, ours in {
        "model.embed_tokens": "token_embd",
        "model.norm": "output_norm",
        "model.layers.": "blk.",
        "input_layernorm": "attn_norm",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "post_attention_layernorm": "ffn_norm",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
    }.items():
        name = name.replace(theirs, ours)
    return name


def permuted(rows: np.ndarray[Any, Any], heads: int) -> np.ndarray[Any, Any]:
    """Reorder query or key rows as llama.cpp's converter does: pairs (j, j + half) become (2j, 2j + 1)."""
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)


def tiny_llama(seed: int = 0) -> RawGguf:
    """Return the model of `hf_weights` as llama.cpp would write it."""
    tensors = {}
    for name, weights in hf_weights(seed).items():
        heads = HEADS if "q_proj" in name else KV_HEADS if "k_proj" in name else 0
        tensors[gguf_name(name)] = float_tensor(permuted(weights, heads) if heads else weights)
    metadata = {
        "general.architecture": value(STRING, "llama"),
        "llama.block_count": value(U32, LAYERS),
        "llama.context_length": value(U32, 256),
        "llama.embedding_length": value(U32, HIDDEN),
        "llama.feed_forward_length": value(U32, FFN),
        "llama.attention.head_count": value(U32, HEADS),
        "llama.attention.head_count_kv": value(U32, KV_HEADS),
        "llama.attention.layer_norm_rms_epsilon": value(F32, 1e-5),
        "llama.rope.freq_base": value(F32, 10000.0),
        "tokenizer.ggml.model": value(STRING, "gpt2"),
        "tokenizer.ggml.pre": value(STRING, "smollm"),
        "tokenizer.ggml.tokens": value(ARRAY, (STRING, TOKENS)),
        "tokenizer.ggml.token_type": value(ARRAY, (I32, [3, *[1] * (len(TOKENS) - 1)])),
        "tokenizer.ggml.merges": value(ARRAY, (STRING, MERGES)),
    }
    return RawGguf(metadata, tensors)
