"""The memory of a group of frames: what followed which context, how to mix that, how the output layer is adapted.

Slots of a frame are coded side by side, in epochs of positions. Within an epoch everything here only is read, and every
position leaves a record; at its border, when all slots have come so far or ended, the records of all are learned from.
So a distribution depends on the slot's own symbols before it and on what all slots held before the epoch: never on the
order in which rows are computed, on threads, or on drafts. A frame goes on with what the frame before it left.

`begin` a frame; ask about rows of the running epoch and `note` what came; `close` the epoch at its `border`; go on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from torch import Tensor

from speccompact.exact.weights import Weights
from speccompact.memory import candidates, contexts
from speccompact.memory.adaptation import ENTRIES, HeadAdaptation, gradients
from speccompact.memory.candidates import Candidates
from speccompact.memory.contexts import ContextTable
from speccompact.memory.flags import Flags
from speccompact.memory.mixer import Mixer

EPOCH: Final = 16
"""Positions of an epoch, once a frame is under way."""

_FIRST_BORDERS: Final = (1, 2, 3, 4, 6, 8, 12)
"""At its start a frame knows nothing of its slots, so its first epochs are short."""

Integers = npt.NDArray[np.int64]


def next_border(position: int) -> int:
    """Return the position that ends the epoch of a position."""
    for border in _FIRST_BORDERS:
        if position < border:
            return border
    return (position // EPOCH + 1) * EPOCH


@dataclass(frozen=True, slots=True)
class _Records:
    """What the positions of an epoch leave behind, EPOCH rows for each slot.

    Attributes:
        known: (rows,) bool, whether the position was coded.
        symbols: (rows,) int64, what came.
        flags: of each.
        inputs: (rows, hidden) int8, of the head.
        entries, sizes: gradients, see `HeadAdaptation.learn`.
    """

    known: npt.NDArray[np.bool_]
    symbols: Integers
    flags: Flags
    inputs: npt.NDArray[np.int8]
    entries: npt.NDArray[np.int32]
    sizes: Integers

    @classmethod
    def empty(cls, slots: int, hidden: int) -> "_Records":
        rows = slots * EPOCH
        return cls(
            np.zeros(rows, np.bool_),
            np.zeros(rows, np.int64),
            Flags.empty(rows),
            np.empty((rows, hidden), np.int8),
            np.empty((rows, ENTRIES, 2), np.int32),
            np.zeros(rows, np.int64),
        )


class GroupMemory:
    """State of a group, and of the frame that is being coded. Several threads may ask about different slots at once.

    Attributes:
        border: positions below it belong to the running epoch or to earlier ones.
        adaptation: of the output layer.
        mixer: how candidates are mixed.
    """

    def __init__(
        self,
        weights: Weights,
        line_ends: npt.NDArray[np.bool_],
        log2_table: npt.NDArray[np.int32],
        table_bits: int,
    ) -> None:
        """Begin a group.

        Args:
            weights: of the target.
            line_ends: (symbols,) bool, whether a symbol holds a line end.
            log2_table: see `logodds`.
            table_bits: log2 of the entries of the table of contexts.
        """
        self._exp2 = weights.exp2
        self._line_ends = line_ends
        self._table = ContextTable.empty(table_bits)
        self._width = weights.hidden
        self._symbols = np.zeros((0, 0), np.int32)
        self._records = _Records.empty(0, self._width)
        self._start = self.border = 0
        self.mixer = Mixer(log2_table, weights.exp2.cpu().numpy())
        self.adaptation = HeadAdaptation(weights.vocab, weights.hidden, weights.exp2.device)

    def begin(self, lengths: Sequence[int]) -> None:
        """Begin a frame.

        Args:
            lengths: symbols of each slot.
        """
        self._symbols = np.zeros((len(lengths), max(lengths)), np.int32)
        self._records = _Records.empty(len(lengths), self._width)
        self._start, self.border = 0, next_border(0)

    def know(self, place: int, start: int, symbols: npt.NDArray[np.int32]) -> None:
        """Take symbols of a slot, before anything is asked that comes after them."""
        self._symbols[place, start : start + len(symbols)] = symbols

    def candidates(self, places: Integers, positions: Integers) -> Candidates:
        """Return what the contexts know about rows of the epoch.

        Args:
            places, positions: (rows,) int64.
        """
        return candidates.collect(self._symbols, places, positions, self._line_ends, self._table, self.mixer.odds)

    def note(
        self,
        places: Integers,
        positions: Integers,
        symbols: Integers,
        flags: Flags,
        hidden: Tensor,
        scores: Tensor,
        total: Tensor,
    ) -> None:
        """Leave the records of rows whose symbols are known now.

        Args:
            places, positions: (rows,) int64.
            symbols: (rows,) int64, what came.
            flags: of these rows.
            hidden: (rows, hidden) int8.
            scores: (rows, vocab) int32, with the adaptation.
            total: (rows,) int64, sum of the weights of all tokens.
        """
        records, rows = self._records, places * EPOCH + (positions - self._start)
        self._symbols[places, positions] = symbols
        records.symbols[rows] = symbols
        records.flags.put(rows, flags)
        records.inputs[rows] = hidden.cpu().numpy()
        records.entries[rows], records.sizes[rows] = gradients(scores, symbols, total, self._exp2)
        records.known[rows] = True

    def close(self) -> None:
        """End the epoch: learn from all of its rows, slot after slot, each in the order of its positions."""
        records, rows = self._records, self._records.known.nonzero()[0]
        self.mixer.learn(records.flags.take(rows), records.symbols[rows])
        self.adaptation.learn(records.inputs[rows], records.entries[rows], records.sizes[rows])
        contexts.remember(self._table, self._symbols, rows // EPOCH, self._start + rows % EPOCH, self._line_ends)
        records.known[:] = False
        self._start, self.border = self.border, next_border(self.border)
