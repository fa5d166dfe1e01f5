"""The plan of one frame: which bytes it takes, cut into slots, each with its symbols.

A slot is text (a run of symbols in one charset) or not (bytes for zstandard, or raw). The text slots of a run are
balanced, because a frame decodes in lockstep and waits for its longest slot; a cut may leave the balanced point by a
few symbols to meet the end of a line.

The plan depends on the content alone: it looks at the first FRAME_WINDOW bytes of the buffer and never further, so it
does not matter how much more the caller has read.
"""

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from speccompact.errors import ArgumentError
from speccompact.params import MAX_FRAME_BYTES
from speccompact.text.charsets import BYTES, from_utf8, to_utf8, unit_bytes
from speccompact.text.detection import detect_charset
from speccompact.text.runs import BINARY, EIGHT_BIT, Run, append_run, find_runs
from speccompact.text.vocabulary import TextEncoder

FRAME_WINDOW = MAX_FRAME_BYTES
"""Bytes that a caller must hold before it plans a frame, unless the content ends earlier."""

_LOOK_BYTES = 8  # bytes judged at first for each symbol that the frame can hold ...
_MIN_LOOK = 1 << 14  # ... but this many at least
_LOOK_GROWTH = 8  # and so many times more as long as the frame takes all of them
_BYTES_PER_TOKEN = 4  # first guess of how much text fills a frame
_MIN_STEP = 4096  # bytes tokenised at a time, at least
_MAX_SHIFT = 63  # symbols a cut may lie from the balanced point, at most; also 1/16 of a slot
_CHARACTER = 3  # symbols before a wanted cut in which a character boundary is looked for
_LOOKBACK = 1024  # bytes before the end of a step in which a word end is looked for
# The tokenizer cuts words here anyway, so tokenising step by step changes nothing.
_WORD_END = re.compile(rb"(?<=[A-Za-z0-9])(?=[^A-Za-z0-9_'\x80-\xff])")


@dataclass(frozen=True, slots=True)
class SlotPlan:
    """Bytes [start, stop) of the buffer.

    Attributes:
        charset: wire number of the charset that the symbols' bytes are in; 0 where symbols is None.
        symbols: (n,) int32, n >= 1, or None for bytes that the model shall not see.
    """

    start: int
    stop: int
    charset: int
    symbols: npt.NDArray[np.int32] | None


@dataclass(frozen=True, slots=True)
class FramePlan:
    """A frame: its slots cover bytes [0, consumed) of the buffer in order."""

    consumed: int
    slots: tuple[SlotPlan, ...]


@dataclass(frozen=True, slots=True)
class _Text:
    """Symbols of the beginning of a run, ready to be cut.

    Attributes:
        utf8: the whole run in UTF-8 (or as it is, for charset BYTES).
        values: (len(utf8) + 1,) uint8, the same and a NUL.
        symbols: (n,) int32.
        ends: (n,) int64, end of each symbol in `utf8` (bytes).
        complete: whether the symbols reach the end of the run.
    """

    utf8: bytes
    values: npt.NDArray[np.uint8]
    symbols: npt.NDArray[np.int32]
    ends: npt.NDArray[np.int64]
    complete: bool


def plan_frame(buffer: bytes, *, final: bool, tokenizer: TextEncoder, slot_tokens: int, frame_slots: int) -> FramePlan:
    """Plan the next frame of a content.

    Args:
        buffer: the content from the start of the frame: at least FRAME_WINDOW bytes, or all there is.
        final: the buffer reaches the end of the content.
        tokenizer: makes the symbols.
        slot_tokens: symbols of one slot, at most (16 or more).
        frame_slots: slots of the frame, at most.

    Returns:
        A plan with at least one slot unless the buffer is empty.

    Raises:
        ArgumentError: the buffer is shorter than FRAME_WINDOW and not final.
    """
    if len(buffer) < FRAME_WINDOW and not final:
        raise ArgumentError(f"the buffer has {len(buffer)} bytes; give {FRAME_WINDOW} or the whole rest")
    window = buffer[:FRAME_WINDOW]
    # A window that ends with the content may be balanced over its last two frames; a full one is taken as endless.
    ends = len(window) < FRAME_WINDOW
    planner = _Planner(tokenizer, slot_tokens, frame_slots)
    look = max(_MIN_LOOK, _LOOK_BYTES * slot_tokens * frame_slots)
    while True:
        plan = planner.plan(window[:look], ends and look >= len(window))
        if plan.consumed < look or look >= len(window):
            return plan
        look *= _LOOK_GROWTH


