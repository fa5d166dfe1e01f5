"""The drafter `hybrid`: for each slot the better of what followed the same symbols before and what a network expects.

Better is what should settle more symbols, by chances that experience has set right. The network is not asked about
slots whose match promises much already, and not at all while what it adds does not pay for its time.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from speccompact.speculative.drafter import NOTHING, Draft, Drafter, Slot, Symbols
from speccompact.speculative.gate import Gate

_ENOUGH: Final = 4.0
"""Expected symbols of a match with which a slot needs no second opinion."""

CHEAP: Final = "suffix"


class HybridDrafter:
    """Asks a cheap drafter about every slot, and a dear one about those that it may help."""

    def __init__(self, cheap: Drafter, dear: Drafter, clock: Callable[[], float] = time.perf_counter) -> None:
        """Put two drafters together.

        Args:
            cheap: takes next to no time.
            dear: takes a time that has to pay; its drafts carry its name.
            clock: seconds.
        """
        self._cheap, self._dear, self._clock = cheap, dear, clock
        self._gate = Gate()
        self._drafts: list[Draft] = []
        self._asked: list[int] = []
        self._others: list[Draft] = []
        self._cost_s = self._proposed_at = 0.0

    def begin(self, capacity: int) -> None:
        """See `Drafter.begin`."""
        self._cheap.begin(capacity)
        self._dear.begin(capacity)

    def propose(self, slots: Sequence[Slot], limits: Sequence[int]) -> list[Draft]:
        """See `Drafter.propose`."""
        self._drafts = [
            Draft(draft.symbols, draft.chances, CHEAP) if len(draft) else draft
            for draft in self._cheap.propose(slots, limits)
        ]
        promised = [expected(draft) for draft in self._drafts]
        self._asked, self._others = [], []
        if self._gate.opens():
            self._asked = [n for n, limit in enumerate(limits) if limit > 0 and promised[n] < _ENOUGH]
        if self._asked:
            began = self._clock()
            self._others = self._dear.propose([slots[n] for n in self._asked], [limits[n] for n in self._asked])
            self._cost_s = self._clock() - began
        chosen = list(self._drafts)
        for n, other in zip(self._asked, self._others, strict=True):
            if expected(other) > promised[n]:
                chosen[n] = other
        self._proposed_at = self._clock()
        return chosen

    def learn(self, slots: Sequence[Slot], drafts: Sequence[Draft], settled: Sequence[int]) -> None:
        """See `Drafter.learn`. What the dear drafter was good for is what its drafts settled beyond the cheap ones."""
        pass_s = self._clock() - self._proposed_at
        dear = [draft.kind != CHEAP for draft in drafts]
        told = list(zip(drafts, settled, dear, strict=True))
        self._cheap.learn(
            slots,
            [NOTHING if other else draft for draft, _, other in told],
            [0 if other else count for _, count, other in told],
        )
        asked, self._asked = self._asked, []
        if not asked:
            return
        more = 0
        for n in asked:
            if dear[n] and len(drafts[n]):
                came = slots[n].symbols[len(slots[n].symbols) - settled[n] - 1 :]
                more += settled[n] - right(self._drafts[n].cut(len(drafts[n])), came)
        self._gate.learn(more * pass_s / (sum(settled) + len(slots)), self._cost_s)
        self._dear.learn(
            [slots[n] for n in asked],
            [drafts[n] if dear[n] else NOTHING for n in asked],
            [settled[n] if dear[n] else 0 for n in asked],
        )


def expected(draft: Draft) -> float:
    """Return how many symbols of a draft should be settled."""
    return float(np.cumprod(draft.chances, dtype=np.float64).sum())


def right(draft: Draft, came: Symbols) -> int:
    """Return how many symbols at the start of a draft are those that came."""
    count = min(len(draft), len(came))
    hits = draft.symbols[:count] == came[:count]
    return count if hits.all() else int(hits.argmin())
