"""How likely drafted symbols are right, learned as it goes: by the length of the match and the position in the draft.

Each cell (length, position) averages over its last trials. Where there are few, it leans on the next longer match one
position earlier: a match that has held for one more symbol. Where nothing is known, a match of n symbols is taken to
hold n times in n + 2.
"""

from typing import Final

from speccompact.exact.fusedscalar import Array, Integer, jit

_LEANING: Final = 2.0
"""Trials that what a cell leans on counts for."""

_SUREST: Final = 0.995
"""Cells are not independent, so that many which never failed say less than they seem to."""

_KEPT: Final = 1.0 - 1.0 / 512.0
"""What is left of the weight of older trials of a cell after another one."""


@jit
def judge(
    drafts: Array, sizes: Array, found: Array, fresh: Array, counts: Array, right: Array, trials: Array
) -> None:  # fmt: skip
    """Hold drafts against the symbols that came, also beyond what was tried of them.

    Args:
        drafts: (slots, most) int32.
        sizes: (slots,) int64, symbols of each draft.
        found: (slots,) int64, length of the match that each came from.
        fresh: (m,) int32, symbols that came, one slot after the other.
        counts: (slots,) int64, how many belong to each.
        right, trials: (lengths, most) float64, right symbols and trials by cell. Written.
    """
    first = 0
    for s in range(sizes.shape[0]):
        for i in range(min(sizes[s], counts[s])):
            hit = drafts[s, i] == fresh[first + i]
            trials[found[s], i] = trials[found[s], i] * _KEPT + 1.0
            right[found[s], i] = right[found[s], i] * _KEPT + (1.0 if hit else 0.0)
            if not hit:
                break
        first += counts[s]


@jit
def estimate(found: Array, sizes: Array, right: Array, trials: Array, chances: Array) -> None:
    """Say how likely the symbols of drafts are right, each given that all before it are.

    Args:
        found, sizes, right, trials: as in `judge`.
        chances: (slots, most) float32, written.
    """
    longest = right.shape[0] - 1
    for s in range(sizes.shape[0]):
        for i in range(sizes[s]):
            length = min(found[s] + i, longest)
            chance = length / (length + 2.0)
            for position in range(i + 1):
                chance = _lean(right, trials, min(found[s] + i - position, longest), position, chance)
            chances[s, i] = min(chance, _SUREST)


@jit
def _lean(right: Array, trials: Array, length: Integer, position: Integer, chance: Integer) -> Integer:
    """Return the chance of a cell that leans on another's."""
    return (right[length, position] + _LEANING * chance) / (trials[length, position] + _LEANING)
