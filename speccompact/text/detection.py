"""Find the single-byte charset of a run: the one in which it becomes the fewest tokens and the most ordinary words.

Only the encoder looks here; a wrong guess costs bytes, never correctness, since every table is a bijection.
"""

import unicodedata
from functools import cache

import numpy as np
import numpy.typing as npt

from speccompact.text.charsets import BYTES, SINGLE_BYTE, code_points, to_utf8
from speccompact.text.runs import utf8_mask
from speccompact.text.vocabulary import TextEncoder

_SNIPPETS = 32
_REACH = 64  # bytes on either side of a byte above 7F that the sample takes
_MIN_INVALID = 8  # stray bytes below which no charset is looked for: naming it costs as much
_ODD_PAIR = 2  # tokens that a pair of characters counts which no language writes
_MAX_MIXED = 8  # one valid UTF-8 sequence among so many stray bytes and the run stays as it is

_NEUTRAL, _SYMBOL, _LETTER = 0, 1, 2  # classes; letters follow as _LETTER + 2 * script + (upper case)
_JOINERS = frozenset("’·\xad-")  # symbols found inside words
_SCRIPTS = (0x250, 0x400, 0x590, 0x600, 0x700, 0x10000)  # ends: Latin, Greek, Cyrillic, Hebrew, Arabic, others


@cache
def _classes(charset: int) -> npt.NDArray[np.uint8]:
    """Return (256,) uint8: the class of every byte of a single-byte charset."""
    classes = np.zeros(256, dtype=np.uint8)
    for value, point in enumerate(code_points(charset).tolist()):
        letter, category = chr(point), unicodedata.category(chr(point))
        if category[0] in "LM":
            script = next(index for index, end in enumerate(_SCRIPTS) if point < end)
            classes[value] = _LETTER + 2 * script + letter.isupper()
        elif point >= 0x80 and letter not in _JOINERS and category[0] != "Z":
            classes[value] = _SYMBOL
    return classes


def _odd_pairs(sample: npt.NDArray[np.uint8], charset: int) -> int:
    """Count what words never show: two scripts side by side, a capital after a small letter, a symbol inside."""
    classes = _classes(charset)[sample]
    letter = classes >= _LETTER
    script, upper = classes // 2, (classes & 1).astype(np.bool_)
    pair = letter[:-1] & letter[1:]
    high = (sample[:-1] >= 0x80) | (sample[1:] >= 0x80)
    odd = pair & ((script[:-1] != script[1:]) | (~upper[:-1] & upper[1:])) & high
    inside = letter[:-2] & (classes[1:-1] == _SYMBOL) & letter[2:]
    return int(np.count_nonzero(odd)) + int(np.count_nonzero(inside))


def _sample(data: bytes, places: npt.NDArray[np.intp]) -> bytes:
    """Return the surroundings of some of the places, evenly spread."""
    chosen = places[np.linspace(0, places.size - 1, _SNIPPETS).astype(np.intp)].tolist()
    parts, done = [], 0
    for place in chosen:
        start = max(done, place - _REACH)
        done = max(done, place + _REACH)
        parts.append(data[start:done])
    return b"".join(parts)


def detect_charset(data: bytes, tokenizer: TextEncoder) -> int:
    """Return the wire number of the single-byte charset that suits data best, or BYTES where none beats it.

    Text that holds both UTF-8 and a few stray bytes stays as it is: a charset would spoil the UTF-8.
    """
    try:
        data.decode("utf-8")
        return BYTES
    except UnicodeDecodeError:
        values = np.frombuffer(data, dtype=np.uint8)
    good = utf8_mask(values)
    invalid = np.flatnonzero(~good)
    sequences = int(np.count_nonzero(good & (values >= 0xC0)))
    if invalid.size < _MIN_INVALID or sequences * _MAX_MIXED > invalid.size:
        return BYTES
    sample = _sample(data, invalid)
    sampled = np.frombuffer(sample, dtype=np.uint8)
    best, fewest = BYTES, int(tokenizer.encode(sample).size)
    for charset in SINGLE_BYTE:
        text = to_utf8(sample, charset)
        if text is None:
            continue
        cost = int(tokenizer.encode(text).size) + _ODD_PAIR * _odd_pairs(sampled, charset)
        if cost < fewest:
            best, fewest = charset, cost
    return best
