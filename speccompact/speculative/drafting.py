"""One drafter at work: it is asked before a pass, its drafts are cut to what pays, what came of them is counted."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from speccompact.speculative.controller import MOST_ROWS, Controller
from speccompact.speculative.drafter import NOTHING, Draft, Drafter, Slot, Symbols
from speccompact.speculative.effort import DraftCounts, Effort


class Drafting:
    """A drafter, and what is known of the passes that its drafts went through.

    Each pass is `propose`, the pass itself, `learn`.

    Attributes:
        tried: of the last pass, for each slot the name of the drafter and the length of the draft.
    """

    def __init__(
        self,
        drafter: Drafter,
        name: str,
        controller: Controller | None = None,
        clock: Callable[[], float] = time.perf_counter,
        note: str = "",
    ) -> None:
        """Put a drafter to work.

        Args:
            drafter: whatever it says is made sure to be possible.
            name: under which its drafts are counted.
            controller: cuts drafts; None tries all that is proposed, as far as a pass has room for it.
            clock: seconds.
            note: said with the effort; empty for nothing.
        """
        self._drafter, self._name, self._controller, self._clock = drafter, name, controller, clock
        self._notes = (note,) if note else ()
        self._symbols = 0
        self._drafts: list[Draft] = []
        self._asked = False
        self._began = self._draft_s = self._target_s = self._last_s = 0.0
        self._counts = DraftCounts()
        self.tried: list[tuple[str, int]] = []

    @property
    def effort(self) -> Effort:
        """All so far; passes are not counted here."""
        return Effort(0, self._target_s, self._draft_s, self._counts.acceptance, self._notes)

    def begin(self, capacity: int, symbols: int) -> None:
        """Begin a batch.

        Args:
            capacity: symbols of the longest slot.
            symbols: of the vocabulary, escapes included.
        """
        self._symbols = symbols
        self._drafter.begin(capacity)

    def propose(self, slots: Sequence[Slot], limits: Sequence[int]) -> list[Symbols]:
        """Return for each slot of the next pass the symbols to try, at most so many."""
        began = self._clock()
        self._asked = self._controller is None or self._controller.asks()
        self._drafts = [NOTHING] * len(slots)
        if self._asked:
            self._drafts = self._possible(self._drafter.propose(slots, limits), limits)
            if self._controller is not None:
                self._drafts = self._controller.choose(self._drafts, [limit + 1 for limit in limits])
            self._drafts = _fitting(self._drafts)
        self._began = self._clock()
        self._last_s = self._began - began
        return [draft.symbols for draft in self._drafts]

    def learn(self, slots: Sequence[Slot], settled: Sequence[int], active: int) -> None:
        """Take what the pass settled.

        Args:
            slots: those of `propose`, with the symbols that have been settled.
            settled: how many symbols of each the pass settled: those of its draft that were right, and one more.
            active: slots that are being decoded, also those that wait for others.
        """
        ended = self._clock()
        right = [count - 1 for count in settled]
        self.tried = [(draft.kind or self._name, len(draft)) for draft in self._drafts]
        for (name, size), hits in zip(self.tried, right, strict=True):
            if size:
                self._counts.count(name, size, hits)
        self._drafter.learn(slots, self._drafts, right)
        draft_s = self._last_s + self._clock() - ended
        self._target_s += ended - self._began
        self._draft_s += draft_s
        if self._controller is not None:
            drafted, asking_s = sum(map(len, self._drafts)), draft_s if self._asked else 0.0
            self._controller.learn(len(slots), active, drafted, sum(settled), ended - self._began, asking_s)

    def _possible(self, drafts: Sequence[Draft], limits: Sequence[int]) -> list[Draft]:
        """Cut drafts to their limits, and before the first symbol that there is not; no number is no chance."""
        cut = [draft.cut(limit) for draft, limit in zip(drafts, limits, strict=True)]
        if not np.isfinite(np.concatenate([draft.chances for draft in cut])).all():
            cut = [replace(draft, chances=np.nan_to_num(draft.chances, nan=0.0)) for draft in cut]
        symbols = np.concatenate([draft.symbols for draft in cut])
        if not len(symbols) or (symbols.min() >= 0 and symbols.max() < self._symbols):
            return cut
        known = [(draft.symbols >= 0) & (draft.symbols < self._symbols) for draft in cut]
        return [draft.cut(int(np.append(fine, False).argmin())) for draft, fine in zip(cut, known, strict=True)]


def _fitting(drafts: Sequence[Draft]) -> list[Draft]:
    """Cut drafts to an equal length where all together are too many rows for a pass."""
    sizes = np.array([len(draft) for draft in drafts])
    if sizes.sum() <= MOST_ROWS:
        return list(drafts)
    return [draft.cut(MOST_ROWS // int(np.count_nonzero(sizes))) for draft in drafts]
