"""Whether something that costs time with every pass has paid of late, and when it is worth another try."""

from typing import Final

_TRIALS: Final = 16
"""Passes that nothing is concluded from: the first ones measure the machine warming up, too."""

_KEPT: Final = 1.0 - 1.0 / 32.0
"""What is left of the mean gain after another pass."""

_LONGEST: Final = 63
"""Passes between two tries of something that never pays."""


class Gate:
    """Open while what stands behind it pays; where it does not, it opens for single tries, ever more seldom."""

    def __init__(self) -> None:
        """Begin open."""
        self._gain = 0.0
        self._tried = self._pause = self._wait = 0

    def opens(self) -> bool:
        """Whether this pass is one to try it; to be asked once for each pass."""
        if self._wait:
            self._wait -= 1
            return False
        return True

    def learn(self, gained_s: float, cost_s: float) -> None:
        """Take what a try has saved and cost, in seconds."""
        self._tried += 1
        self._gain = self._gain * _KEPT + (gained_s - cost_s) * (1.0 - _KEPT)
        if self._tried < _TRIALS or self._gain >= 0:
            self._pause = 0
        else:
            self._pause = min(2 * self._pause + 1, _LONGEST)
        self._wait = self._pause
