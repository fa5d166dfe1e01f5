"""Files of block drafters: safetensors, with one JSON text of metadata. `write_block` and `read_block` are inverse.

    tokens            (vocabulary + 1, embed) I8    what is read of each token; the last row stands for no token at all
    tokens.scale      (vocabulary + 1,) F32         what each row is multiplied by
    input             (width, window * embed) BF16  oldest symbol first
    layers.{i}.up     (2 * inner, width) BF16       gates, then values
    layers.{i}.down   (width, inner) BF16
    output            (block * rank, width) BF16    position by position
    head              (listed, rank) BF16, head.bias (listed,) BF16
    listed            (listed,) I32                 the tokens that can be drafted, rising
    before            (listed + 1, markov) BF16     the symbol before a position; the last row is for all others
    turn              (rank, markov) BF16           from there to what is added to the position's row of `output`
    trust.*           see `blocknet.Trust`          how likely a draft is right

Floats are exact: what is written is what is read. The file is hostile until proven otherwise.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from speccompact.errors import ModelError
from speccompact.modelstore.safetensors import SafetensorsFile
from speccompact.modelstore.storefiles import write_whole

FORMAT = 1
_KEY = "speccompact.block"
_DTYPES = {"I8": torch.int8, "I32": torch.int32, "F32": torch.float32, "BF16": torch.bfloat16}


_INPUTS = 1 << 16
"""Of a product, at most: sums of so many products of bytes fit int32 (see `blocktiles`)."""

BOUNDS = {
    "vocabulary": (1, 1 << 24),
    "listed": (1, 1 << 20),
    "window": (1, _INPUTS),
    "block": (1, 1 << 10),
    "embed": (1, _INPUTS),
    "width": (1, _INPUTS),
    "inner": (1, _INPUTS),
    "layers": (0, 1 << 10),
    "rank": (1, _INPUTS),
    "markov": (0, _INPUTS),
    "trust": (1, _INPUTS),
}
"""Least and most of each size of a drafter."""


def wrong_size(sizes: Mapping[str, int]) -> str:
    """Return what is wrong with sizes of a drafter, all or most of those in BOUNDS, or "" where nothing is."""
    for name, size in sizes.items():
        least, most = BOUNDS[name]
        if not least <= size <= most:
            return f"{name} is {size}; choose {least} to {most}"
    read = sizes["window"] * sizes["embed"]
    if read > _INPUTS:
        return f"window is {sizes['window']} and embed {sizes['embed']}; choose a product of at most {_INPUTS}"
    return ""


@dataclass(frozen=True, slots=True)
class BlockShape:
    """Sizes of a block drafter.

    Attributes:
        vocabulary: tokens that it can read.
        listed: tokens that it can draft, the most frequent ones.
        window: symbols that it reads, the last of a slot.
        block: positions that it drafts at once.
        embed: numbers that are read of each symbol.
        width: of the layers.
        inner: of the inside of a layer.
        layers: how many.
        rank: of the output head.
        markov: rank of the correction by the symbol before; 0 leaves it out.
        trust: width of what judges how likely a draft is right.
    """

    vocabulary: int
    listed: int
    window: int = 16
    block: int = 8
    embed: int = 128
    width: int = 256
    inner: int = 512
    layers: int = 2
    rank: int = 96
    markov: int = 64
    trust: int = 32

    def tensors(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Return dtype and shape of every tensor of the file."""
        found = {
            "tokens": ("I8", (self.vocabulary + 1, self.embed)),
            "tokens.scale": ("F32", (self.vocabulary + 1,)),
            "input": ("BF16", (self.width, self.window * self.embed)),
            "output": ("BF16", (self.block * self.rank, self.width)),
            "head": ("BF16", (self.listed, self.rank)),
            "head.bias": ("BF16", (self.listed,)),
            "listed": ("I32", (self.listed,)),
            "trust.input": ("F32", (self.trust, self.rank + 1)),
            "trust.bias": ("F32", (self.block, self.trust)),
            "trust.output": ("F32", (self.trust,)),
            "trust.scale": ("F32", (self.block,)),
            "trust.shift": ("F32", (self.block,)),
        }
        for i in range(self.layers):
            found[f"layers.{i}.up"] = ("BF16", (2 * self.inner, self.width))
            found[f"layers.{i}.down"] = ("BF16", (self.width, self.inner))
        if self.markov:
            found["before"] = ("BF16", (self.listed + 1, self.markov))
            found["turn"] = ("BF16", (self.rank, self.markov))
        return found


