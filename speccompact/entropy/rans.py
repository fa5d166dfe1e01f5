"""rANS lanes: one 64-bit state for each slot, renormalised by 32-bit words.

Asymmetric numeral systems (Duda, 2013) work like a stack, so three things come before everything else:
- the encoder runs from the last symbol to the first, the decoder from the first to the last;
- the encoder's last state is what the decoder starts from, so it stands first in the lane;
- the encoder's first state survives to the decoder's end. It carries the slot check: CHECK_BASE + check.

A lane is the final state in 1 to 8 bytes, little-endian, its last byte not zero, and then the words, 4 bytes each,
little-endian, in the order in which the decoder reads them. As soon as there is a word the state has 5 bytes or more,
so the length of the lane alone tells them apart.

Invariants:
1. Between symbols a state is in [LOWER, 2**64) once a word has been written, in [1, 2**64) before. (enforced)
2. A lane that does not end in the state [CHECK_BASE, 2 * CHECK_BASE) with all words read is damaged. (enforced)
"""

import numpy as np
import numpy.typing as npt

from speccompact.errors import DamagedError
from speccompact.exact.fusedscalar import Array, Integer, jit
from speccompact.params import SLOT_CHECK_BITS

LOWER = 1 << 32
CHECK_BASE = 1 << SLOT_CHECK_BITS


@jit
def _push(state: Integer, start: Integer, frequency: Integer, precision: Integer) -> Integer:
    """One symbol onto a state that has room for it."""
    state, start, frequency = np.uint64(state), np.uint64(start), np.uint64(frequency)
    return ((state // frequency) << np.uint64(precision)) + state % frequency + start


@jit
def _pop(state: Integer, start: Integer, frequency: Integer, precision: Integer) -> Integer:
    """The inverse of `_push`: the state before the symbol."""
    state, start, frequency = np.uint64(state), np.uint64(start), np.uint64(frequency)
    point = state & ((np.uint64(1) << np.uint64(precision)) - np.uint64(1))
    return frequency * (state >> np.uint64(precision)) + point - start


@jit
def _encode(
    starts: Array, frequencies: Array, precision: Integer, first: Integer, words: Array
) -> tuple[Integer, Integer]:
    """Push all symbols, last to first; fills `words` from its end. Returns the state and where the words begin."""
    state, cursor = np.uint64(first), words.shape[0]
    for i in range(starts.shape[0] - 1, -1, -1):
        if (state >> np.uint64(64 - precision)) >= np.uint64(frequencies[i]):
            cursor -= 1
            words[cursor] = state & np.uint64(0xFFFFFFFF)
            state >>= np.uint64(32)
        state = _push(state, starts[i], frequencies[i], precision)
    return state, cursor


@jit
def _advance(
    states: Array, cursors: Array, ends: Array, words: Array, lanes: Array, starts: Array, frequencies: Array,
    precision: Integer,
) -> None:  # fmt: skip
    """Pop one symbol from each of some lanes."""
    for i in range(lanes.shape[0]):
        lane = lanes[i]
        state = _pop(states[lane], starts[i], frequencies[i], precision)
        if state < np.uint64(LOWER) and cursors[lane] < ends[lane]:
            state = (state << np.uint64(32)) | np.uint64(words[lane, cursors[lane]])
            cursors[lane] += 1
        states[lane] = state


def encode_lane(starts: npt.NDArray[np.int64], frequencies: npt.NDArray[np.int64], precision: int, check: int) -> bytes:
    """Encode the intervals of a slot's symbols.

    Args:
        starts, frequencies: (n,) in the order of the text; frequency >= 1, start + frequency <= 2**precision.
        precision: at most 31.
        check: slot check, 0 to 2**SLOT_CHECK_BITS - 1.

    Returns:
        The lane, at least 2 bytes.
    """
    words = np.empty(len(starts), dtype=np.uint32)
    state, cursor = _encode(starts, frequencies, precision, CHECK_BASE + check, words)
    head = int(state).to_bytes((int(state).bit_length() + 7) // 8, "little")
    return head + words[cursor:].astype("<u4").tobytes()


class LaneReader:
    """Lanes that are being decoded side by side, addressed by their place.

    Use: `load` a lane; then for each symbol look at `points`, find the interval, and `advance`; at the end `finish`.
    """

    def __init__(self, places: int, precision: int) -> None:
        self._precision = precision
        self._mask = np.uint64((1 << precision) - 1)
        self._states = np.zeros(places, dtype=np.uint64)
        self._cursors = np.zeros(places, dtype=np.int64)
        self._ends = np.zeros(places, dtype=np.int64)
        self._words = np.zeros((places, 0), dtype=np.uint32)

    def load(self, place: int, lane: bytes, symbols: int) -> None:
        """Start a lane of so many symbols.

        Raises:
            DamagedError: it is empty, its state has no leading digit, or it is longer than its symbols can make it.
        """
        size = len(lane) if len(lane) <= 8 else 5 + (len(lane) - 5) % 4
        state = int.from_bytes(lane[:size], "little")
        if not lane or lane[size - 1] == 0:
            raise DamagedError("a lane does not start with a valid state")
        words = np.frombuffer(lane, dtype="<u4", offset=size)
        if len(words) > symbols:
            raise DamagedError(f"a lane of {len(lane)} bytes is too long for {symbols} symbols")
        if len(words) > self._words.shape[1]:
            wider = np.zeros((len(self._states), len(words)), dtype=np.uint32)
            wider[:, : self._words.shape[1]] = self._words
            self._words = wider
        self._words[place, : len(words)] = words
        self._states[place], self._cursors[place], self._ends[place] = state, 0, len(words)

    def points(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Where in [0, 2**precision) the next symbol of each place lies."""
        return (self._states[places] & self._mask).astype(np.int64)

    def advance(
        self, places: npt.NDArray[np.int64], starts: npt.NDArray[np.int64], frequencies: npt.NDArray[np.int64]
    ) -> None:
        """Take the symbol with this interval from each place (each place at most once)."""
        _advance(
            self._states, self._cursors, self._ends, self._words, places, starts, frequencies, self._precision
        )  # fmt: skip

    def finish(self, place: int) -> int:
        """Return the slot check of a lane that has been read to its end.

        Raises:
            DamagedError: the lane does not end here.
        """
        state = int(self._states[place])
        if self._cursors[place] != self._ends[place] or not CHECK_BASE <= state < 2 * CHECK_BASE:
            raise DamagedError("a lane does not end where its last symbol does")
        return state - CHECK_BASE
