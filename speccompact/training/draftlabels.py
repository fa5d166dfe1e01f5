"""Soft labels: what a target expects at each token of some text, its likeliest tokens only, computed once and kept.

    targets     (tokens,) I32         the text, sequence after sequence
    lengths     (sequences,) I32      tokens of each
    symbols     (tokens, top) I32     the target's likeliest tokens, likeliest first, given the text before
    chances     (tokens, top) F16     their probabilities; what is missing to 1 is the rest's

`write_labels` and `read_labels` are inverse. The metadata is one JSON text, see `Origin`.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import save_file
from torch import Tensor

from speccompact.errors import ArgumentError, ModelError
from speccompact.exact.transformer import START_TOKEN
from speccompact.modelstore.safetensors import SafetensorsFile
from speccompact.modelstore.storefiles import write_whole
from speccompact.text.vocabulary import Vocabulary
from speccompact.training.batch import Batch
from speccompact.training.network import Network

_KEY = "speccompact.labels"
_DTYPES = {"targets": "I32", "lengths": "I32", "symbols": "I32", "chances": "F16"}
_ROWS = 256  # whose scores are held at once


@dataclass(frozen=True)
class LabelledBatch(Batch):
    """A batch with what a target expects.

    Attributes:
        symbols: (tokens, top) int64.
        chances: (tokens, top) float32.
    """

    symbols: Tensor
    chances: Tensor


@dataclass(frozen=True, slots=True)
class Origin:
    """What labels were made of.

    Attributes:
        model: fingerprint of the target.
        vocabulary: SHA-256 of its vocabulary, hexadecimal.
        corpus: SHA-256 of the corpus whose text is labelled, hexadecimal.
        settings: how its text was drawn and mixed, and how many tokens are kept of each; JSON.
        conditions: what else may change bits of them, see `provenance.conditions`; JSON.
    """

    model: str
    vocabulary: str
    corpus: str
    settings: dict[str, Any]
    conditions: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Labels:
    """A file of labels.

    Attributes:
        origin: what they were made of.
        tensors: arrays by name, as in the file.
    """

    origin: Origin
    tensors: dict[str, npt.NDArray[Any]]

    @property
    def tokens(self) -> int:
        """Tokens of the text."""
        return len(self.tensors["targets"])


def label(network: Network, batch: Batch, top: int) -> tuple[Tensor, Tensor]:
    """Ask a target about every token of a batch.

    Args:
        network: the target.
        batch: on its device.
        top: likeliest tokens that are kept.

    The network runs in bfloat16, the product with its head in float32: bfloat16 has eighths for a score of 20.

    Returns:
        symbols (tokens, top) int32 and chances (tokens, top) float16, on the CPU.
    """
    found = []
    with torch.no_grad():
        with torch.autocast(batch.inputs.device.type, torch.bfloat16):
            hidden, head = network.hidden(batch, rounding=False)
        turned = head.float().T
        for rows in torch.split(hidden.float(), _ROWS):
            scores = rows @ turned
            best = scores.topk(top)
            chances = (best.values - scores.logsumexp(-1, keepdim=True)).exp()
            found.append((best.indices.int().cpu(), chances.half().cpu()))
    return torch.cat([symbols for symbols, _ in found]), torch.cat([chances for _, chances in found])


def write_labels(path: Path, origin: Origin, parts: Sequence[tuple[Batch, Tensor, Tensor]]) -> None:
    """Write batches with what `label` said of each.

    Raises:
        OSError: the file cannot be written.
    """
    tensors = {
        "targets": torch.cat([batch.targets for batch, _, _ in parts]).int(),
        "lengths": torch.tensor([length for batch, _, _ in parts for length in batch.lengths], dtype=torch.int32),
        "symbols": torch.cat([symbols for _, symbols, _ in parts]),
        "chances": torch.cat([chances for _, _, chances in parts]),
    }
    write_whole(path, partial(save_file, tensors, metadata={_KEY: json.dumps(asdict(origin))}))


def read_labels(path: Path, vocabulary: Vocabulary) -> Labels:
    """Open a file of labels; its arrays stay on disk until they are read.

    Args:
        path: of the file.
        vocabulary: that they must be of.

    Raises:
        ModelError: it cannot be read, is damaged, or of another vocabulary.
        OSError: there is no such file.
    """
    file, origin = _open(path)
    if any(type(text) is not str for text in (origin.model, origin.vocabulary, origin.corpus)):
        raise ModelError(f"{path}: damaged labels: its metadata make no sense")
    if origin.vocabulary != vocabulary.digest().hex():
        raise ModelError(f"{path}: the labels are of another vocabulary; make them with a model that has this one")
    if {name: place.dtype for name, place in file.tensors.items()} != _DTYPES:
        raise ModelError(f"{path}: damaged labels: arrays are missing, or of other types")
    tensors = {name: file.view(name) for name in _DTYPES}
    targets, lengths, symbols, chances = tensors.values()
    count = len(targets)
    fits = targets.ndim == lengths.ndim == 1 and symbols.ndim == 2 and symbols.shape == chances.shape
    if not fits or len(symbols) != count or not symbols.size or int(lengths.sum()) != count or int(lengths.min()) < 1:
        raise ModelError(f"{path}: damaged labels: arrays do not fit together")
    for name in ("targets", "symbols"):
        if int(tensors[name].min()) < 0 or int(tensors[name].max()) >= vocabulary.size:
            raise ModelError(f"{path}: damaged labels: {name} holds tokens that there are not")
    if not (chances.min() >= 0 and chances.max() <= 1):  # NaN is neither
        raise ModelError(f"{path}: damaged labels: chances holds values that are not from 0 to 1")
    return Labels(origin, tensors)


def require_labels(path: Path) -> None:
    """Refuse what is no file of labels, while there is no vocabulary yet to compare it with.

    Raises:
        ModelError: it is none of this release.
        OSError: there is no such file.
    """
    _open(path)


def _open(path: Path) -> tuple[SafetensorsFile, Origin]:
    os.stat(path)
    file = SafetensorsFile(path)
    try:
        return file, Origin(**json.loads(file.metadata[_KEY]))
    except (KeyError, TypeError, ValueError, RecursionError):
        raise ModelError(f"{path}: no file of labels of this release; make one with `train labels`") from None


class LabelStream:
    """Batches of labelled text without end: its sequences in a seeded order, again and again."""

    def __init__(self, labels: Labels, batch: int, micro_batch: int, seed: int, soft: bool = True) -> None:
        """Start at the beginning.

        Args:
            labels: the text.
            batch: tokens of a step, a multiple of `micro_batch`.
            micro_batch: tokens of a batch. The last sequence of each is cut to that, and its rest left out.
            seed: of the order.
            soft: hand out what the target expects; else the text alone, to compare with.

        Raises:
            ArgumentError: there is too little text.
        """
        if labels.tokens < micro_batch:
            raise ArgumentError(f"labels hold {labels.tokens} tokens; {micro_batch} pass the network at once")
        self._labels, self._batch, self._micro_batch, self._seed = labels, batch, micro_batch, seed
        self._soft = soft
        lengths = labels.tensors["lengths"].astype(np.int64)
        self._lengths, self._starts = lengths, np.cumsum(lengths) - lengths
        self._drawn = self._tokens = 0
        self._order: tuple[int, npt.NDArray[np.int64]] | None = None

    def state(self) -> dict[str, Any]:
        """Return where the stream is, as JSON."""
        return {"drawn": self._drawn, "tokens": self._tokens}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where another stream of the same labels and options was."""
        self._drawn, self._tokens = int(state["drawn"]), int(state["tokens"])

    def consumed(self) -> dict[str, int]:
        """Return the tokens that batches have held so far."""
        return {"labels": self._tokens}

    def next_step(self) -> list[Batch]:
        """Return the micro-batches of one step."""
        return [self._next() for _ in range(self._batch // self._micro_batch)]

    def _next(self) -> Batch:
        places, lengths, left = [], [], self._micro_batch
        while left:
            sequence = self._sequence(self._drawn)
            self._drawn += 1
            start, length = int(self._starts[sequence]), min(left, int(self._lengths[sequence]))
            places.append(np.arange(start, start + length))
            lengths.append(length)
            left -= length
        self._tokens += self._micro_batch
        return self.make(np.concatenate(places), tuple(lengths))

    def make(self, rows: npt.NDArray[np.int64], lengths: tuple[int, ...]) -> Batch:
        """Return a batch of rows of the labels.

        Args:
            rows: (tokens,) int64.
            lengths: of its sequences.
        """
        tensors = self._labels.tensors
        targets = torch.from_numpy(tensors["targets"][rows].astype(np.int64))
        inputs = targets.roll(1)
        inputs[torch.tensor([0, *lengths[:-1]]).cumsum(0)] = START_TOKEN
        if not self._soft:
            return Batch(inputs, targets, lengths, 0)
        symbols = torch.from_numpy(tensors["symbols"][rows].astype(np.int64))
        chances = torch.from_numpy(tensors["chances"][rows].astype(np.float32))
        return LabelledBatch(inputs, targets, lengths, 0, symbols, chances)

    def _sequence(self, number: int) -> int:
        """Return which sequence is drawn as a certain number."""
        turn, place = divmod(number, len(self._lengths))
        if self._order is None or self._order[0] != turn:
            self._order = turn, np.random.default_rng([self._seed, turn]).permutation(len(self._lengths))
        return int(self._order[1][place])
