"""From the store to a target that can score: everything that compressing and decompressing need of a model."""

import os
from dataclasses import dataclass
from pathlib import Path

from speccompact.errors import ModelError
from speccompact.exact.transformer import Transformer, choose_kernels
from speccompact.exact.weights import load_weights
from speccompact.modelstore import store
from speccompact.modelstore.exactfile import read_exact_file
from speccompact.modelstore.tokenizer_tensors import tokenizer_from_tensors
from speccompact.options import Options
from speccompact.text.tokenizer import Tokenizer
from speccompact.text.vocabulary import Vocabulary

EXACT_SUFFIX = ".exact"


@dataclass(frozen=True)
class Target:
    """A converted model, ready to use.

    Attributes:
        name: for messages.
        digest: SHA-256 of the exact model file.
        vocabulary: bytes of every symbol.
        vocabulary_digest: its SHA-256.
        transformer: the network.
    """

    name: str
    digest: bytes
    vocabulary: Vocabulary
    vocabulary_digest: bytes
    transformer: Transformer

    @property
    def positions(self) -> int:
        """Longest slot (tokens) that the target can hold."""
        return self.transformer.weights.positions


def load_target(wanted: str | bytes, options: Options) -> tuple[Target, Tokenizer]:
    """Load a model, checking its digest.

    Args:
        wanted: a name in the store, the path of an exact model file (it ends in ".exact"), or the first 8 bytes or
            more of a digest.
        options: device and kernels.

    Returns:
        The target, and the tokenizer that cuts text for it.

    Raises:
        ModelMissingError: it is not in the store.
        ModelDamagedError: the file differs from its digest or breaks a rule.
        ModelError: the vocabulary and the network do not fit together.
    """
    if isinstance(wanted, str) and wanted.endswith(EXACT_SUFFIX):
        path, digest, name = Path(wanted), None, os.path.basename(wanted)
        if not path.is_file():
            raise ModelError(f"{wanted}: no such exact model file; `speccompact models list` shows the store")
    else:
        stored = store.find(wanted)
        path, digest = stored.path, stored.digest
        name = stored.names[0] if stored.names else stored.digest.hex()[:16]
    exact = read_exact_file(path, digest)
    weights = load_weights(exact.metadata, exact.tensors, options.device)
    spec = tokenizer_from_tensors(exact.tensors)
    vocabulary = Vocabulary(spec.token_bytes(), spec.special_ids)
    if vocabulary.size != weights.vocab:
        raise ModelError(f"{name}: the network knows {weights.vocab} tokens and the tokenizer {vocabulary.size}")
    transformer = Transformer(weights, choose_kernels(options.kernels, options.device))
    target = Target(name, exact.digest, vocabulary, vocabulary.digest(), transformer)
    return target, Tokenizer(spec, vocabulary)