class _Planner:
    """Plans with one tokenizer and one pair of bounds."""

    def __init__(self, tokenizer: TextEncoder, slot_tokens: int, frame_slots: int) -> None:
        self._tokenizer = tokenizer
        self._slot_tokens = slot_tokens
        self._frame_slots = frame_slots
        self._shift = min(slot_tokens // 16, _MAX_SHIFT)

    def plan(self, window: bytes, ends: bool) -> FramePlan:
        """Return the plan of the frame that starts a window, which ends with the content or does not."""
        slots: list[SlotPlan] = []
        for run in self._resolved(window):
            room = self._frame_slots - len(slots)
            if room == 0:
                break
            if run.kind == BINARY:
                slots.append(SlotPlan(run.start, run.stop, BYTES, None))
                continue
            last = ends and run.stop == len(window)
            slots.extend(self._text_slots(window[run.start : run.stop], run, room, last))
            if slots[-1].stop < run.stop:
                break
        return FramePlan(slots[-1].stop if slots else 0, tuple(slots))

    def _resolved(self, window: bytes) -> list[Run]:
        """Return the runs with their charsets settled; what no charset suits is BINARY."""
        runs: list[Run] = []
        for run in find_runs(window):
            data = window[run.start : run.stop]
            kind, stop = run.kind, run.stop
            if kind in (BYTES, EIGHT_BIT):
                charset = detect_charset(data, self._tokenizer)
                kind = BINARY if kind == EIGHT_BIT and charset == BYTES else charset
            elif kind != BINARY:
                stop -= len(data) % unit_bytes(kind)
                if stop == run.start or to_utf8(window[run.start : stop], kind) is None:
                    kind, stop = BINARY, run.stop
            append_run(runs, Run(run.start, stop, kind))
            if stop < run.stop:
                append_run(runs, Run(stop, run.stop, BINARY))
        return runs

    def _text_slots(self, data: bytes, run: Run, room: int, last: bool) -> list[SlotPlan]:
        """Cut as much of a text run as fits into at most `room` slots."""
        utf8 = to_utf8(data, run.kind)
        assert utf8 is not None, "settled by _resolved"
        # A character boundary may lie up to _CHARACTER symbols before the wanted cut, which lengthens the next slot.
        limit = self._slot_tokens - (_CHARACTER if run.kind != BYTES else 0)
        text = self._tokenised(utf8, room * limit + 1)
        total, count = text.symbols.size, -(-text.symbols.size // limit)
        if text.complete and total <= self._slot_tokens:
            count = 1
        if not text.complete or count > room:
            # Half a shift of slack for each slot, so that cuts may move although the frame is full.
            target, count = room * (limit - self._shift // 2), room
            if last:
                left = (len(utf8) - int(text.ends[-1])) * total // int(text.ends[-1])
                target = min(target, (total + left + 1) // 2)
                count = -(-target // limit)
            total = self._best_cut(text, target - self._shift, target, target, run.kind)
        cuts = self._cuts(text, total, count, limit, run.kind)
        if run.kind != BYTES and not self._starts_characters(text, np.array([*cuts, total])).all():
            # A vocabulary whose tokens straddle characters; the bytes themselves may be cut anywhere.
            return self._text_slots(data, Run(run.start, run.stop, BYTES), room, last)
        slots, start = [], run.start
        for first, stop in zip([0, *cuts], [*cuts, total], strict=True):
            begin = int(text.ends[first - 1]) if first else 0
            size = len(from_utf8(utf8[begin : int(text.ends[stop - 1])], run.kind))
            slots.append(SlotPlan(start, start + size, run.kind, text.symbols[first:stop]))
            start += size
        return slots

    def _tokenised(self, utf8: bytes, wanted: int) -> _Text:
        """Tokenise the beginning of a run: `wanted` symbols or a little more, or all of it."""
        parts, done, count = [], 0, 0
        while done < len(utf8) and count < wanted:
            stop = min(len(utf8), done + max(_MIN_STEP, (wanted - count) * _BYTES_PER_TOKEN))
            stop = _text_border(utf8, done, stop)
            parts.append(self._tokenizer.encode(utf8[done:stop]))
            done, count = stop, count + parts[-1].size
        symbols = np.concatenate(parts)
        ends = np.cumsum(self._tokenizer.vocabulary.lengths[symbols])
        return _Text(utf8, np.frombuffer(utf8 + b"\0", dtype=np.uint8), symbols, ends, done == len(utf8))

    def _cuts(self, text: _Text, total: int, count: int, limit: int, charset: int) -> list[int]:
        """Return count - 1 rising symbol indices that cut [0, total) into slots of at most `limit` (+ _CHARACTER)."""
        cuts: list[int] = []
        previous, most = 0, limit + (_CHARACTER if charset != BYTES else 0)
        for index in range(1, count):
            balanced = index * total // count
            low = max(balanced - self._shift, previous + 1, total - (count - index) * limit)
            high = min(balanced + self._shift, previous + most, total - (count - index))
            previous = self._best_cut(text, low, high, balanced, charset)
            cuts.append(previous)
        return cuts

    def _best_cut(self, text: _Text, low: int, high: int, balanced: int, charset: int) -> int:
        """Return the best index in [low, high]: after a line, else before a space, else between characters.

        Among equals the nearest to the balanced point wins, then the lower. With a charset other than BYTES the search
        goes on to _CHARACTER before `low` where it finds no character boundary.
        """
        indices = np.arange(max(low, 1), high + 1)
        if charset != BYTES and not self._starts_characters(text, indices).any():
            indices = np.arange(max(low - _CHARACTER, 1), high + 1)
        before, after = self._neighbours(text, indices)
        rank = np.where((after & 0xC0) == 0x80, 0, 1)
        rank[after == ord(" ")] = 2
        rank[(before == ord("\n")) & (after != ord("\n"))] = 3
        order = np.lexsort((indices, np.abs(indices - balanced), -rank))
        return int(indices[order[0]])

    def _starts_characters(self, text: _Text, indices: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
        """Return (n,) bool: whether each cut lies between two characters."""
        return np.asarray((self._neighbours(text, indices)[1] & 0xC0) != 0x80)

    @staticmethod
    def _neighbours(text: _Text, indices: npt.NDArray[np.intp]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
        """Return the last byte before and the first byte after each cut (NUL at the end of the text)."""
        places = text.ends[indices - 1]
        return text.values[places - 1], text.values[places]


def _text_border(utf8: bytes, start: int, stop: int) -> int:
    """Return the last word end in the _LOOKBACK bytes before `stop`, else a character boundary; above `start`."""
    if stop == len(utf8):
        return stop
    ends = [match.start() for match in _WORD_END.finditer(utf8, max(start + 1, stop - _LOOKBACK), stop)]
    if ends:
        return ends[-1]
    for place in range(stop, max(stop - 4, start), -1):
        if utf8[place] & 0xC0 != 0x80:
            return place
    return stop
