"""How much of every draft is worth a row of the target pass.

A pass over more rows takes longer and settles more; what counts is symbols per second. So the drafted symbols of all
slots are ranked by the probability that they are settled - the product of the chances up to them - and as many are
taken as make the expected rate highest. Slots wait for each other at the next border, so that a symbol of one that has
far to go is worth more than one of a slot that will wait: to whom a pass is saved, that would be the last one.

An account of the time saved against passes without drafts watches over the estimates: when it is overdrawn, nothing is
drafted and no drafter asked until passes without drafts have made up for it.

None of this reaches the archive: choices may depend on time.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from speccompact.speculative.drafter import Draft
from speccompact.speculative.timing import PassTimes

MOST_ROWS: Final = 1024
"""Rows that drafts add to a pass, at most: as many as an encoding pass has, whose memory is there anyway."""

_ALLOWANCE: Final = 0.01
"""Share of the time of late that drafts may have lost."""

_KEPT: Final = 1.0 - 1.0 / 256.0
"""What is left of older entries of the account after another pass."""

_SPREAD: Final = 0.5
"""By how much slots that have n symbols to go differ in the passes that they will take, in units of sqrt(n)."""

_LEAST: Final = 1e-6
"""A chance of zero would spoil the logarithms."""

Floats = npt.NDArray[np.float64]


class Controller:
    """Decides about the drafts of one drafter.

    Attributes:
        times: what passes take.
    """

    def __init__(self) -> None:
        """Begin without experience."""
        self.times = PassTimes()
        self._saved = self._spent = self._asking = 0.0

    def asks(self) -> bool:
        """Whether the drafter is to be asked before the next pass."""
        return self._saved >= -_ALLOWANCE * self._spent

    def choose(self, drafts: Sequence[Draft], left: Sequence[int]) -> list[Draft]:
        """Cut the drafts of the slots of a pass to what pays.

        Args:
            drafts: for each slot.
            left: for each slot the symbols until it has to wait for others, or ends.
        """
        slots, sizes = len(drafts), [len(draft) for draft in drafts]
        if not any(sizes):
            return list(drafts)
        owners = np.repeat(np.arange(slots), sizes)
        worth = (
            _survival(np.concatenate([draft.chances for draft in drafts]), np.array(sizes))
            * self._worths(np.array(left, np.float64))[owners]
        )
        ranked = np.argsort(-worth, kind="stable")
        gained = slots + np.concatenate([[0.0], np.cumsum(worth[ranked])])
        rates = gained / (self.times.expect(slots, np.arange(len(gained))) + self._asking)
        taken = np.bincount(owners[ranked[: int(rates[: MOST_ROWS + 1].argmax())]], minlength=slots)
        return [draft.cut(size) for draft, size in zip(drafts, taken.tolist(), strict=True)]

    def learn(self, slots: int, active: int, drafted: int, settled: int, pass_s: float, draft_s: float) -> None:
        """Take what a pass took and gave.

        Args:
            slots: slots that took part.
            active: slots that would have taken part without drafts, none being ahead of others.
            drafted: rows beside their own.
            settled: symbols of all of them.
            pass_s: seconds of the pass.
            draft_s: seconds before it that went into drafting, 0 where no drafter was asked.
        """
        pass_s = self.times.learn(slots, drafted, pass_s)
        if draft_s:
            self._asking += (draft_s - self._asking) / 8
        idle = not drafted and slots == active
        plain = pass_s if idle else float(self.times.expect(active, 0)) * settled / active
        self._saved = self._saved * _KEPT + plain - pass_s - draft_s
        self._spent = self._spent * _KEPT + pass_s + draft_s

    def _worths(self, left: Floats) -> Floats:
        """Return what a symbol of each slot is worth, 1 on average.

        A symbol saves its slot's part of a pass in any case, and a pass as far as its slot decides how many there are.
        """
        slots = len(left)
        odds = np.exp((left - left.max()) / (_SPREAD * np.sqrt(left.max())))
        alone = float(self.times.expect(0, 0))
        together = float(self.times.expect(slots, 0))
        worths: Floats = (alone * slots * odds / odds.sum() + together - alone) / together
        return worths


def _survival(chances: npt.NDArray[np.float32], sizes: npt.NDArray[np.int64]) -> Floats:
    """Return the products of chances within each draft, draft after draft."""
    sums = np.cumsum(np.log(np.clip(chances, _LEAST, 1.0, dtype=np.float64)))
    before = np.concatenate([[0.0], sums])[np.cumsum(sizes) - sizes]
    survival: Floats = np.exp(sums - np.repeat(before, sizes))
    return survival
