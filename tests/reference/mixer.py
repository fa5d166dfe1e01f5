"""EXACT.md sections 11.5, 11.6 and 11.8: how likely a flag is, and what the mixer learns from flags."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isqrt

from tests.reference.contexts import CONTEXTS
from tests.reference.integers import clamp
from tests.reference.logodds import CERTAIN, ODDS_LIMIT, odds, squash

STATES = 192
INPUTS = 1 + CONTEXTS + 1
LENGTHS = 11
"""Values of `length` and `longest`."""

CENTRE = 24
POINTS = 2 * CENTRE + 1
STEP = 1 << 11
"""Log-odds from one point of a map to the next."""

States = list[int | None]
"""The state of each context towards a candidate; None where it is absent."""


def step(n: int) -> int:
    return n if n < 4 else 4 if n < 6 else 5 if n < 10 else 6 if n < 24 else 7


def state(seen: int, other: int, r: int) -> int:
    """Section 11.4."""
    return (8 * step(seen) + step(other)) * 3 + min(r, 2)


@dataclass(frozen=True)
class Flag:
    """A flag as it was computed, for learning."""

    symbol: int
    states: States
    z: list[int]
    sets: tuple[int, int, int]
    mixed1: int
    mixed2: int
    point: int
    part: int
    likely: int


class Mixer:
    """Chances, weights and maps."""

    def __init__(self) -> None:
        self._chance = [[first_chance(s) for s in range(STATES)] for _ in range(CONTEXTS)]
        self._flags = [[0] * STATES for _ in range(CONTEXTS)]
        self._weight1 = [[39322] + [3277] * (INPUTS - 1) for _ in range(4 * 2 * LENGTHS)]
        self._weight2 = [[39322] + [3277] * (INPUTS - 1) for _ in range(12 * 2)]
        self._map = [[squash((j - CENTRE) * STEP) for j in range(POINTS)] for _ in range(4 * LENGTHS)]

    def right(self, i: int, s: int) -> int:
        chance = self._chance[i][s]
        return odds(chance, CERTAIN - chance)

    def flag(self, k: int, symbol: int, states: States, weight: int, rest: int, lengths: tuple[int, int]) -> Flag:
        """Section 11.5: flag k; `lengths` are length and longest, `weight` is that of the symbol."""
        length, longest = lengths
        z = [odds(weight, rest - weight)]
        z += [0 if s is None else self.right(i, s) for i, s in enumerate(states)]
        z.append(2048)
        set1 = (min(k, 3) * 2 + (length == longest)) * LENGTHS + length
        set2 = min(11, max(0, (z[0] + (12 << 12)) >> 13)) * 2 + min(k, 1)
        set3 = min(k, 3) * LENGTHS + length
        mixed1, mixed2 = _mixed(self._weight1[set1], z), _mixed(self._weight2[set2], z)
        mixed = (mixed1 + mixed2) >> 1
        point, part = divmod(clamp(mixed, CENTRE * STEP - 1) + CENTRE * STEP, STEP)
        points = self._map[set3]
        mapped = (points[point] * (STEP - part) + points[point + 1] * part) >> 11
        likely = min(CERTAIN - 4, max(4, (squash(mixed) + mapped + 1) >> 1))
        return Flag(symbol, states, z, (set1, set2, set3), mixed1, mixed2, point, part, likely)

    def learn(self, flags: Sequence[tuple[Flag, bool]]) -> None:
        """Section 11.6: `flags` are those that count, each with whether its candidate came."""
        maps = self._pulled(flags)
        self._learn_weights(self._weight1, flags, lambda flag: (flag.sets[0], flag.mixed1))
        self._learn_weights(self._weight2, flags, lambda flag: (flag.sets[1], flag.mixed2))
        self._learn_chances(flags)
        for (set3, point), (error, near) in maps.items():
            self._map[set3][point] = moved_point(self._map[set3][point], error, near)

    def _learn_chances(self, flags: Sequence[tuple[Flag, bool]]) -> None:
        seen: defaultdict[tuple[int, int], list[bool]] = defaultdict(list)
        for flag, came in flags:
            for i, s in enumerate(flag.states):
                if s is not None:
                    seen[i, s].append(came)
        for (i, s), results in seen.items():
            n, m, chance = len(results), sum(results), self._chance[i][s]
            self._flags[i][s] = min(255, self._flags[i][s] + n)
            chance += (m * CERTAIN - n * chance) // (max(self._flags[i][s], n) + 6)
            self._chance[i][s] = min(CERTAIN - 2048, max(2048, chance))

    def _learn_weights(
        self,
        weights: list[list[int]],
        flags: Sequence[tuple[Flag, bool]],
        chosen: Callable[[Flag], tuple[int, int]],
    ) -> None:
        """Learn one of the two tables; `chosen` gives the set of a flag and what was mixed with it."""
        members: defaultdict[int, list[tuple[int, list[int]]]] = defaultdict(list)
        for flag, came in flags:
            number, mixed = chosen(flag)
            members[number].append((_truth(came) - squash(mixed), flag.z))
        for number, pulls in members.items():
            for j in range(INPUTS):
                slope = sum(error * z[j] for error, z in pulls)
                weights[number][j] = moved_weight(weights[number][j], slope, len(pulls))

    def _pulled(self, flags: Sequence[tuple[Flag, bool]]) -> dict[tuple[int, int], tuple[int, int]]:
        """Return the sums of errors and of nears for each set and point of the maps."""
        sums: dict[tuple[int, int], tuple[int, int]] = {}
        for flag, came in flags:
            set3 = flag.sets[2]
            for point, near in ((flag.point, STEP - flag.part), (flag.point + 1, flag.part)):
                error, total = sums.get((set3, point), (0, 0))
                error += (_truth(came) - self._map[set3][point]) * near
                sums[set3, point] = error, total + near
        return sums


def moved_weight(weight: int, slope: int, flags: int) -> int:
    """Section 11.6: a weight after an epoch with so many flags."""
    return clamp(weight + (((slope // isqrt(flags << 16)) * 14 + (1 << 19)) >> 20), 1 << 22)


def moved_point(point: int, error: int, near: int) -> int:
    """Section 11.6: a point of a map after an epoch."""
    return min(CERTAIN - 4, max(4, point + error // max(2 * near, 2 * 25 * STEP)))


def first_chance(s: int) -> int:
    """Section 11.8."""
    a, b, r = s // 24, s // 3 % 8, s % 3
    if a == 0:
        return 83886
    return min(CERTAIN - 83886, ((10 * a + 3) << 22) // (10 * (a + b) + 8 + 5 * min(r, 1)))


def _mixed(weights: Sequence[int], z: Sequence[int]) -> int:
    return clamp(sum(weight * entry for weight, entry in zip(weights, z, strict=True)) >> 16, ODDS_LIMIT)


def _truth(came: bool) -> int:
    return CERTAIN if came else 0
