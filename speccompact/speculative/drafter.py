"""Drafters propose the next tokens of slots; whatever they say, the archive and its contents are the same.

A drafter knows the vocabulary and the symbols decoded so far. It sees neither the target's hidden states nor its
scores, so that one drafter serves every target with its vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Symbols = npt.NDArray[np.int32]
Chances = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot that is being decoded, as a drafter sees it.

    Attributes:
        key: its number, unlike that of any other slot of the batch.
        symbols: (n,) int32, what is settled so far: a view that must not be kept and cannot be written to.
        length: symbols that it will have in the end; 0 where nobody knows, who reckons with the longest of the batch.
    """

    key: int
    symbols: Symbols
    length: int = 0


@dataclass(frozen=True, slots=True)
class Draft:
    """What may come next in a slot.

    Attributes:
        symbols: (k,) int32, the proposed next symbols.
        chances: (k,) float32, how likely each is right, given that all before it are.
        kind: which drafter it is from, where several work together; empty for the one that gives it.
    """

    symbols: Symbols
    chances: Chances
    kind: str = ""

    def __len__(self) -> int:
        return len(self.symbols)

    def cut(self, length: int) -> "Draft":
        """Return the first symbols of it."""
        if length >= len(self.symbols):
            return self
        return Draft(self.symbols[:length], self.chances[:length], self.kind)


NOTHING = Draft(np.empty(0, np.int32), np.empty(0, np.float32))
"""The draft of length 0."""


class Drafter(Protocol):
    """Says what may come next. It has state for every slot; one caller uses it at a time."""

    def begin(self, capacity: int) -> None:
        """Begin a batch and forget the slots of the last one, whose keys may come again.

        Args:
            capacity: symbols of the longest slot.
        """
        ...

    def propose(self, slots: Sequence[Slot], limits: Sequence[int]) -> list[Draft]:
        """Propose the next symbols of slots, before a pass.

        Args:
            slots: those that the pass is about, not always all of the batch.
            limits: for each slot the most symbols that can follow; a longer draft is cut.

        Returns:
            For each slot a draft of 0 to limit symbols.
        """
        ...

    def learn(self, slots: Sequence[Slot], drafts: Sequence[Draft], settled: Sequence[int]) -> None:
        """Take what came of drafts, after the pass.

        Args:
            slots: the same, with the symbols that the pass has settled.
            drafts: for each slot what was tried of its draft.
            settled: how many symbols of it were right.
        """
        ...


class NoDrafter:
    """Draft length 0: every target pass settles one symbol of each slot."""

    def begin(self, capacity: int) -> None:
        """Do nothing."""

    def propose(self, slots: Sequence[Slot], limits: Sequence[int]) -> list[Draft]:
        """Propose nothing."""
        return [NOTHING] * len(slots)

    def learn(self, slots: Sequence[Slot], drafts: Sequence[Draft], settled: Sequence[int]) -> None:
        """Do nothing."""
