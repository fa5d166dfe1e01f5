"""A tiny Llama for tests: made of integers, the same on every machine, and it knows a few pairs of tokens.

Embeddings are codes of +-1. The output head is fitted to predict from a token's code what follows it in a short text,
by a few steps of gradient ascent in fixed point. Everything between is noise of a fixed size, so that attention, gates
and norms matter without drowning the rest.
"""

import math
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from speccompact.exact.tables import exp2_table
from speccompact.modelstore.exactfile import write_exact_file
from speccompact.modelstore.loading import Target, load_target
from speccompact.modelstore.modelconfig import Checkpoint, ModelConfig
from speccompact.modelstore.quantize import convert
from speccompact.options import Options
from speccompact.text.spec import spell
from speccompact.text.tokenizer import Tokenizer
from tests.source_tree import ROOT
from tests.tiny_text import READING
from tests.tiny_vocabulary import merge_pair, tiny_spec

GOLDEN = ROOT / "tests" / "golden"
TINY_EXACT = GOLDEN / "tiny.exact"
TINY_DIGEST = "35d499fcdc474446fa014526f8c538ee9d60ce5fd145ac16b5bd6ef5eea88193"

CONFIG = ModelConfig(
    arch="llama", layers=2, hidden=48, heads=6, kv_heads=2, head_dim=8, ffn=80, vocab=460, context=2048,
    rope_theta=10000.0, rms_eps=1e-5, tied=False,
)  # fmt: skip
"""48 = 3 * 16 and 80 = 5 * 16: both parts of the converter's rotation have something to do."""

Floats = npt.NDArray[np.float32]

_STEPS, _STEP_SHIFT = 60, 7

_SPREAD = {"q": 1.0, "k": 1.0, "o": 2.0**-6, "down": 2.0**-6}


def integers(seed: int) -> Iterator[int]:
    """Yield 16-bit numbers of a 64-bit linear congruential generator (Knuth's MMIX constants)."""
    state = seed
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        yield state >> 48


def noise(seed: int, shape: tuple[int, ...], scale: float) -> Floats:
    """Return numbers spread evenly over [-scale, scale); scale is a power of two, so that each is exact."""
    source = integers(seed)
    values = [next(source) - 32768 for _ in range(math.prod(shape))]
    return (np.array(values, np.float32) * np.float32(scale / 32768)).reshape(shape)


@cache
def _words() -> tuple[str, ...]:
    return tuple(re.findall(r" ?[^\s\d]+|\s+|\d", READING))


def babble(size: int, seed: int = 0) -> str:
    """Return `size` characters of a walk through the words of the training text: the model's favourite reading."""
    source, words = integers(seed), _words()
    followers: dict[str, list[str]] = {}
    for before, after in pairwise(words):
        followers.setdefault(before, []).append(after)
    text, word = "", words[seed % len(words)]
    while len(text) < size:
        text += word
        choice = followers.get(word, words) if next(source) % 8 else words
        word = choice[next(source) % len(choice)]
    return text[:size]


@cache
def training_tokens() -> tuple[int, ...]:
    """Return the training text in tokens, merged by the rules of `tiny_spec`."""
    spec = tiny_spec()
    numbers = {token: number for number, token in enumerate(spec.tokens)}
    merges = [tuple(merge.split(" ")) for merge in spec.merges]
    tokens: list[int] = []
    for word in _words():
        parts = tuple(spell(word.encode()))
        for left, right in merges:
            parts = merge_pair(parts, (left, right))
        tokens += [numbers[part] for part in parts]
    return tuple(tokens)


@cache
def checkpoint() -> Checkpoint:
    """Return the float model."""
    hidden, vocab = CONFIG.hidden, CONFIG.vocab
    tensors: dict[str, Floats] = {}
    for seed, (name, shape) in enumerate(CONFIG.shapes().items()):
        if len(shape) == 1:
            tensors[name] = 1 + noise(seed, shape, 0.25)
        else:
            tensors[name] = noise(seed, shape, _SPREAD.get(name.rpartition(".")[2], 0.5))
    source = integers(1000)
    codes = np.array([1 - 2 * (next(source) >> 15) for _ in range(vocab * hidden)], np.float32).reshape(vocab, hidden)
    codes[:, 0] = 1
    tensors["embed"] = codes
    tensors["head"] = _fitted_head(codes) / tensors["norm"]
    return Checkpoint(CONFIG, tensors, tiny_spec())


def _fitted_head(codes: Floats) -> Floats:
    """Return a head that gives likely followers high scores: (vocab, hidden), multiples of 2**-16.

    float64 carries the integers of the products: every partial sum is below 2**53.
    """
    before, after = (np.array(part) for part in (training_tokens()[:-1], training_tokens()[1:]))
    inputs = codes[before].astype(np.float64)
    head = np.zeros(codes.shape, np.float64)
    table = exp2_table(12, 16).astype(np.int64)
    for _ in range(_STEPS):
        scores = (inputs @ head.T).astype(np.int64)
        distance = scores.max(1, keepdims=True) - scores
        weights = table[distance >> 4 & 4095] >> np.minimum(distance >> 16, 31)
        surprise = -(weights << 16) // weights.sum(1, keepdims=True)
        surprise[np.arange(len(after)), after] += 1 << 16
        head += np.floor(surprise.T.astype(np.float64) @ inputs * 2.0**-_STEP_SHIFT)
    return (np.rint(head * 45426 * 2.0**-16) * 2.0**-16).astype(np.float32)


def write_tiny(path: Path) -> bytes:
    """Convert the model, write its exact file and return the digest."""
    return write_exact_file(path, *contents())


@cache
def contents() -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return what the converter makes of the model: metadata and tensors. Not to be changed."""
    return convert(checkpoint())


@cache
def tiny(options: Options = Options()) -> tuple[Target, Tokenizer]:  # noqa: B008 - frozen
    """Return the committed model, loaded."""
    return load_target(str(TINY_EXACT), options)
