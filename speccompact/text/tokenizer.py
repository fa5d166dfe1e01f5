"""Bytes to symbols, lossless for every byte string.

Tokenizer libraries lose text: they drop what the vocabulary cannot spell, turn invalid UTF-8 into U+FFFD and read
`<|im_start|>` in a text as a control token. Here the bytes that no token spells are vocabulary entries of their own
(the escapes), invalid bytes never reach the library, control tokens are unknown to it, and the result is compared with
the input. A text is tokenised in short chunks, so that the time stays linear and all cores help.

Only encoders need this module; what it returns may differ between releases of the library, never what it means.
"""

import re

import numpy as np
import numpy.typing as npt
import tokenizers
from tokenizers import models, pre_tokenizers

from speccompact.errors import ModelError
from speccompact.text.spec import BYTE_ALPHABET, TokenizerSpec
from speccompact.text.vocabulary import Vocabulary

__all__ = ["Tokenizer", "TokenizerSpec"]

_CHUNK = 8192  # characters; long enough that a chunk's fixed cost does not show
_LOOKBACK = 2048  # characters before the end of a chunk in which a word end is looked for
_INVALID = re.compile("([\udc80-\udcff]+)")
# No rule of any supported pre-tokenizer spans a letter or digit and what follows it here (an apostrophe may).
_WORD_END = re.compile(r"(?<=[^\W_])(?=[^\w'])")

_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _pre_tokenizer(name: str) -> pre_tokenizers.PreTokenizer:
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=name in ("gpt2", "smollm"))
    if name == "gpt2":
        return byte_level
    if name == "smollm":
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    digits = {"llama3": "{1,3}", "qwen2": ""}[name]
    split = pre_tokenizers.Split(tokenizers.Regex(_WORDS % digits), behavior="isolated")
    return pre_tokenizers.Sequence([split, byte_level])


def _byte_level_bpe(spec: TokenizerSpec, vocabulary: Vocabulary) -> tokenizers.Tokenizer:
    """Build the library's tokenizer, with the escapes as vocabulary entries that no merge touches."""
    ids = {token: index for index, token in enumerate(spec.tokens) if len(vocabulary.token_bytes(index)) > 0}
    pairs = []
    for merge in spec.merges:
        left, _, right = merge.partition(" ")
        if left in ids and right in ids and left + right in ids:
            pairs.append((left, right))
    ids |= {BYTE_ALPHABET[value]: symbol for value, symbol in vocabulary.escapes.items()}
    model = models.BPE(vocab=ids, merges=pairs, ignore_merges=spec.pre == "llama3")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = _pre_tokenizer(spec.pre)
    return tokenizer


def _chunks(text: str) -> list[str]:
    """Cut a text into chunks of at most _CHUNK characters, at word ends where there are any."""
    chunks, start = [], 0
    while len(text) - start > _CHUNK:
        stop = start + _CHUNK
        ends = [match.start() for match in _WORD_END.finditer(text, stop - _LOOKBACK, stop)]
        stop = ends[-1] if ends else stop
        chunks.append(text[start:stop])
        start = stop
    chunks.append(text[start:])
    return chunks


class Tokenizer:
    """Turns bytes into symbols of a vocabulary.

    Attributes:
        vocabulary: the symbols that `encode` returns.
    """

    def __init__(self, spec: TokenizerSpec, vocabulary: Vocabulary) -> None:
        """Build the tables (0.1 s for 49,152 tokens).

        Raises:
            ModelError: spec and vocabulary differ in size, or the library refuses the spec.
        """
        if len(spec.tokens) != vocabulary.size:
            raise ModelError(f"the tokenizer has {len(spec.tokens)} tokens, the vocabulary {vocabulary.size}")
        self.vocabulary = vocabulary
        try:
            self._bpe = _byte_level_bpe(spec, vocabulary)
        except Exception as error:  # the library raises bare Exception
            raise ModelError(f"the tokenizer cannot be built: {error}") from error

    def encode(self, data: bytes) -> npt.NDArray[np.int32]:
        """Return (n,) int32 symbols that join to exactly `data`; linear in its length.

        Runs of invalid UTF-8 become byte symbols; valid text around them is tokenised run by run.
        """
        pieces = self._pieces(data)
        batch = self._bpe.encode_batch_fast([text for text, _ in pieces if text], add_special_tokens=False)
        encoded = iter(batch)
        parts = [
            np.array(next(encoded).ids, dtype=np.int32) if text else self.vocabulary.spell_bytes(raw)
            for text, raw in pieces
        ]
        symbols = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int32)
        if self.vocabulary.join(symbols) == data:
            return symbols
        return np.concatenate([self._repaired(part, *piece) for part, piece in zip(parts, pieces, strict=True)])

    def _pieces(self, data: bytes) -> list[tuple[str, bytes]]:
        """Return the data as (valid text, b"") and ("", invalid bytes), in order."""
        text = data.decode("utf-8", "surrogateescape")
        pieces: list[tuple[str, bytes]] = []
        for index, part in enumerate(_INVALID.split(text)):
            if index % 2:
                pieces.append(("", part.encode("utf-8", "surrogateescape")))
            elif part:
                pieces.extend((chunk, b"") for chunk in _chunks(part))
        return pieces

    def _repaired(self, part: npt.NDArray[np.int32], text: str, raw: bytes) -> npt.NDArray[np.int32]:
        """Return the part, or byte symbols where it does not join to its piece."""
        wanted = raw or text.encode("utf-8")
        return part if self.vocabulary.join(part) == wanted else self.vocabulary.spell_bytes(wanted)
