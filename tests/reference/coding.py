"""EXACT.md sections 5 and 6: intervals and lanes; with claims (section 11.5)."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from tests.reference.integers import exp2_weight
from tests.reference.wire import Refused

PRECISION = 28
ESCAPE_BITS = 15


def token_weights(scores: Sequence[int], exp2: Sequence[int]) -> list[int]:
    best = max(scores)
    return [exp2_weight(best - score, exp2) for score in scores]


def token_room(vocab: int, escapes: int) -> int:
    """Return M."""
    room = (1 << PRECISION) - vocab - (escapes << (PRECISION - ESCAPE_BITS))
    if room < vocab:
        raise Refused("the vocabulary leaves no room for the tokens")
    return room


def tiling(weights: Sequence[int], escapes: int, claims: Sequence[int] = ()) -> list[int]:
    """Return where all intervals start, and behind them 2^P, where the last one ends: claims, tokens, escapes."""
    vocab, begin = len(weights), sum(claims)
    room = token_room(vocab, escapes) - begin
    sums = list(accumulate(weights, initial=0))
    sums[vocab] = max(1, sums[vocab])
    tokens = [begin + v + sums[v] * room // sums[vocab] for v in range(vocab)]
    rest = [(1 << PRECISION) - ((escapes - i) << (PRECISION - ESCAPE_BITS)) for i in range(escapes + 1)]
    return [*accumulate(claims, initial=0)][:-1] + tokens + rest


def interval_starts(scores: Sequence[int], escapes: int, exp2: Sequence[int]) -> list[int]:
    """Section 5: where the intervals of all symbols start, and behind them 2^P."""
    return tiling(token_weights(scores, exp2), escapes)


class Lane:
    """Section 6: reads the symbols of one slot."""

    def __init__(self, payload: bytes) -> None:
        size = len(payload) if len(payload) <= 8 else 5 + (len(payload) - 5) % 4
        if size == 0 or payload[size - 1] == 0:
            raise Refused("a lane has no state, or one with a leading zero")
        self._state = int.from_bytes(payload[:size], "little")
        self._words = [int.from_bytes(payload[i : i + 4], "little") for i in range(size, len(payload), 4)]
        self._taken = 0

    def symbol(self, starts: Sequence[int]) -> int:
        """Return the next symbol (the number of its interval), given the starts of the intervals at its position."""
        point = self._state & ((1 << PRECISION) - 1)
        symbol = bisect_right(starts, point) - 1  # the largest whose start is at most `point`
        frequency = starts[symbol + 1] - starts[symbol]
        self._state = frequency * (self._state >> PRECISION) + point - starts[symbol]
        if self._state < 1 << 32 and self._taken < len(self._words):
            self._state = self._state << 32 | self._words[self._taken]
            self._taken += 1
        return symbol

    def end(self) -> int:
        """Return the slot check, after the last symbol."""
        if self._taken != len(self._words) or self._state >> 8 != 1:
            raise Refused("a lane does not end as it must")
        return self._state & 255
