"""From the store to a target that can score: everything that compressing and decompressing need of a model."""

from dataclasses import dataclass

import torch

from speccompact.errors import ArgumentError, ModelError
from speccompact.exact.transformer import Transformer, choose_kernels
from speccompact.exact.weights import Weights, load_weights
from speccompact.modelstore.exactfile import ExactFile, read_exact_file
from speccompact.modelstore.store import locate
from speccompact.modelstore.tokenizer_tensors import tokenizer_from_tensors
from speccompact.options import Options
from speccompact.text.spec import TokenizerSpec
from speccompact.text.tokenizer import Tokenizer
from speccompact.text.vocabulary import Vocabulary


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
        ArgumentError: the device is not there.
        ModelMissingError: it is not in the store.
        ModelDamagedError: the file differs from its digest or breaks a rule.
        ModelError: the vocabulary and the network do not fit together.
    """
    device = check_device(options)
    path, digest, name = locate(wanted)
    exact = read_exact_file(path, digest)
    weights, spec, vocabulary = take_apart(exact, name, device)
    transformer = Transformer(weights, choose_kernels(options.kernels, device))
    target = Target(name, exact.digest, vocabulary, vocabulary.digest(), transformer)
    return target, Tokenizer(spec, vocabulary)


def take_apart(exact: ExactFile, name: str, device: str) -> tuple[Weights, TokenizerSpec, Vocabulary]:
    """Return network, tokenizer and vocabulary of an exact model file, all of it checked.

    Raises:
        ModelDamagedError: it breaks a rule.
        ModelError: the vocabulary and the network do not fit together.
    """
    weights = load_weights(exact.metadata, exact.tensors, device)
    spec = tokenizer_from_tensors(exact.tensors)
    vocabulary = Vocabulary(spec.token_bytes(), spec.special_ids)
    if vocabulary.size != weights.vocab:
        raise ModelError(f"{name}: the network knows {weights.vocab} tokens and the tokenizer {vocabulary.size}")
    return weights, spec, vocabulary


def check_device(options: Options) -> str:
    """Return the device of some options in torch's spelling: "cpu", or "cuda:N".

    Raises:
        ArgumentError: the name is no device, the device is not there, or the kernels cannot run on it.
    """
    try:
        device = torch.device(options.device)
    except RuntimeError:
        raise ArgumentError(f'device is "{options.device}"; choose cpu, cuda or cuda:N') from None
    if device.type == "cpu":
        return "cpu"
    if device.type != "cuda":
        raise ArgumentError(f'device is "{options.device}"; choose cpu, cuda or cuda:N')
    if not torch.cuda.is_available():
        raise ArgumentError(f'device is "{options.device}", but this torch finds no CUDA GPU; choose cpu')
    index = device.index or 0
    if index >= torch.cuda.device_count():
        raise ArgumentError(f'device is "{options.device}", but there are only {torch.cuda.device_count()} GPUs')
    if options.kernels == "numba":
        raise ArgumentError('kernels is "numba", which runs on the CPU only; choose auto or torch for this device')
    return f"cuda:{index}"
