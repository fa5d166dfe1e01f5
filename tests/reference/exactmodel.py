"""EXACT.md section 3: the exact model file, and the bytes of the symbols (FORMAT.md section 6.1)."""

import json
import struct
import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import prod
from operator import mul
from typing import Any

from tests.reference.wire import Refused

ALIGNMENT = 64

TYPES = {"I8": ("b", 1), "U8": ("B", 1), "I16": ("h", 2), "I32": ("i", 4), "U32": ("I", 4)}
"""Letter of `array` and bytes of an entry."""

TABLE_DIGESTS = {
    "exp2": "0d94419093c10cffe13757f71c1a03448da41931dd9ed421b9a5c5a496253cfc",
    "sigmoid": "1ffdfecf5d406e67f752a829ed1928319283063dc2001025005fe0baf3a30a77",
}

Rows = list[Sequence[int]]


@dataclass(frozen=True)
class Matrix:
    """Weight (rows: outputs), channel scales and shifts of a linear map."""

    weight: Rows
    channel: Sequence[int]
    k1: int
    k2: int


@dataclass(frozen=True)
class Layer:
    """The matrices of a layer."""

    qkv: Matrix
    o: Matrix
    gate_up: Matrix
    down: Matrix


@dataclass(frozen=True)
class ExactModel:
    """All that decoding needs of an exact model file; names as in section 3.2."""

    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    positions: int
    embed_shift: int
    norm_gain: int
    norm_epsilon: int
    score_factor: int
    embed: Rows
    exp2: Sequence[int]
    sigmoid: Sequence[int]
    rotary: Rows
    layers: list[Layer]
    head: Matrix
    symbols: list[bytes]
    """Bytes of the tokens, then of the escapes."""

    def vocabulary_digest(self) -> bytes:
        """FORMAT.md section 6.1."""
        pieces = [struct.pack("<I", self.vocab)]
        for token in self.symbols[: self.vocab]:
            pieces += [struct.pack("<I", len(token)), token]
        return sha256(b"".join(pieces)).digest()


class _File:
    """The tensors of a file by name, with the checks of section 3.1."""

    def __init__(self, data: bytes) -> None:
        self._size = int.from_bytes(data[:8], "little")
        self._data = data
        text = data[8 : 8 + self._size]
        try:
            header = json.loads(text.decode("ascii"))
            self.metadata = json.loads(header["__metadata__"]["speccompact"])
            if header.pop("__metadata__").keys() != {"speccompact"}:
                raise Refused("the model file has other metadata")
            self._entries: dict[str, Any] = header
            end = self._check_places()
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise Refused(f"the header of the model file is damaged: {error!r}") from None
        if len(data) != 8 + self._size + end:
            raise Refused("the model file is longer or shorter than its tensors")
        whole = {**header, "__metadata__": {"speccompact": compact_json(self.metadata)}}
        compact = compact_json(whole).encode("ascii")
        if text != compact + b" " * (-(8 + len(compact)) % ALIGNMENT):
            raise Refused("the header of the model file is not written in the one valid way")

    def _check_places(self) -> int:
        """Compare all entries with the only layout that their names, types and shapes allow; return its length."""
        layout: dict[str, Any] = {}
        end = 0
        for name in sorted(name for name in self._entries if not name.startswith("~")):
            dtype, shape = self._entries[name]["dtype"], self._entries[name]["shape"]
            size = prod(shape) * TYPES[dtype][1]
            if size and end % ALIGNMENT:
                fill = -end % ALIGNMENT
                layout[f"~{len(layout)}"] = {"data_offsets": [end, end + fill], "dtype": "U8", "shape": [fill]}
                if any(self._data[8 + self._size + end :][:fill]):
                    raise Refused("the model file has bytes between its tensors")
                end += fill
            layout[name] = {"data_offsets": [end, end + size], "dtype": dtype, "shape": shape}
            end += size
        if layout != self._entries:
            raise Refused("the tensors of the model file are not where they must be")
        return end

    def tensor(self, name: str, dtype: str, *shape: int) -> "array[int]":
        """Return the entries of a tensor in a row. A shape of -1 may be anything."""
        entry = self._entries.get(name, {})
        if entry.get("dtype") != dtype or (shape != (-1,) and entry["shape"] != list(shape)):
            raise Refused(f"the model file has no tensor {name} of type {dtype} and shape {shape}")
        start, end = (8 + self._size + offset for offset in entry["data_offsets"])
        numbers = array(TYPES[dtype][0], self._data[start:end])
        if sys.byteorder == "big":
            numbers.byteswap()
        return numbers

    def rows(self, name: str, dtype: str, rows: int, columns: int) -> Rows:
        flat = self.tensor(name, dtype, rows, columns)
        return [flat[i * columns : (i + 1) * columns] for i in range(rows)]


