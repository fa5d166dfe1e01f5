"""Tell text from the rest, block by block, from byte statistics alone.

Only the encoder looks here. A wrong verdict costs bytes or time and never correctness, because the codec keeps the
smallest of its encodings for every slot, and because every byte string has symbols. The verdict depends on the bytes
alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from speccompact.text.charsets import BYTES, UTF16BE, UTF16LE, UTF32BE, UTF32LE

BINARY = -1
"""Kind of a run that is no text (or so repetitive that a dictionary coder does better in no time)."""

EIGHT_BIT = -2
"""Kind of a run full of bytes above 7F that are no UTF-8 and of hardly any control bytes: a legacy charset, perhaps."""

_REPETITIVE = -3  # text, but so repetitive that a long run of it is better off as BINARY

BLOCK = 2048
"""Bytes that are judged together. A run shorter than two blocks joins its neighbour."""

_MIN_REPETITIVE = 4 * BLOCK  # bytes of a repetitive run that may leave the text around it
_SEGMENT = 1 << 20  # bytes of one vectorised step; a multiple of BLOCK, bounds the memory
_MAX_BAD = 0.125  # of a block: control bytes (a repeated one counts once) and malformed UTF-8; random bytes reach 0.5
_MAX_FILL = 0.5  # of a block: control bytes like the one before (NUL padding)
_MAX_CONTROL = 0.04  # of an eight-bit block; random bytes reach 0.11
_GRAM_SHARE = 40  # bytes of a block for each different run of four bytes; text has one every two to eight bytes
_MIN_JUDGED = 256  # bytes that are too few to be called repetitive
_WIDE_PLAUSIBLE = 0.95  # of the code units: those common in text
_WIDE_EVIDENCE = 1 / 64  # of the code units: ASCII, ideographic space and stops, which random units hardly hit


def _byte_table(*values: int) -> npt.NDArray[np.bool_]:
    table = np.zeros(256, dtype=np.bool_)
    table[list(values)] = True
    return table


_CONTROL = _byte_table(*(set(range(0x20)) - set(b"\b\t\n\f\r\x1b")), 0x7F)


def _unit_table(*ranges: tuple[int, int]) -> npt.NDArray[np.bool_]:
    table = np.zeros(0x10000, dtype=np.bool_)
    for first, last in ranges:
        table[first : last + 1] = True
    return table


_EVIDENT = _unit_table((0x09, 0x0A), (0x0D, 0x0D), (0x20, 0x7E), (0x3000, 0x3002), (0xFEFF, 0xFEFF))
_PLAUSIBLE = _EVIDENT | _unit_table(
    (0x00A0, 0x024F),  # Latin
    (0x0300, 0x06FF),  # Greek, Cyrillic, Armenian, Hebrew, Arabic
    (0x0900, 0x0EFF),  # Indic scripts, Thai, Lao
    (0x10A0, 0x11FF),  # Georgian, Hangul letters
    (0x1E00, 0x1FFF),  # more Latin and Greek
    (0x2010, 0x2044),  # punctuation
    (0x20AC, 0x20AC),
    (0x2190, 0x27BF),  # arrows, mathematics, boxes, symbols
    (0x3003, 0x30FF),  # kana
    (0x4E00, 0x9FFF),  # ideographs
    (0xAC00, 0xD7A3),  # Hangul
    (0xD800, 0xDFFF),  # surrogates
    (0xFF01, 0xFF5E),  # full width forms
)
_WIDE = ((UTF32LE, "<u4"), (UTF32BE, ">u4"), (UTF16LE, "<u2"), (UTF16BE, ">u2"))


@dataclass(frozen=True, slots=True)
class Run:
    """Bytes [start, stop) of a buffer, all of one kind: BINARY, EIGHT_BIT or a charset number 0 to 4."""

    start: int
    stop: int
    kind: int


def utf8_mask(values: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Return (n,) bool: whether each byte belongs to a well-formed UTF-8 sequence.

    Args:
        values: (n,) uint8.
    """
    size = values.size
    padded = np.concatenate([values, np.zeros(3, dtype=np.uint8)])
    first, second = padded[:size], padded[1 : size + 1]
    tail = (padded & 0xC0) == 0x80
    follows = tail[1 : size + 1]
    two = (first >= 0xC2) & (first <= 0xDF) & follows
    # Overlong forms, surrogates and code points above 10FFFF show in the second byte.
    follows = follows & tail[2 : size + 2]
    three = ((first & 0xF0) == 0xE0) & follows
    three &= ((first != 0xE0) | (second >= 0xA0)) & ((first != 0xED) | (second < 0xA0))
    four = (first >= 0xF0) & (first <= 0xF4) & follows & tail[3 : size + 3]
    four &= ((first != 0xF0) | (second >= 0x90)) & ((first != 0xF4) | (second < 0x90))
    good: npt.NDArray[np.bool_] = (values < 0x80) | two | three | four
    good[1:] |= (two | three | four)[:-1]
    good[2:] |= (three | four)[:-2]
    good[3:] |= four[:-3]
    return good