@dataclass(frozen=True, slots=True)
class BlockWeights:
    """A block drafter as its file holds it.

    Attributes:
        shape: its sizes.
        vocabulary_digest: SHA-256 of the vocabulary that it was made for, hexadecimal.
        tensors: by name; see `BlockShape.tensors`.
    """

    shape: BlockShape
    vocabulary_digest: str
    tensors: dict[str, Tensor]


def write_block(path: Path, weights: BlockWeights) -> None:
    """Write a drafter; the file appears whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    metadata = {"format": FORMAT, "shape": asdict(weights.shape), "vocabulary_digest": weights.vocabulary_digest}
    kept = {
        name: weights.tensors[name].detach().cpu().to(_DTYPES[dtype]).reshape(shape).contiguous()
        for name, (dtype, shape) in weights.shape.tensors().items()
    }
    write_whole(path, partial(save_file, kept, metadata={_KEY: json.dumps(metadata, sort_keys=True)}))


def read_block(path: Path) -> BlockWeights:
    """Read a drafter.

    Raises:
        ModelError: the file cannot be read, is no drafter, or breaks a rule.
    """
    file = SafetensorsFile(path)
    shape, digest = _read_metadata(file)
    wanted = shape.tensors()
    found = {name: (place.dtype, place.shape) for name, place in file.tensors.items()}
    if found != wanted:
        name = min(set(found.items()) ^ set(wanted.items()))[0]
        raise ModelError(f"{path}: damaged drafter: tensor {name!r} does not fit its shape")
    tensors = {}
    for name in wanted:
        values = torch.from_numpy(file.view(name).copy())
        tensors[name] = values.view(torch.bfloat16) if wanted[name][0] == "BF16" else values
        if not tensors[name].isfinite().all():
            raise ModelError(f"{path}: damaged drafter: {name!r} holds values that are not finite")
    listed = tensors["listed"]
    if int(listed[0]) < 0 or int(listed[-1]) >= shape.vocabulary or not (listed[1:] > listed[:-1]).all():
        raise ModelError(f"{path}: damaged drafter: its list of tokens is none")
    return BlockWeights(shape, digest, tensors)


def vocabulary_of(path: Path) -> str:
    """Return the digest of the vocabulary that a drafter was made for, without reading its tensors.

    Raises:
        ModelError: the file cannot be read, or is no drafter.
    """
    return _read_metadata(SafetensorsFile(path))[1]


def _read_metadata(file: SafetensorsFile) -> tuple[BlockShape, str]:
    try:
        metadata: dict[str, Any] = json.loads(file.metadata[_KEY])
        known, sizes, digest = metadata["format"], metadata["shape"], metadata["vocabulary_digest"]
        shape = BlockShape(**sizes)
    except (KeyError, TypeError, ValueError, RecursionError):
        raise ModelError(f"{file.path}: not a block drafter of this release") from None
    if known != FORMAT:
        raise ModelError(f"{file.path}: a block drafter of format {known!r}; this release knows {FORMAT}")
    sizes = asdict(shape)
    if type(digest) is not str or any(type(size) is not int for size in sizes.values()):
        raise ModelError(f"{file.path}: damaged drafter: its metadata make no sense")
    if wrong := wrong_size(sizes):
        raise ModelError(f"{file.path}: damaged drafter: {wrong.partition(';')[0]}")
    return shape, digest
