"""What decoding has cost, and what drafts have saved: numbers that add up over frames."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, zip_longest
from operator import add, sub
from typing import Final


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What came of the drafts of one drafter, by position: entry i is about the i-th symbols of drafts.

    Attributes:
        proposed: drafts that had a symbol there.
        reached: those of them in which all symbols before it were right.
        right: those of them in which it was right, too.
    """

    proposed: tuple[int, ...] = ()
    reached: tuple[int, ...] = ()
    right: tuple[int, ...] = ()

    def __add__(self, other: "Acceptance") -> "Acceptance":
        return self._each(add, other)

    def __sub__(self, other: "Acceptance") -> "Acceptance":
        return self._each(sub, other)

    def _each(self, operation: Callable[[int, int], int], other: "Acceptance") -> "Acceptance":
        """Return what the operation makes of every pair of counts; where one is missing, it is 0."""
        pairs = ((self.proposed, other.proposed), (self.reached, other.reached), (self.right, other.right))
        return Acceptance(*(tuple(operation(a, b) for a, b in zip_longest(*pair, fillvalue=0)) for pair in pairs))


_COUNTED: Final = 64
"""Positions of a draft that are counted; what is said of later ones is not."""


class DraftCounts:
    """Counts drafts while they come, by the name of the drafter."""

    def __init__(self) -> None:
        self._counts: dict[str, tuple[list[int], list[int], list[int]]] = {}

    def count(self, name: str, size: int, hits: int) -> None:
        """Count by length how far a draft went, how far it was looked at, how far it was right."""
        if name not in self._counts:
            self._counts[name] = ([0] * (_COUNTED + 1), [0] * (_COUNTED + 1), [0] * (_COUNTED + 1))
        for counts, length in zip(self._counts[name], (size, min(hits + 1, size), hits), strict=True):
            counts[min(length, _COUNTED)] += 1

    @property
    def acceptance(self) -> dict[str, Acceptance]:
        """What came of them so far."""
        return {name: Acceptance(*map(_by_position, counts)) for name, counts in self._counts.items()}


@dataclass(frozen=True, slots=True)
class Effort:
    """What decoding has cost.

    Attributes:
        passes: target passes, counted once for each slot that took part.
        target_s, draft_s: seconds of target passes and of drafting.
        drafts: acceptance by the name of the drafter.
        notes: what was not as it was asked for, each once.
    """

    passes: int = 0
    target_s: float = 0.0
    draft_s: float = 0.0
    drafts: Mapping[str, Acceptance] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __add__(self, other: "Effort") -> "Effort":
        names = {**self.drafts, **other.drafts}
        return Effort(
            self.passes + other.passes,
            self.target_s + other.target_s,
            self.draft_s + other.draft_s,
            {name: self._of(name) + other._of(name) for name in names},
            tuple(dict.fromkeys(self.notes + other.notes)),
        )

    def __sub__(self, other: "Effort") -> "Effort":
        return Effort(
            self.passes - other.passes,
            self.target_s - other.target_s,
            self.draft_s - other.draft_s,
            {name: self._of(name) - other._of(name) for name in self.drafts},
            self.notes,
        )

    def to_json(self) -> dict[str, object]:
        """Return it with stable keys."""
        return {
            "passes": self.passes,
            "target_s": self.target_s,
            "draft_s": self.draft_s,
            "drafts": {
                name: {"proposed": [*made.proposed], "reached": [*made.reached], "right": [*made.right]}
                for name, made in self.drafts.items()
            },
            "notes": [*self.notes],
        }

    def _of(self, name: str) -> Acceptance:
        return self.drafts.get(name, Acceptance())


def _by_position(lengths: Sequence[int]) -> tuple[int, ...]:
    """Return how many were longer than 0, 1, 2 and so on, of counts by length."""
    longer = list(accumulate(lengths[:0:-1]))[::-1]
    return tuple(count for count in longer if count > 0)
