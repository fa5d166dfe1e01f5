"""Whether it is worth while to go on encoding: a guess at the final size from what has been coded so far.

All in integers, and asked at the borders of epochs only: the guess decides about bytes of the archive, so it must not
depend on how the work was cut into passes.
"""

from collections import deque
from typing import Final

_FIRST: Final = 4
_RECENT: Final = 8


class Prospect:
    """What can be expected of one frame.

    Symbols cost less and less as a memory fills, most of all where the text repeats itself. So the symbols to come are
    taken to cost a share of what the last eighth of all did: half where nothing is coded yet, all of it at the end, in
    a straight line between. Nothing is said before a quarter is coded. A frame kept in vain costs time, one given up in
    vain costs bytes: docs/memory.md has how often either happens.
    """

    def __init__(self, symbols: int, budget: int) -> None:
        """Begin.

        Args:
            symbols: of the frame.
            budget: what they may cost, in any unit.
        """
        self._symbols, self._budget = symbols, budget
        self._past: deque[tuple[int, int]] = deque([(0, 0)])

    def hopeless(self, settled: int, cost: int) -> bool:
        """Take how far the coding is, and return whether the budget is going to be exceeded.

        Args:
            settled: symbols coded; more than at the call before.
            cost: of these, in the unit of the budget.
        """
        self._past.append((settled, cost))
        recent = max(1, self._symbols // _RECENT)
        while self._past[1][0] <= settled - recent:
            self._past.popleft()
        if settled * _FIRST < self._symbols:
            return False
        before, spent = self._past[0]
        done, left, share = settled - before, self._symbols - settled, 2 * self._symbols
        return (cost * done * share) + (cost - spent) * left * (self._symbols + settled) > self._budget * done * share
