"""A tokenizer as tensors of an exact model file, so that compressing needs no other file.

Strings are kept as UTF-8, one after the other, with their lengths beside them:

    tokenizer.tokens           (bytes,) uint8      token strings in the GPT-2 byte alphabet, by token id
    tokenizer.token_lengths    (tokens,) uint32    bytes of each
    tokenizer.merges           (bytes,) uint8      "left right", the most important first
    tokenizer.merge_lengths    (merges,) uint32
    tokenizer.special_ids      (special,) uint32   ascending
    tokenizer.kind             (bytes,) uint8      kind and pre-tokenizer, "byte_level_bpe smollm"
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from speccompact.errors import ModelDamagedError, ModelError
from speccompact.text.spec import TokenizerSpec

_PREFIX = "tokenizer."

Tensor = npt.NDArray[Any]


def tokenizer_to_tensors(spec: TokenizerSpec) -> dict[str, Tensor]:
    """Return a tokenizer as tensors, for `exactfile.write_exact_file`."""
    tokens, token_lengths = _pack(spec.tokens)
    merges, merge_lengths = _pack(spec.merges)
    tensors = {
        "tokens": tokens,
        "token_lengths": token_lengths,
        "merges": merges,
        "merge_lengths": merge_lengths,
        "special_ids": np.array(sorted(spec.special_ids), np.uint32),
        "kind": np.frombuffer(f"{spec.kind} {spec.pre}".encode(), np.uint8),
    }
    return {_PREFIX + name: tensor for name, tensor in tensors.items()}


def tokenizer_from_tensors(tensors: Mapping[str, Tensor]) -> TokenizerSpec:
    """Return the tokenizer that `tokenizer_to_tensors` packed.

    Raises:
        ModelDamagedError: a tensor is missing, or the tensors contradict one another.
    """

    def get(name: str, dtype: type[np.generic]) -> Tensor:
        tensor = tensors.get(_PREFIX + name)
        if tensor is None or tensor.dtype != dtype or tensor.ndim != 1:
            raise ModelDamagedError(f"the model file has no usable tensor {_PREFIX + name!r}")
        return tensor

    tokens = _unpack(get("tokens", np.uint8), get("token_lengths", np.uint32))
    merges = _unpack(get("merges", np.uint8), get("merge_lengths", np.uint32))
    special = [int(number) for number in get("special_ids", np.uint32)]
    kind, _, pre = _decode(get("kind", np.uint8).tobytes()).partition(" ")
    if any(number >= len(tokens) for number in special):
        raise ModelDamagedError("the model file names special tokens that do not exist")
    try:
        return TokenizerSpec(tuple(tokens), tuple(merges), pre, frozenset(special), kind)
    except ModelError as error:
        raise ModelDamagedError(str(error)) from error


def _pack(strings: Sequence[str]) -> tuple[Tensor, Tensor]:
    encoded = [string.encode() for string in strings]
    return np.frombuffer(b"".join(encoded), np.uint8), np.array([len(piece) for piece in encoded], np.uint32)


def _unpack(data: Tensor, lengths: Tensor) -> list[str]:
    ends = np.cumsum(lengths, dtype=np.uint64).tolist()
    joined = data.tobytes()
    if (ends[-1] if ends else 0) != len(joined):
        raise ModelDamagedError("the lengths of the tokenizer's strings do not add up")
    return [_decode(joined[start:end]) for start, end in zip([0, *ends[:-1]], ends, strict=False)]


def _decode(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ModelDamagedError("a string of the tokenizer is not UTF-8") from None
