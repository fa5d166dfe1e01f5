"""What a checkpoint says about its tokenizer, without the library that runs it."""

from collections.abc import Iterable
from dataclasses import dataclass

from speccompact.errors import ModelError

PRE_TOKENIZERS = ("gpt2", "llama3", "qwen2", "smollm")
"""Names of the supported rules that cut a text into words before merging starts."""


def _byte_alphabet() -> tuple[str, ...]:
    """Return the GPT-2 alphabet: the printable character that stands for each of the 256 byte values.

    Bytes that print in Latin-1 stand for themselves; the others take U+0100, U+0101, ... in ascending order.
    """
    printing = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    letters, spare = [], 0x100
    for value in range(256):
        if value in printing:
            letters.append(chr(value))
        else:
            letters.append(chr(spare))
            spare += 1
    return tuple(letters)


BYTE_ALPHABET = _byte_alphabet()
_BYTE_OF = {letter: value for value, letter in enumerate(BYTE_ALPHABET)}


def spell(data: bytes) -> str:
    """Return bytes in the GPT-2 byte alphabet, one character a byte."""
    return "".join(BYTE_ALPHABET[value] for value in data)


def unspell(token: str) -> bytes | None:
    """Return the bytes that a token in the GPT-2 byte alphabet stands for, or None if it is not written in it."""
    values = [_BYTE_OF.get(letter) for letter in token]
    return None if None in values else bytes(value for value in values if value is not None)


@dataclass(frozen=True)
class TokenizerSpec:
    """A byte-level BPE tokenizer as data.

    Invariants (enforced): 1. kind and pre are supported ones. 2. There is at least one token.

    Attributes:
        tokens: token strings in the GPT-2 byte alphabet; the index is the token id.
        merges: "left right" pairs, the most important first.
        pre: how words are cut, one of PRE_TOKENIZERS.
        special_ids: control tokens; no text ever becomes one.
        kind: family of tokenizer; only "byte_level_bpe" exists so far.
    """

    tokens: tuple[str, ...]
    merges: tuple[str, ...]
    pre: str
    special_ids: frozenset[int] = frozenset()
    kind: str = "byte_level_bpe"

    def __post_init__(self) -> None:
        if self.kind != "byte_level_bpe":
            raise ModelError(f'tokenizer kind "{self.kind}" is not supported; only byte_level_bpe is')
        if self.pre not in PRE_TOKENIZERS:
            raise ModelError(f'pre-tokenizer "{self.pre}" is not supported; known are {", ".join(PRE_TOKENIZERS)}')
        if not self.tokens:
            raise ModelError("the tokenizer has no tokens")

    @classmethod
    def build(
        cls, tokens: Iterable[str], merges: Iterable[str], pre: str, special_ids: Iterable[int] = ()
    ) -> "TokenizerSpec":
        """Make a spec from any iterables (lists of a checkpoint, say)."""
        return cls(tuple(tokens), tuple(merges), pre, frozenset(special_ids))

    def token_bytes(self) -> list[bytes]:
        """Return the bytes of every token; b"" for special tokens and for those not written in the alphabet."""
        spelled = (None if index in self.special_ids else unspell(token) for index, token in enumerate(self.tokens))
        return [b"" if data is None else data for data in spelled]
