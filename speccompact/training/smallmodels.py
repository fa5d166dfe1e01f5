"""Small models to begin with: some layers of a model, or one of random numbers, with the tokenizer of that model."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from speccompact.errors import ArgumentError
from speccompact.modelstore.modelconfig import Checkpoint, LazyTensors, ModelConfig

_LAYER = re.compile(r"layers\.([0-9]+)\.(.+)")
_EMBED_DEVIATION = 0.5

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of a model that is made anew.

    Attributes:
        layers: how many.
        hidden: width of the residual.
        heads: of attention; each is hidden / heads wide.
        ffn: width inside the feed-forward part.
    """

    layers: int
    hidden: int
    heads: int
    ffn: int

    @staticmethod
    def parse(text: str) -> "Sizes":
        """Read LAYERS,HIDDEN,HEADS,FFN.

        Raises:
            ArgumentError: it is something else.
        """
        numbers = text.split(",")
        if len(numbers) != 4 or not all(number.isascii() and number.isdecimal() for number in numbers):
            raise ArgumentError(f'new is "{text}"; write it as LAYERS,HIDDEN,HEADS,FFN')
        sizes = Sizes(*map(int, numbers))
        if not sizes.heads or sizes.hidden % (2 * sizes.heads):
            raise ArgumentError(f'new is "{text}"; HIDDEN must be a multiple of twice HEADS')
        return sizes


def parse_layers(text: str, layers: int) -> list[int]:
    """Read numbers of layers, from 0 on, with commas: single ones, and A-B for all from A to B.

    Raises:
        ArgumentError: it is something else, or the model has fewer layers.
    """
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        ends = [first, last] if dash else [first]
        if not all(end.isascii() and end.isdecimal() and len(end) < 5 for end in ends):
            raise ArgumentError(f'layers is "{text}"; write numbers and ranges, as in 0-3,8')
        found += range(int(ends[0]), int(ends[-1]) + 1)
    if not found or max(found) >= layers:
        raise ArgumentError(f'layers is "{text}"; the model has the layers 0 to {layers - 1}')
    return found


def keep_layers(checkpoint: Checkpoint, layers: Sequence[int]) -> Checkpoint:
    """Return a model of some layers of another, in the order given; tensors are those of the other."""
    config = replace(checkpoint.config, layers=len(layers))

    def load(name: str) -> Floats:
        match = _LAYER.fullmatch(name)
        return checkpoint.tensors[f"layers.{layers[int(match[1])]}.{match[2]}" if match else name]

    return Checkpoint(config, LazyTensors(config, config.shapes(), load, "layers"), checkpoint.tokenizer)


def make_new(checkpoint: Checkpoint, sizes: Sizes, seed: int) -> Checkpoint:
    """Return a model of random numbers with the tokenizer, the context and the constants of another.

    Weights are normal with a variance of 1 / inputs, those that write to the residual smaller by the square root of
    twice the layers (as GPT-2 begins; Radford et al., 2019).
    """
    config = ModelConfig(
        arch="llama",
        layers=sizes.layers,
        hidden=sizes.hidden,
        heads=sizes.heads,
        kv_heads=sizes.heads,
        head_dim=sizes.hidden // sizes.heads,
        ffn=sizes.ffn,
        vocab=checkpoint.config.vocab,
        context=checkpoint.config.context,
        rope_theta=checkpoint.config.rope_theta,
        rms_eps=checkpoint.config.rms_eps,
        tied=False,
    )
    random = np.random.default_rng(seed)
    tensors = {name: _first(name, shape, config, random) for name, shape in config.shapes().items()}
    return Checkpoint(config, tensors, checkpoint.tokenizer)


def trained(checkpoint: Checkpoint, tensors: Mapping[str, Floats]) -> Checkpoint:
    """Return a checkpoint with other tensors; its output head is one of its own."""
    return Checkpoint(replace(checkpoint.config, tied=False), tensors, checkpoint.tokenizer)


def _first(name: str, shape: tuple[int, ...], config: ModelConfig, random: np.random.Generator) -> Floats:
    if len(shape) == 1:
        return np.ones(shape, np.float32)
    deviation = _EMBED_DEVIATION if name == "embed" else shape[1] ** -0.5
    if name.endswith((".o", ".down")):
        deviation /= (2 * config.layers) ** 0.5
    return random.standard_normal(shape, np.float32) * np.float32(deviation)
