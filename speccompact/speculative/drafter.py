"""Drafters propose the next tokens of slots; whatever they say, the archive and its contents are the same.

A drafter knows the vocabulary and the symbols decoded so far. It sees neither the target's hidden states nor its
scores, so that one drafter serves every target with its vocabulary.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

Symbols = npt.NDArray[np.int32]


class Drafter(Protocol):
    """Proposes draft blocks."""

    def propose(self, histories: Sequence[Symbols], limits: Sequence[int]) -> list[Symbols]:
        """Propose the next symbols of slots.

        Args:
            histories: for each slot the symbols decoded so far, (n,) int32.
            limits: for each slot the most symbols that can follow (tokens); a longer draft is cut.

        Returns:
            For each slot a draft block, (k,) int32, k from 0 to its limit.
        """
        ...


class NoDrafter:
    """Draft length 0: every target pass settles one symbol of each slot."""

    def propose(self, histories: Sequence[Symbols], limits: Sequence[int]) -> list[Symbols]:
        """Propose nothing."""
        return [np.empty(0, dtype=np.int32) for _ in histories]
