"""The stream of training batches: a pure function of the corpus, the options and a small state.

Chunks of a kind come in a seeded order, and none comes again before all have. A sequence is what a slot is to the
codec: a run of tokens that starts from nothing, mostly at the start of a line. Kinds take turns such that their shares
of the tokens stay as wanted. A batch is filled from a pool of sequences; one of them is cut where none fits.
"""

import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from speccompact.errors import ArgumentError
from speccompact.params import MAX_FRAME_SLOTS
from speccompact.text.slots import plan_frame
from speccompact.text.tokenizer import Tokenizer
from speccompact.training.batch import Batch, make_batch
from speccompact.training.corpus import Chunks

STREAM_VERSION = 2
"""Changes whenever the same corpus and options give other batches: a run goes on only where it stayed the same."""

SHORTEST = 64
"""Tokens of the shortest sequences that are drawn on purpose."""

_POOL = 32
"""Sequences that wait: among so many there is one that nearly fills any gap."""

_ORDER, _LENGTH = 0, 1  # what a random stream is for

Symbols = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a corpus becomes batches.

    Attributes:
        length: tokens of a sequence, at most.
        short_share: share of the chunks that are cut into shorter sequences, of a length drawn down to SHORTEST.
        batch: tokens of a step, a multiple of `micro_batch`.
        micro_batch: tokens that pass the network at once; at least `length`.
        seed: of everything random.
    """

    length: int
    short_share: float
    batch: int
    micro_batch: int
    seed: int


@dataclass(frozen=True, slots=True)
class _Piece:
    """Tokens [start, stop) of a slot of a chunk, named so that they can be found again."""

    kind: str
    ordinal: int
    slot: int
    start: int
    stop: int
    symbols: Symbols

    def split(self, count: int) -> tuple["_Piece", "_Piece"]:
        middle = self.start + count
        head = _Piece(self.kind, self.ordinal, self.slot, self.start, middle, self.symbols[:count])
        return head, _Piece(self.kind, self.ordinal, self.slot, middle, self.stop, self.symbols[count:])


class Cutter:
    """Cuts pieces of files into sequences that start as slots do."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Note which tokens end a line."""
        self.vocabulary = tokenizer.vocabulary
        self._tokenizer = tokenizer
        size = self.vocabulary.size
        self._ends_line = np.array([self.vocabulary.token_bytes(token).endswith(b"\n") for token in range(size)])

    def sequences(self, data: bytes, length: int) -> list[Symbols]:
        """Return sequences of at most `length` tokens that spell the text in a piece of a file, in order.

        All but the last of a run of text are as long as they may be, or end with a line up to a sixteenth before. What
        is no text is left out, and so are the bytes that the vocabulary cannot say.
        """
        return [part for run in self._runs(data) for part in self._parts(run, length)]

    def _runs(self, data: bytes) -> Iterator[Symbols]:
        """Yield the symbols of each run of text; the product finds the runs, and their charsets."""
        plan = plan_frame(
            data, final=True, tokenizer=self._tokenizer, slot_tokens=max(16, len(data)), frame_slots=MAX_FRAME_SLOTS
        )
        for slot in plan.slots:
            if slot.symbols is not None:
                yield slot.symbols[slot.symbols < self.vocabulary.size]

    def _parts(self, symbols: Symbols, length: int) -> Iterator[Symbols]:
        while symbols.size > length:
            lines = np.flatnonzero(self._ends_line[symbols[length - length // 16 : length]])
            stop = length - length // 16 + int(lines[-1]) + 1 if lines.size else length
            yield symbols[:stop]
            symbols = symbols[stop:]
        if symbols.size:
            yield symbols


class SequenceStream:
    """Batches without end.

    Attributes:
        tokens: by kind, the tokens of the chunks drawn so far.
    """

    def __init__(
        self, training: Mapping[str, Chunks], shares: Mapping[str, float], cutter: Cutter, sampling: Sampling
    ) -> None:
        """Start at the beginning.

        Args:
            training: chunks by kind.
            shares: of the tokens, by kind; kinds that are missing here are left out.
            cutter: with the target's tokenizer.
            sampling: see there.
        """
        self._training = training
        self._shares = dict(shares)
        self._cutter = cutter
        self._sampling = sampling
        self._draws = dict.fromkeys(shares, 0)
        self._order: dict[str, tuple[int, npt.NDArray[np.int64]]] = {}
        self._pool: list[_Piece] = []
        self.tokens = dict.fromkeys(shares, 0)

    def state(self) -> dict[str, Any]:
        """Return where the stream is, as JSON."""
        pool = [[piece.kind, piece.ordinal, piece.slot, piece.start, piece.stop] for piece in self._pool]
        return {"draws": dict(self._draws), "tokens": dict(self.tokens), "pool": pool}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where another stream of the same corpus and options was; reads the chunks of its pool again."""
        self._draws, self.tokens = dict(state["draws"]), dict(state["tokens"])
        drawn: dict[tuple[str, int], list[Symbols]] = {}
        self._pool = []
        for kind, ordinal, slot, start, stop in state["pool"]:
            if (kind, ordinal) not in drawn:
                drawn[kind, ordinal] = self._sequences(kind, ordinal)
            self._pool.append(_Piece(kind, ordinal, slot, start, stop, drawn[kind, ordinal][slot][start:stop]))

    def consumed(self) -> dict[str, int]:
        """Return by kind the tokens that batches have held so far."""
        waiting = dict.fromkeys(self.tokens, 0)
        for piece in self._pool:
            waiting[piece.kind] += piece.stop - piece.start
        return {kind: count - waiting[kind] for kind, count in self.tokens.items()}

    def next_step(self) -> list[Batch]:
        """Return the micro-batches of one step: exactly `batch` tokens together."""
        sampling = self._sampling
        return [self._micro_batch() for _ in range(sampling.batch // sampling.micro_batch)]

    def _micro_batch(self) -> Batch:
        gap, chosen = self._sampling.micro_batch, []
        while gap:
            while len(self._pool) < _POOL:
                self._draw()
            place = 0  # whatever has waited longest, if it fits; so nothing waits for ever
            if len(self._pool[0].symbols) > gap:
                sizes = [len(piece.symbols) for piece in self._pool]
                fitting = [index for index, size in enumerate(sizes) if size <= gap]
                place = max(fitting, key=lambda index: sizes[index]) if fitting else -1
            if place >= 0:
                piece = self._pool.pop(place)
            else:
                piece, self._pool[0] = self._pool[0].split(gap)
            chosen.append(piece.symbols)
            gap -= len(piece.symbols)
        return make_batch(chosen, self._cutter.vocabulary)

    def _draw(self) -> None:
        """Put the sequences of the next chunk into the pool: of the kind that is furthest behind its share."""
        kind = min(self._shares, key=lambda name: (self.tokens[name] / self._shares[name], name))
        for _ in range(len(self._training[kind])):
            ordinal = self._draws[kind]
            self._draws[kind] += 1
            sequences = self._sequences(kind, ordinal)
            if sequences:
                break
        else:
            raise ArgumentError(f'the corpus holds no text of the kind "{kind}"')
        for slot, symbols in enumerate(sequences):
            self._pool.append(_Piece(kind, ordinal, slot, 0, len(symbols), symbols))
            self.tokens[kind] += len(symbols)

    def _sequences(self, kind: str, ordinal: int) -> list[Symbols]:
        """Return the sequences of the chunk that is drawn as number `ordinal` of its kind."""
        chunks = self._training[kind]
        index = int(self._permutation(kind, ordinal // len(chunks))[ordinal % len(chunks)])
        return self._cutter.sequences(chunks.read(index), self._length(kind, ordinal))

    def _permutation(self, kind: str, epoch: int) -> npt.NDArray[np.int64]:
        known = self._order.get(kind)
        if known is None or known[0] != epoch:
            known = epoch, self._random(kind, epoch, _ORDER).permutation(len(self._training[kind]))
            self._order[kind] = known
        return known[1]

    def _length(self, kind: str, ordinal: int) -> int:
        """Return how long the sequences of a chunk may be; the logarithm of a short length is spread evenly."""
        length = self._sampling.length
        random = self._random(kind, ordinal, _LENGTH)
        if length <= SHORTEST or random.random() >= self._sampling.short_share:
            return length
        return round(SHORTEST * math.exp(random.random() * math.log(length / SHORTEST)))

    def _random(self, kind: str, number: int, purpose: int) -> np.random.Generator:
        return np.random.default_rng([self._sampling.seed, purpose, zlib.crc32(kind.encode(errors="replace")), number])
