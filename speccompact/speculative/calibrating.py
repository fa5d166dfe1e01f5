"""Chances of a trained drafter, set right as it goes: what it says of itself was learned on other text.

Drafted symbols are told apart by their position and by what was said of them, in steps of a tenth. Each cell averages
over its last trials and leans on what was said where there are few.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from speccompact.speculative.drafter import Draft, Slot

_STEPS: Final = 10

_LEANING: Final = 16.0
"""Trials that what was said counts for."""

_KEPT: Final = 1.0 - 1.0 / 512.0
"""What is left of the weight of older trials of a cell after another one."""

_SUREST: Final = 0.995

Floats = npt.NDArray[np.float64]


class Calibration:
    """What came of the drafts of one drafter, by position and by what was said."""

    def __init__(self, positions: int) -> None:
        """Begin by believing what is said.

        Args:
            positions: of a draft, at most; those beyond count as the last one.
        """
        self._right: Floats = np.zeros((positions, _STEPS))
        self._trials: Floats = np.zeros((positions, _STEPS))
        self._open: dict[int, tuple[int, Draft]] = {}

    def correct(self, slots: Sequence[Slot], drafts: Sequence[Draft]) -> list[Draft]:
        """Return drafts with chances as experience has them, and remember the drafts until `settle`."""
        self._open = {
            slot.key: (len(slot.symbols), draft) for slot, draft in zip(slots, drafts, strict=True) if len(draft)
        }
        return [self._corrected(draft) if len(draft) else draft for draft in drafts]

    def settle(self, slots: Sequence[Slot]) -> None:
        """Hold the drafts of the last `correct` against what has come, also beyond what was tried of them."""
        for slot in slots:
            length, draft = self._open.pop(slot.key, (0, None))
            if draft is None:
                continue
            came = slot.symbols[length : length + len(draft)]
            hits = draft.symbols[: len(came)] == came
            reached = len(hits) if hits.all() else int(hits.argmin()) + 1
            cells = self._cells(draft.chances[:reached])
            self._trials[cells] = self._trials[cells] * _KEPT + 1.0
            self._right[cells] = self._right[cells] * _KEPT + hits[:reached]

    def _corrected(self, draft: Draft) -> Draft:
        cells = self._cells(draft.chances)
        chances = (self._right[cells] + _LEANING * draft.chances) / (self._trials[cells] + _LEANING)
        return Draft(draft.symbols, np.minimum(chances, _SUREST).astype(np.float32), draft.kind)

    def _cells(self, chances: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        positions = np.minimum(np.arange(len(chances)), len(self._right) - 1)
        return positions, np.clip((chances * _STEPS).astype(np.int64), 0, _STEPS - 1)
