"""A corpus as chunks by kind, of which only the places are held in memory."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from speccompact.errors import ArgumentError
from speccompact.text.vocabulary import TextEncoder
from speccompact.training.corpusfiles import CorpusFile, read_chunk, scan

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Chunks:
    """Chunks of one kind.

    Attributes:
        folder: where the files are.
        paths: of the files that have chunks of this kind.
        files: (chunks,) int64, index of the file.
        starts, stops: (chunks,) int64, bytes of the file.
    """

    folder: Path
    paths: tuple[str, ...]
    files: Ints
    starts: Ints
    stops: Ints

    def __len__(self) -> int:
        return len(self.files)

    @property
    def content_bytes(self) -> int:
        """Bytes of all chunks together."""
        return int((self.stops - self.starts).sum())

    def read(self, index: int) -> bytes:
        """Read one chunk from its file."""
        path = self.paths[int(self.files[index])]
        return read_chunk(self.folder, path, int(self.starts[index]), int(self.stops[index]))


@dataclass(frozen=True)
class Corpus:
    """What is trained on, and what is measured with.

    Attributes:
        files: all files of the corpus.
        held_files: all files of the folder of held-out text; none where there is no such folder.
        training: chunks by kind.
        held_out: chunks by fine kind; none of them is in `training`.
    """

    files: Sequence[CorpusFile]
    held_files: Sequence[CorpusFile]
    training: Mapping[str, Chunks]
    held_out: Mapping[str, Chunks]

    def digest(self) -> str:
        """SHA-256 over names, sizes and digests of all files of the corpus."""
        return _digest(self.files)

    def held_digest(self) -> str:
        """SHA-256 over names, sizes and digests of all files of the folder of held-out text."""
        return _digest(self.held_files)


def open_corpus(
    folder: Path, held_out: Path | None, tokenizer: TextEncoder, slot_tokens: int, measured_tokens: int | None = None
) -> Corpus:
    """Read a corpus through and say where its chunks are.

    Args:
        folder: the corpus; the first folder of a path is the kind of its text.
        held_out: a folder of the same form that is never trained on. Its kinds replace those held out of the corpus.
        tokenizer: says how many bytes fill a slot.
        slot_tokens: tokens of a slot.
        measured_tokens: the same for `held_out`, so that runs with slots of different length are measured with the same
            text; None for as many.

    Raises:
        ArgumentError: there is nothing to train on or to measure with, or both hold one file.
        OSError: a folder is missing, or a file cannot be read.
    """
    files = scan(folder, tokenizer, slot_tokens, hold_out=True)
    training = _chunks(folder, files, lambda file: file.kind, held=False)
    if not training:
        raise ArgumentError(f"{folder}: too little text to train on once some is held out")
    measured = _chunks(folder, files, lambda file: file.fine_kind, held=True)
    held_files: Sequence[CorpusFile] = ()
    if held_out is not None:
        other = open_held_out(held_out, tokenizer, measured_tokens or slot_tokens)
        held_files = other.files
        _refuse_shared(files, held_files)
        measured |= other.chunks
    if not measured:
        raise ArgumentError(f"{folder}: too little text to hold any out; name some with --held-out")
    return Corpus(files, held_files, training, dict(sorted(measured.items())))


@dataclass(frozen=True)
class HeldOut:
    """Text to measure with, and no other.

    Attributes:
        files: all of them.
        chunks: by fine kind.
    """

    files: Sequence[CorpusFile]
    chunks: Mapping[str, Chunks]

    def digest(self) -> str:
        """SHA-256 over names, sizes and digests of all files."""
        return _digest(self.files)


def open_held_out(folder: Path, tokenizer: TextEncoder, slot_tokens: int) -> HeldOut:
    """Read a folder through of which all is text to measure with; see `open_corpus`.

    Raises:
        ArgumentError: the folder holds nothing.
        OSError: it is missing, or a file cannot be read.
    """
    files = scan(folder, tokenizer, slot_tokens, hold_out=False)
    return HeldOut(files, _chunks(folder, files, lambda file: file.fine_kind, held=False))


def mixture(training: Mapping[str, Chunks], wanted: Mapping[str, float]) -> dict[str, float]:
    """Return the share of every kind in the training tokens: by the square root of its bytes unless wanted otherwise.

    Args:
        training: chunks by kind.
        wanted: weights by kind, where all default ones add up to 1; 0 leaves a kind out.

    Raises:
        ArgumentError: there is no such kind, a weight is negative, or nothing is left.
    """
    for kind, weight in wanted.items():
        if kind not in training:
            raise ArgumentError(f'mix names the kind "{kind}"; the corpus has {", ".join(sorted(training))}')
        if not 0 <= weight < float("inf"):
            raise ArgumentError(f'mix gives "{kind}" the weight {weight}; choose 0 or more')
    total_root = sum(chunks.content_bytes**0.5 for chunks in training.values())
    weights = {
        kind: wanted.get(kind, chunks.content_bytes**0.5 / total_root) for kind, chunks in sorted(training.items())
    }
    total = sum(weights.values())
    if total <= 0:
        raise ArgumentError("mix leaves every kind out")
    return {kind: weight / total for kind, weight in weights.items() if weight > 0}


def _chunks(
    folder: Path, files: Iterable[CorpusFile], kind_of: Callable[[CorpusFile], str], *, held: bool
) -> dict[str, Chunks]:
    """Return the chunks before, or from, the held-out point of each file, by kind; kinds without any are left out."""
    places: dict[str, tuple[list[str], list[int], list[int], list[int]]] = {}
    for file in files:
        paths, indices, starts, stops = places.setdefault(kind_of(file), ([], [], [], []))
        paths.append(file.path)
        for start, stop in zip(file.cuts, file.cuts[1:], strict=False):
            if (start >= file.held_from) == held:
                indices.append(len(paths) - 1)
                starts.append(start)
                stops.append(stop)
    return {
        kind: Chunks(folder, tuple(paths), *(np.array(values, np.int64) for values in rest))
        for kind, (paths, *rest) in sorted(places.items())
        if rest[0]
    }


def _refuse_shared(files: Sequence[CorpusFile], held_files: Sequence[CorpusFile]) -> None:
    seen = {file.sha256: file.path for file in files}
    for file in held_files:
        if file.sha256 in seen:
            raise ArgumentError(f"held_out holds {file.path}, which is also in the corpus, as {seen[file.sha256]}")


def _digest(files: Sequence[CorpusFile]) -> str:
    lines = [[file.path, file.size, file.sha256] for file in files]
    return hashlib.sha256(json.dumps(lines).encode()).hexdigest()
