"""The symbols of the coder: vocabulary tokens, then one escape for each byte value that no token spells alone.

Invariants:
    1. Symbols 0 .. V-1 are the token ids of the target; V .. V+E-1 are escapes, in ascending order of their byte
       (enforced).
    2. Every byte value has exactly one byte symbol, so every byte string has a spelling (enforced).
    3. Control tokens have no bytes; an encoder never produces them (assumed).

Reading an archive needs this module and no tokenizer.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from speccompact.errors import ArgumentError, ModelError


class SymbolLengths(Protocol):
    """The one thing that a planner asks of a vocabulary."""

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """(symbols,) bytes of every symbol."""
        ...


class TextEncoder(Protocol):
    """Turns bytes into symbols that join to exactly these bytes; `tokenizer.Tokenizer` is one."""

    @property
    def vocabulary(self) -> SymbolLengths:
        """The symbols that `encode` returns."""
        ...

    def encode(self, data: bytes) -> npt.NDArray[np.int32]:
        """Return (n,) int32 symbols."""
        ...


class Vocabulary:
    """Bytes of every symbol.

    Attributes:
        size: V, the number of tokens.
        symbols: V + E, the number of symbols.
        escapes: byte value -> escape symbol, for the byte values that no token spells alone.
        byte_symbols: (256,) int32, the symbol of every single byte: the lowest such token id, or the escape.
        lengths: (symbols,) int64, bytes of every symbol.
    """

    def __init__(self, token_bytes: Sequence[bytes], special_ids: Iterable[int] = ()) -> None:
        """Number the symbols.

        Args:
            token_bytes: bytes of every token by id; b"" for control tokens.
            special_ids: ids whose bytes are to be ignored (taken as b"").

        Raises:
            ModelError: there is no token.
        """
        if not token_bytes:
            raise ModelError("the vocabulary is empty")
        special = frozenset(special_ids)
        tokens = [b"" if index in special else bytes(data) for index, data in enumerate(token_bytes)]
        self.size = len(tokens)
        self.byte_symbols: npt.NDArray[np.int32] = np.full(256, -1, dtype=np.int32)
        for index in range(self.size - 1, -1, -1):
            if len(tokens[index]) == 1:
                self.byte_symbols[tokens[index][0]] = index
        missing = np.flatnonzero(self.byte_symbols < 0).tolist()
        self.escapes = {value: self.size + rank for rank, value in enumerate(missing)}
        for value, symbol in self.escapes.items():
            self.byte_symbols[value] = symbol
        self.symbols = self.size + len(missing)
        self._tokens = tokens
        spelled = [*tokens, *(bytes([value]) for value in missing)]
        self.lengths: npt.NDArray[np.int64] = np.array([len(data) for data in spelled], dtype=np.int64)
        self._starts = np.cumsum(self.lengths) - self.lengths
        self._pool = np.frombuffer(b"".join(spelled), dtype=np.uint8)

    def token_bytes(self, token: int) -> bytes:
        """Return the bytes of one token id (0 .. size-1)."""
        return self._tokens[token]

    def join(self, symbols: npt.NDArray[np.integer]) -> bytes:
        """Return the bytes that symbols spell.

        Args:
            symbols: (n,) any integer dtype, each 0 .. self.symbols - 1.

        Raises:
            ArgumentError: a symbol is out of range.
        """
        if symbols.size == 0:
            return b""
        if int(symbols.min()) < 0 or int(symbols.max()) >= self.symbols:
            raise ArgumentError(f"a symbol is outside 0 .. {self.symbols - 1}")
        lengths = self.lengths[symbols]
        ends = np.cumsum(lengths)
        # Byte j of the output is byte j - (output start of its symbol) + (pool start of its symbol) of the pool.
        shifts = self._starts[symbols] - (ends - lengths)
        return self._pool[np.repeat(shifts, lengths) + np.arange(int(ends[-1]))].tobytes()

    def holding(self, value: int) -> npt.NDArray[np.bool_]:
        """Return, for every symbol, whether a byte value is among its bytes: (symbols,) bool."""
        return np.array([value in data for data in self._tokens] + [value == byte for byte in self.escapes])

    def spell_bytes(self, data: bytes) -> npt.NDArray[np.int32]:
        """Return the byte symbols of data, one a byte: the spelling that always exists."""
        return self.byte_symbols[np.frombuffer(data, dtype=np.uint8)]

    def digest(self) -> bytes:
        """Return the SHA-256 (32 bytes) of the token bytes: the count, then every length and content.

        Numbers are 32-bit little-endian. Escapes follow from the tokens and are not hashed.
        """
        hasher = hashlib.sha256(self.size.to_bytes(4, "little"))
        for data in self._tokens:
            hasher.update(len(data).to_bytes(4, "little"))
            hasher.update(data)
        return hasher.digest()
