"""One target pass over blocks of proposed symbols, for encoding and decoding alike.

While encoding, the proposal is the text itself, so all of it is right. While decoding it is a draft: the true symbols
are read from the lanes, and the first one that differs from the draft is the correction; what the pass computed beyond
it is dropped, by going on from there (see `exact.cache`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from speccompact.entropy.rans import LaneReader
from speccompact.exact.cache import Cache, Rows, Span
from speccompact.exact.transformer import ESCAPE_INPUT, START_TOKEN, Transformer
from speccompact.memory.group import GroupMemory
from speccompact.memory.predictor import ROWS, Asked, Predictor

Symbols = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Block:
    """Symbols of one slot whose distributions a pass is to compute.

    Attributes:
        place: the slot's place in cache and lanes.
        start: position of the first of them (symbols of the slot before it are settled).
        inputs: (count,) int32, the symbol before each: the last settled one, then the proposal.
        memory: of the frame that the slot belongs to; None where it shares nothing.
        member: the slot's number in that frame.
    """

    place: int
    start: int
    inputs: Symbols
    memory: GroupMemory | None = None
    member: int = 0


def inputs_of(settled: Symbols, proposal: Symbols) -> Symbols:
    """Inputs of a block: what came last (or the start token), then the proposal.

    Args:
        settled: (n,) int32, symbols of the slot so far.
        proposal: (k,) int32, proposed next symbols.

    Returns:
        (1 + k,) int32.
    """
    last = settled[-1:] if len(settled) else np.array([START_TOKEN], dtype=np.int32)
    return np.concatenate([last, proposal])


class Verifier:
    """Runs blocks through the target."""

    def __init__(self, transformer: Transformer, predictor: Predictor, cache: Cache) -> None:
        """Bind a target to what its passes extend and read."""
        self._transformer, self._predictor, self._cache = transformer, predictor, cache

    def read(self, blocks: Sequence[Block]) -> tuple[Tensor, Tensor]:
        """Target pass over known symbols.

        Args:
            blocks: at most one for each place.

        Returns:
            what `Transformer.hidden` returns, block after block.
        """
        return self._run(blocks)

    def room(self, tokens: int) -> tuple[Tensor, Tensor]:
        """Return room for what `read` will return about so many symbols."""
        weights = self._transformer.weights
        hidden = torch.empty(tokens, weights.hidden, dtype=torch.int8, device=weights.embed.device)
        return hidden, torch.empty(tokens, dtype=torch.int64, device=weights.embed.device)

    def encode(
        self, asked: Asked, symbols: Symbols, memory: GroupMemory | None = None
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Coding intervals of known symbols, from rows that `read` returned.

        Args:
            asked: rows, with a memory those of one epoch, their places the slots' numbers in the frame.
            symbols: (rows,) int32, the symbol of each.
            memory: of the frame that all rows belong to.

        Returns:
            starts and frequencies, (rows,) int64 each.
        """
        return self._predictor.intervals(asked, symbols.astype(np.int64), memory)

    def decode(self, blocks: Sequence[Block], lanes: LaneReader) -> list[Symbols]:
        """True symbols of blocks, up to and including the first that differs from the proposal.

        Args:
            blocks: at most one for each place, those of a memory next to each other; with one, none reaches beyond the
                epoch.
            lanes: one symbol for each result is taken.

        Returns:
            For each block its settled symbols, 1 to count of them.
        """
        hidden, scale = self._run(blocks)
        settled: list[Symbols] = []
        first = row = 0
        for stop in _cuts(blocks):
            part = blocks[first:stop]
            rows = slice(row, row + sum(len(block.inputs) for block in part))
            settled += self._find(part, hidden[rows], scale[rows], lanes)
            first, row = stop, rows.stop
        return settled

    def _find(self, blocks: Sequence[Block], hidden: Tensor, scale: Tensor, lanes: LaneReader) -> list[Symbols]:
        """Find the true symbols of some blocks of one memory, or of none.

        The distributions of all rows are computed together, as if the proposals were right; those behind the first
        wrong one of a block are of no use, but the weights of the head were read once for all.
        """
        counts = np.array([len(block.inputs) for block in blocks])
        firsts = np.cumsum(counts) - counts
        offsets = np.arange(counts.sum()) - np.repeat(firsts, counts)
        places = np.array([block.place for block in blocks], dtype=np.int64)
        starts = np.array([block.start for block in blocks], dtype=np.int64)
        inputs = np.concatenate([block.inputs for block in blocks])
        memory = blocks[0].memory
        if memory is not None:
            for block in blocks:
                memory.know(block.member, block.start, block.inputs[1:])
        members = np.array([block.member for block in blocks], dtype=np.int64)
        asked = Asked(np.repeat(members, counts), np.repeat(starts, counts) + offsets, hidden, scale)
        spread = self._predictor.spread(asked, memory)
        came = np.full(len(inputs), -1, dtype=np.int64)
        alive = np.arange(len(blocks))
        for offset in range(int(counts.max())):
            rows = firsts[alive] + offset
            points = lanes.points(places[alive])
            part = spread.take(rows)  # copied once: a row has a score for every token
            came[rows], lows, frequencies = self._predictor.find(part, points)
            self._predictor.note(part, came[rows], memory)
            lanes.advance(places[alive], lows, frequencies)
            goes_on = offset + 1 < counts[alive]
            alive, rows = alive[goes_on], rows[goes_on]
            alive = alive[inputs[rows + 1] == came[rows]]
            if not len(alive):
                break
        return [part[part >= 0].astype(np.int32) for part in np.split(came, firsts[1:])]

    def _run(self, blocks: Sequence[Block]) -> tuple[Tensor, Tensor]:
        rows = Rows.of([Span(block.place, block.start, len(block.inputs)) for block in blocks])
        inputs = np.concatenate([block.inputs for block in blocks]).astype(np.int64)
        inputs[(inputs < 0) | (inputs >= self._transformer.weights.vocab)] = ESCAPE_INPUT
        tokens = torch.from_numpy(inputs).to(self._transformer.weights.embed.device)
        return self._transformer.hidden(tokens, rows, self._cache)


def _cuts(blocks: Sequence[Block]) -> list[int]:
    """Return where to cut blocks, so that a part has one memory and at most ROWS rows, or is a single block."""
    cuts, rows = [], 0
    for index, block in enumerate(blocks):
        rows += len(block.inputs)
        other = index > 0 and block.memory is not blocks[index - 1].memory
        if other or (rows > ROWS and rows > len(block.inputs)):
            cuts.append(index)
            rows = len(block.inputs)
    return [*cuts, len(blocks)]
