"""A tiny byte-level BPE vocabulary, trained on the spot: no network, the same on every machine."""

import re
from collections import Counter
from functools import cache
from itertools import pairwise

from speccompact.text.spec import TokenizerSpec, spell
from speccompact.text.tokenizer import Tokenizer
from speccompact.text.vocabulary import Vocabulary

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")

MISSING_BYTES = (0x04, 0x06, 0x13, 0x1D, 0xC0, 0xC1, 0xF1, 0xF2, *range(0xF5, 0x100))
"""Byte values that no token spells, so that escapes are exercised."""

TRAINING_TEXT = """
The keeper of the lighthouse wrote down the weather every morning, and the ships that passed, and the hour of the
tide. When the lamp was new he wrote that it could be seen from the other side of the bay; when it was old he wrote
nothing about it, and the captains wrote to him instead. There is a story in the village that the last entry says only
that the wind had turned and that he had gone to see where it went.
Der alte Müller stand früh auf, öffnete die Tür und hörte über dem Fluss die Gänse. Für ihn war das ein schöner Tag.
Старый мельник рано встал, открыл дверь и долго слушал, как над рекой кричат гуси. Потом он пошёл на мельницу и стал
работать до самого вечера. Вечером он сидел у окна и писал письмо старому другу, который жил за рекой.
def read(path): return open(path).read()
for index, value in enumerate(values): total += value * index
2024-05-01 10:00:00 INFO server started on port 8080 status=200 time=12 user=admin
"""


@cache
def tiny_spec(merges: int = 220) -> TokenizerSpec:
    """Return the spec: control tokens, single bytes without MISSING_BYTES, then `merges` merged tokens."""
    words = Counter(re.findall(r" ?[^\s\d]+|\s+|\d", TRAINING_TEXT))
    spelled = {tuple(spell(word.encode())): count for word, count in words.items()}
    tokens = [*SPECIAL_TOKENS, *(spell(bytes([value])) for value in range(256) if value not in MISSING_BYTES)]
    pairs: list[str] = []
    for _ in range(merges):
        counts: Counter[tuple[str, str]] = Counter()
        for word, count in spelled.items():
            for pair in pairwise(word):
                counts[pair] += count
        best = max(counts, key=lambda pair: (counts[pair], pair))
        pairs.append(" ".join(best))
        tokens.append("".join(best))
        spelled = {merge_pair(word, best): count for word, count in spelled.items()}
    return TokenizerSpec.build(tokens, pairs, "smollm", range(len(SPECIAL_TOKENS)))


def merge_pair(word: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    parts: list[str] = []
    for part in word:
        if parts and (parts[-1], part) == pair:
            parts[-1] += part
        else:
            parts.append(part)
    return tuple(parts)


@cache
def tiny_vocabulary() -> Vocabulary:
    """Return the vocabulary of `tiny_spec()`."""
    return Vocabulary(tiny_spec().token_bytes())


@cache
def tiny_tokenizer() -> Tokenizer:
    """Return the tokenizer of `tiny_spec()`."""
    return Tokenizer(tiny_spec(), tiny_vocabulary())