def _wide_charset(block: npt.NDArray[np.uint8]) -> int:
    """Return the UTF-16 or UTF-32 charset that a block looks like, or BINARY."""
    for charset, dtype in _WIDE:
        width = 4 if charset in (UTF32LE, UTF32BE) else 2
        units = np.minimum(block[: block.size // width * width].view(dtype), 0xFFFF)
        if units.size and _EVIDENT[units].mean() >= _WIDE_EVIDENCE and _PLAUSIBLE[units].mean() >= _WIDE_PLAUSIBLE:
            return charset
    return BINARY


def _grams(values: npt.NDArray[np.uint8]) -> npt.NDArray[np.intp]:
    """Return (blocks,) the number of different runs of four bytes in each block, never too high."""
    if values.size < 4:
        return np.ones(-(-values.size // BLOCK), dtype=np.intp)
    wide = values.astype(np.uint32)
    grams = wide[:-3] | wide[1:-2] << 8 | wide[2:-1] << 16 | wide[3:] << 24
    blocks = -(-values.size // BLOCK)
    # A hash of 12 bits: collisions only hide differences, and a few in a hundred do not matter here.
    buckets = ((grams * np.uint32(2654435761)) >> 20).astype(np.int64) + np.arange(grams.size) // BLOCK * 4096
    seen = np.bincount(buckets, minlength=blocks * 4096).reshape(blocks, 4096)
    counts: npt.NDArray[np.intp] = np.count_nonzero(seen, axis=1)
    return counts


def _kinds(values: npt.NDArray[np.uint8]) -> Iterator[int]:
    """Yield the kind of every block of a segment."""
    starts = np.arange(0, values.size, BLOCK)
    sizes = np.minimum(values.size - starts, BLOCK)
    control = _CONTROL[values]
    repeated = np.zeros_like(control)
    repeated[1:] = control[1:] & (values[1:] == values[:-1])
    bad = control & ~repeated | ~utf8_mask(values)
    bad_share, fill_share, control_share = (
        np.add.reduceat(mask, starts, dtype=np.int64) / sizes for mask in (bad, repeated, control)
    )
    repetitive = (_grams(values) * _GRAM_SHARE < sizes) & (sizes >= _MIN_JUDGED)
    for index, start in enumerate(starts.tolist()):
        if repetitive[index]:
            yield BINARY if fill_share[index] > _MAX_FILL else _REPETITIVE
        elif bad_share[index] <= _MAX_BAD:
            yield BINARY if fill_share[index] > _MAX_FILL else BYTES
        else:
            charset = _wide_charset(values[start : start + BLOCK])
            eight_bit = charset == BINARY and control_share[index] <= _MAX_CONTROL
            yield EIGHT_BIT if eight_bit else charset


def _joined(data: bytes, kinds: list[int]) -> list[Run]:
    """Return the blocks of a buffer as runs of one kind."""
    runs: list[Run] = []
    for index, kind in enumerate(kinds):
        append_run(runs, Run(index * BLOCK, min(index * BLOCK + BLOCK, len(data)), kind))
    return runs


def append_run(runs: list[Run], run: Run) -> None:
    """Append a run, joined to the one before it where both are of one kind. Modifies runs."""
    if runs and runs[-1].kind == run.kind:
        run = Run(runs.pop().start, run.stop, run.kind)
    runs.append(run)


def find_runs(data: bytes) -> list[Run]:
    """Return the runs of a buffer, in order, covering it; no two neighbours of one kind.

    Cuts fall on multiples of BLOCK. Only the first and the last run of a buffer may be shorter than two blocks.
    """
    values = np.frombuffer(data, dtype=np.uint8)
    kinds: list[int] = []
    for start in range(0, values.size, _SEGMENT):
        kinds.extend(_kinds(values[start : start + _SEGMENT]))
    # A single block between two others takes the kind of the one before it.
    for index in range(1, len(kinds) - 1):
        if kinds[index - 1] != kinds[index] != kinds[index + 1]:
            kinds[index] = kinds[index - 1]
    runs: list[Run] = []
    for run in _joined(data, kinds):
        kind = run.kind
        if kind == _REPETITIVE:
            size = run.stop - run.start
            kind = BINARY if size >= min(_MIN_REPETITIVE, len(data)) else BYTES
        append_run(runs, Run(run.start, run.stop, kind))
    return runs
