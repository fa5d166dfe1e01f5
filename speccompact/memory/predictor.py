"""The one machine that encoder and decoder ask for the distribution of the next symbol.

`intervals` and `find` are inverse: the encoder knows the symbols, the decoder the points in the coded stream. Either
way the predictor is asked for the rows of a slot in the order of their positions and learns what came after each row
before it answers for the next row of that slot; how rows are cut into calls changes nothing. This predictor's
distribution is the target's own, so it has nothing to learn. Several threads may ask at once, for different places.

Modules that provide `cdf` functions (`entropy.cdf`, `entropy.fusedcdf`) are interchangeable bit for bit.
"""

from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from speccompact.entropy import cdf, fusedcdf
from speccompact.entropy.cdf import Tiling
from speccompact.exact import reference
from speccompact.exact.transformer import Transformer

Integers = npt.NDArray[np.int64]

_ROWS = 64
"""Rows whose scores are held at once: 64 rows of 49,152 scores are 12.6 MB."""


class _Cdf(Protocol):
    def intervals(self, scores: Tensor, symbols: Tensor, tiling: Tiling, exp2: Tensor) -> tuple[Tensor, Tensor]: ...

    def find(self, scores: Tensor, points: Tensor, tiling: Tiling, exp2: Tensor) -> tuple[Tensor, Tensor, Tensor]: ...


class Predictor:
    """Distributions straight from the target."""

    def __init__(self, transformer: Transformer, tiling: Tiling) -> None:
        """Bind a transformer to a tiling of the code space."""
        self._transformer, self._tiling = transformer, tiling
        self._cdf: _Cdf = cdf if transformer.kernels is reference else fusedcdf

    def intervals(
        self, places: Integers, hidden: Tensor, scale: Tensor, symbols: Integers
    ) -> tuple[Integers, Integers]:
        """Coding intervals of known symbols.

        Args:
            places: (rows,), the slot of each row; the rows of a slot in the order of their positions.
            hidden: (rows, hidden) int8, from `Transformer.hidden`.
            scale: (rows,) int64.
            symbols: (rows,), the symbol after each row.

        Returns:
            starts and frequencies, (rows,) each.
        """
        device, exp2 = hidden.device, self._transformer.weights.exp2
        wanted = torch.from_numpy(symbols).to(device)
        parts = [
            self._cdf.intervals(self._scores(hidden, scale, i), wanted[i : i + _ROWS], self._tiling, exp2)
            for i in range(0, len(symbols), _ROWS)
        ]
        return _joined([part[0] for part in parts]), _joined([part[1] for part in parts])

    def find(
        self, places: Integers, hidden: Tensor, scale: Tensor, points: Integers
    ) -> tuple[Integers, Integers, Integers]:
        """Symbols at given points of the code space: the inverse of `intervals`.

        Args:
            places, hidden, scale: as above, one row of a slot at most.
            points: (rows,), each in [0, 2**precision).

        Returns:
            symbols, starts and frequencies, (rows,) each.
        """
        device, exp2 = hidden.device, self._transformer.weights.exp2
        wanted = torch.from_numpy(points).to(device)
        parts = [
            self._cdf.find(self._scores(hidden, scale, i), wanted[i : i + _ROWS], self._tiling, exp2)
            for i in range(0, len(points), _ROWS)
        ]
        return _joined([part[0] for part in parts]), _joined([p[1] for p in parts]), _joined([p[2] for p in parts])

    def _scores(self, hidden: Tensor, scale: Tensor, start: int) -> Tensor:
        return self._transformer.scores(hidden[start : start + _ROWS], scale[start : start + _ROWS])


def _joined(parts: list[Tensor]) -> Integers:
    return torch.cat(parts).cpu().numpy()
