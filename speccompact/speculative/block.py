"""The drafter `block`: a small network that drafts a block of symbols for all slots in one forward pass."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from speccompact.errors import ModelError
from speccompact.parallel import Workers
from speccompact.speculative import blockkernel
from speccompact.speculative.blockfile import BlockWeights
from speccompact.speculative.blockkernel import BlockKernel
from speccompact.speculative.blocknet import BlockNet
from speccompact.speculative.calibrating import Calibration
from speccompact.speculative.drafter import NOTHING, Draft, Slot
from speccompact.text.vocabulary import Vocabulary

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

FLOOR = 0.02
"""Chance below which a position is not worth its time, even where rows of a target pass cost nothing."""

KIND = "block"

_SHARE = 8
"""Slots for which another thread is worth while."""


class BlockDrafter:
    """Drafts by a network; of slots it remembers nothing but what came of its last drafts."""

    def __init__(
        self, weights: BlockWeights, vocabulary: Vocabulary, floor: float = FLOOR, workers: Workers | None = None
    ) -> None:
        """Make the network ready.

        Args:
            weights: trained for this vocabulary.
            vocabulary: that of the target.
            floor: positions that are reached with less than this chance are not drafted.
            workers: share the slots, where the compiled kernel can be used; None for the calling thread alone.

        Raises:
            ModelError: the network is for another vocabulary.
        """
        if weights.vocabulary_digest != vocabulary.digest().hex():
            raise ModelError("the block drafter was made for another vocabulary; train one with `train drafter`")
        self._net: BlockKernel | BlockNet = BlockKernel(weights) if blockkernel.available() else BlockNet(weights)
        self._workers = workers if isinstance(self._net, BlockKernel) else None
        self._window = weights.shape.window
        self._none = weights.shape.vocabulary
        self._calibration = Calibration(weights.shape.block)
        self._floor = floor

    def begin(self, capacity: int) -> None:
        """Do nothing: slots leave nothing behind."""

    def propose(self, slots: Sequence[Slot], limits: Sequence[int]) -> list[Draft]:
        """Draft for all slots in one forward pass."""
        asked = [number for number, limit in enumerate(limits) if limit > 0]
        drafts = [NOTHING] * len(slots)
        if not asked:
            return drafts
        windows = self._windows([slots[number] for number in asked])
        symbols, chances, lengths = self._draft(windows, np.array([limits[number] for number in asked]))
        said = symbols.astype(np.int32)
        raw = [Draft(said[row, :length], chances[row, :length], KIND) for row, length in enumerate(lengths.tolist())]
        corrected = self._calibration.correct([slots[number] for number in asked], raw)
        for number, draft in zip(asked, corrected, strict=True):
            drafts[number] = draft
        return drafts

    def _draft(self, windows: Ints, limits: Ints) -> tuple[Ints, Floats, Ints]:
        """Run the network, on several threads where there are slots enough."""
        draft: Callable[[Ints, Ints, float], tuple[Ints, Floats, Ints]] = self._net.draft
        count = min(self._workers.count, len(windows) // _SHARE) if self._workers is not None else 1
        if self._workers is None or count <= 1:
            return draft(windows, limits, self._floor)
        parts = zip(np.array_split(windows, count), np.array_split(limits, count), strict=True)
        found = self._workers.run([partial(draft, some, most, self._floor) for some, most in parts])
        symbols, chances, lengths = zip(*found, strict=True)
        return np.concatenate(symbols), np.concatenate(chances), np.concatenate(lengths)

    def learn(self, slots: Sequence[Slot], drafts: Sequence[Draft], settled: Sequence[int]) -> None:
        """Learn how far to trust the network; everything else was learned before."""
        self._calibration.settle(slots)

    def _windows(self, slots: Sequence[Slot]) -> Ints:
        """Return the last symbols of slots, oldest first. Escapes, and what is not there, are read as no symbol."""
        windows = np.full((len(slots), self._window), self._none, np.int64)
        for window, slot in zip(windows, slots, strict=True):
            last = slot.symbols[-self._window :]
            window[self._window - len(last) :] = last
        return np.minimum(windows, self._none, out=windows)
