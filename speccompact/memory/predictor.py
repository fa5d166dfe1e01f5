"""The one machine that encoder and decoder ask for the distribution of the next symbol.

`intervals` and `find` are inverse: the encoder knows the symbols, the decoder the points in the coded stream. How rows
are cut into calls changes nothing, and several threads may ask at once about different slots. Without a memory the
distribution is the target's own. With one, scores are adapted, the memory's candidates claim their part of the code
space, and every row leaves a record; rows must then be of the memory's running epoch, see `group`.

Modules that provide `cdf` functions (`entropy.cdf`, `entropy.fusedcdf`) are interchangeable bit for bit.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from speccompact.entropy import cdf, fusedcdf
from speccompact.entropy.cdf import Claims, Tiling
from speccompact.exact import reference
from speccompact.exact.transformer import Transformer
from speccompact.memory.flags import Flags
from speccompact.memory.group import GroupMemory

Integers = npt.NDArray[np.int64]

ROWS = 64
"""Rows whose scores are held at once: 64 rows of 49,152 scores are 12.6 MB."""


class _Cdf(Protocol):
    def weigh(self, scores: Tensor, symbols: Tensor, exp2: Tensor) -> tuple[Tensor, Tensor, Tensor]: ...

    def intervals(
        self, scores: Tensor, symbols: Tensor, tiling: Tiling, exp2: Tensor, claims: Claims
    ) -> tuple[Tensor, Tensor]: ...

    def find(
        self, scores: Tensor, points: Tensor, tiling: Tiling, exp2: Tensor, claims: Claims
    ) -> tuple[Tensor, Tensor, Tensor]: ...


@dataclass(frozen=True, slots=True)
class Asked:
    """Rows whose distribution is wanted.

    Attributes:
        places, positions: (rows,) int64, slot of each row and position of its symbol there.
        hidden: (rows, hidden) int8, from `Transformer.hidden`.
        scale: (rows,) int64.
    """

    places: Integers
    positions: Integers
    hidden: Tensor
    scale: Tensor

    def __len__(self) -> int:
        return len(self.places)

    def slice(self, start: int) -> "Asked":
        """Return at most ROWS rows."""
        part = slice(start, start + ROWS)
        return Asked(self.places[part], self.positions[part], self.hidden[part], self.scale[part])

    def take(self, rows: Integers) -> "Asked":
        """Return (count,) rows."""
        index = torch.from_numpy(rows).to(self.hidden.device)
        return Asked(self.places[rows], self.positions[rows], self.hidden[index], self.scale[index])


@dataclass(frozen=True, slots=True)
class Spread:
    """Distributions of some rows.

    Attributes:
        asked: the rows.
        scores: (rows, vocab) int32.
        claims: of each row.
        flags, total: what the memory will want to know; None without one.
    """

    asked: Asked
    scores: Tensor
    claims: Claims
    flags: Flags | None
    total: Tensor | None

    def take(self, rows: Integers) -> "Spread":
        """Return those of (count,) rows, ascending."""
        if len(rows) == len(self.asked):
            return self
        index = torch.from_numpy(rows).to(self.scores.device)
        return Spread(
            self.asked.take(rows),
            self.scores[index],
            Claims(self.claims.symbols[index], self.claims.sizes[index]),
            None if self.flags is None else self.flags.take(rows),
            None if self.total is None else self.total[index],
        )


class Predictor:
    """Distributions of the target, or of the target and a memory."""

    def __init__(self, transformer: Transformer, tiling: Tiling) -> None:
        """Bind a transformer to a tiling of the code space."""
        self._transformer, self._tiling = transformer, tiling
        self._exp2 = transformer.weights.exp2
        self._cdf: _Cdf = cdf if transformer.kernels is reference else fusedcdf

    def intervals(self, asked: Asked, symbols: Integers, memory: GroupMemory | None) -> tuple[Integers, Integers]:
        """Coding intervals of known symbols.

        Args:
            asked: the rows.
            symbols: (rows,) int64, the symbol of each; a memory must know those before them already.
            memory: of the group.

        Returns:
            starts and frequencies, (rows,) each.
        """
        starts, frequencies = np.empty_like(symbols), np.empty_like(symbols)
        for i in range(0, len(asked), ROWS):
            rows, known = asked.slice(i), symbols[i : i + ROWS]
            spread = self.spread(rows, memory)
            start, frequency = self._cdf.intervals(
                spread.scores, torch.from_numpy(known).to(spread.scores.device), self._tiling, self._exp2, spread.claims
            )
            starts[i : i + ROWS], frequencies[i : i + ROWS] = start.cpu().numpy(), frequency.cpu().numpy()
            self.note(spread, known, memory)
        return starts, frequencies

    def spread(self, asked: Asked, memory: GroupMemory | None) -> Spread:
        """Distributions of rows whose symbols are to be found.

        Args:
            asked: the rows, few enough that all of their scores can be held; a memory must know the symbols before
                each, drafted ones too.
            memory: of the group.
        """
        scores = self._transformer.scores(asked.hidden, asked.scale)
        device = scores.device
        if memory is None:
            return Spread(asked, scores, Claims.none(len(asked), device), None, None)
        memory.adaptation.apply(scores, asked.hidden)
        candidates = memory.candidates(asked.places, asked.positions)
        best, total, weights = self._cdf.weigh(scores, torch.from_numpy(candidates.symbols).to(device), self._exp2)
        flags, sizes = memory.mixer.mix(
            candidates, weights.cpu().numpy(), best.cpu().numpy(), total.cpu().numpy(), self._tiling.mass
        )
        claims = Claims(torch.from_numpy(flags.symbols).to(device), torch.from_numpy(sizes).to(device))
        return Spread(asked, scores, claims, flags, total)

    def find(self, spread: Spread, points: Integers) -> tuple[Integers, Integers, Integers]:
        """Symbols at given points of the code space: the inverse of `intervals`.

        Args:
            spread: distributions of the rows.
            points: (rows,) int64, each in [0, 2**precision).

        Returns:
            symbols, starts and frequencies, (rows,) each.
        """
        wanted = torch.from_numpy(points).to(spread.scores.device)
        found = self._cdf.find(spread.scores, wanted, self._tiling, self._exp2, spread.claims)
        symbols, starts, frequencies = (values.cpu().numpy() for values in found)
        return symbols, starts, frequencies

    def note(self, spread: Spread, symbols: Integers, memory: GroupMemory | None) -> None:
        """Leave the records of rows in the memory, each once, when their symbols are known.

        Args:
            spread: distributions of the rows.
            symbols: (rows,) int64, what came.
            memory: of the group.
        """
        if memory is not None and spread.flags is not None and spread.total is not None:
            asked = spread.asked
            memory.note(asked.places, asked.positions, symbols, spread.flags, asked.hidden, spread.scores, spread.total)
