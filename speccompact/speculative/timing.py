"""How long a target pass takes, by slots and rows: learned from the passes themselves.

Measuring with dummy passes before the first one would cost a small file more than drafts may lose, and would not know
what other work the machine gets later; every pass that is run anyway tells. A pass takes a fixed time (weights are
read once), something for each slot, something for each drafted row. These three are fitted to the passes of late,
together with a few made-up ones that have the proportions of a usual machine: those decide only as long as nothing
else does, for instance what a row costs before any was drafted.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_USUAL: Final = np.array([1.0, 1 / 32, 1 / 32])
"""Fixed time, time for a slot and time for a drafted row of a usual machine, in any unit."""

_KEPT: Final = 1.0 - 1.0 / 128.0
"""What is left of the weight of older passes after another one."""

_BELIEF: Final = 0.25
"""Weight of made-up passes, where a measured one has 1."""

_FACTOR: Final = 2.0
"""A pass that took more than so many times what was expected, or less than that part, counts only so far."""


class PassTimes:
    """Expected seconds of passes."""

    def __init__(self) -> None:
        """Begin with the proportions of a usual machine, of which the speed is not known."""
        self._products = np.zeros((3, 3))
        self._sums = np.zeros(3)
        self._level, self._weight = 0.0, 0.0
        self._fitted: Floats = _USUAL

    def expect(self, slots: int, drafted: npt.NDArray[np.int64] | int) -> Floats:
        """Return the seconds that passes should take.

        Args:
            slots: slots that take part.
            drafted: rows beside their own.
        """
        fixed, each, row = self._fitted
        expected: Floats = fixed + each * slots + row * np.asarray(drafted, np.float64)
        return expected

    def learn(self, slots: int, drafted: int, seconds: float) -> float:
        """Take what a pass took, and return how much of that counts."""
        if self._weight:  # before the first pass, times are in no unit
            expected = float(self.expect(slots, drafted))
            seconds = min(max(seconds, expected / _FACTOR), expected * _FACTOR)
        features = np.array([1.0, slots, drafted])
        self._level = self._level * _KEPT + seconds / float(features @ _USUAL)
        self._weight = self._weight * _KEPT + 1.0
        self._products = self._products * _KEPT + np.outer(features, features)
        self._sums = self._sums * _KEPT + features * seconds
        self._fit(slots)
        return seconds

    def _fit(self, slots: int) -> None:
        usual = _USUAL * (self._level / self._weight)
        made_up = np.array([[1.0, slots, 0], [1.0, slots, 16], [1.0, 2 * slots, 0]])
        products = self._products + _BELIEF * made_up.T @ made_up
        sums = self._sums + _BELIEF * made_up.T @ (made_up @ usual)
        self._fitted = np.maximum(np.linalg.solve(products, sums), usual / 16)