def read_exact_model(data: bytes) -> ExactModel:
    """Section 3.2 and 3.3."""
    file = _File(data)
    metadata: Mapping[str, Any] = file.metadata
    linears = metadata.get("linears") if isinstance(metadata, dict) else None
    if not isinstance(linears, dict) or not all(isinstance(linear, dict) for linear in linears.values()):
        raise Refused("the model file's metadata have no linears")

    def number(key: str, low: int, high: int) -> int:
        value = metadata.get(key)
        if type(value) is not int or not low <= value <= high:
            raise Refused(f"the model file's {key} is {value!r}, not {low} to {high}")
        return value

    number("exact_version", 1, 1)
    layers = number("layers", 1, 2**24)
    hidden = number("hidden", 1, 8192)
    kv_heads = number("kv_heads", 1, 131_071)
    head_dim = number("head_dim", 2, 256)
    heads = number("heads", kv_heads, 131_071 // head_dim)
    if heads % kv_heads or head_dim % 2:
        raise Refused("the model file's heads do not fit each other")
    ffn, vocab = number("ffn", 1, 131_071), number("vocab", 1, 2**18)
    positions = number("positions", 1, 8192)

    def matrix(name: str, rows: int, columns: int, limit: int = 127) -> Matrix:
        weight = file.rows(f"{name}.weight", "I8", rows, columns)
        channel = file.tensor(f"{name}.channel", "I32", rows)
        return _bounded(name, weight, channel, linears.get(name, {}), limit)

    exp2, sigmoid = file.tensor("exp2", "I32", 4096), file.tensor("sigmoid", "I32", 32768)
    for name, table in (("exp2", exp2), ("sigmoid", sigmoid)):
        if sha256(struct.pack(f"<{len(table)}i", *table)).hexdigest() != TABLE_DIGESTS[name]:
            raise Refused(f"the model file's table {name} is wrong")
    rotary = file.rows("rotary", "I32", positions, head_dim)
    if any(abs(entry) > 2**15 for row in rotary for entry in row):
        raise Refused("the model file's rotary table is out of bounds")
    return ExactModel(
        heads, kv_heads, head_dim, ffn, vocab, positions,
        number("embed_shift", 0, 15),
        number("norm_gain", 0, 2**20 - 1),
        number("norm_epsilon", 0, 2**43 - 1),
        number("score_factor", 0, 2**33),
        file.rows("embed", "I16", vocab, hidden),
        exp2, sigmoid, rotary,
        [
            Layer(
                matrix(f"layers.{i}.qkv", (heads + 2 * kv_heads) * head_dim, hidden),
                matrix(f"layers.{i}.o", hidden, heads * head_dim),
                matrix(f"layers.{i}.gate_up", 2 * ffn, hidden),
                matrix(f"layers.{i}.down", hidden, ffn, 16256),
            )
            for i in range(layers)
        ],
        matrix("head", vocab, hidden),
        _symbol_bytes(file, vocab),
    )  # fmt: skip


def _bounded(name: str, weight: Rows, channel: Sequence[int], linear: Mapping[str, Any], limit: int) -> Matrix:
    """Return a matrix that keeps the bounds of sections 3.3 and 3.4."""
    sums = [sum(map(abs, row)) * limit for row in weight]
    k1, k2 = linear.get("k1"), linear.get("k2")
    if type(k1) is not int or type(k2) is not int or not 0 <= k1 <= 40 or not 1 <= k2 <= 62:
        raise Refused(f"the shifts of {name} are out of bounds")
    acc, inner = max(sums), (max(map(mul, sums, channel)) >> k1) + 1
    if (
        min(min(row) for row in weight) < -127
        or not all(1 <= entry <= 2**20 for entry in channel)
        or acc >= (2**38 if limit == 16256 else 2**31)
        or inner >= 2**31
        or dict(linear) != {"k1": k1, "k2": k2, "acc": acc, "inner": inner}
    ):
        raise Refused(f"the bounds of {name} are broken")
    return Matrix(weight, channel, k1, k2)


def _symbol_bytes(file: _File, vocab: int) -> list[bytes]:
    """Section 3.5."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    alphabet = {chr(byte): byte for byte in printable} | {chr(0x100 + i): byte for i, byte in enumerate(others)}
    text = bytes(file.tensor("tokenizer.tokens", "U8", -1))
    lengths = file.tensor("tokenizer.token_lengths", "U32", vocab)
    special = set(file.tensor("tokenizer.special_ids", "U32", -1))
    if sum(lengths) != len(text):
        raise Refused("the model file's tokens and their lengths do not agree")
    tokens, start = [], 0
    for token, length in enumerate(lengths):
        try:
            string = text[start : start + length].decode("utf-8")
        except UnicodeDecodeError:
            raise Refused(f"token {token} of the model file is not UTF-8") from None
        start += length
        spelt = token not in special and all(character in alphabet for character in string)
        tokens.append(bytes(alphabet[character] for character in string) if spelt else b"")
    alone = set(tokens)
    return tokens + [bytes([byte]) for byte in range(256) if bytes([byte]) not in alone]


def compact_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
