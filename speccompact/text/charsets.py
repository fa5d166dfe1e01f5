"""Charsets by wire number: transcode a slot to UTF-8 for the model, and back.

| number | charset |
|---|---|
| 0 | bytes as they are (UTF-8, or anything) |
| 1, 2 | UTF-16, little and big endian |
| 3, 4 | UTF-32, little and big endian |
| 5 ... | the single-byte tables of `charset_tables`, in order |

Invariants:
    1. `from_utf8(to_utf8(data, c), c) == data` wherever `to_utf8` is not None (enforced: both are bijections).
    2. Neither depends on the release of Python: UTF-16 and UTF-32 are fixed, all other tables are our own (enforced
       by a digest in the tests).

Unpaired surrogates pass through as three bytes each, ED A0 80 to ED BF BF. A byte order mark is an ordinary character.
"""

from functools import cache

import numpy as np
import numpy.typing as npt

from speccompact.errors import DamagedError, UnsupportedError
from speccompact.text.charset_tables import FIRST_SINGLE_BYTE, TABLES

BYTES, UTF16LE, UTF16BE, UTF32LE, UTF32BE = range(FIRST_SINGLE_BYTE)

NAMES: tuple[str, ...] = ("bytes", "utf-16le", "utf-16be", "utf-32le", "utf-32be", *TABLES)
"""Name of every charset by wire number."""

SINGLE_BYTE = range(FIRST_SINGLE_BYTE, len(NAMES))
"""Wire numbers of the single-byte charsets."""

_UNITS = {BYTES: 1, UTF16LE: 2, UTF16BE: 2, UTF32LE: 4, UTF32BE: 4}
_BMP = 0x10000  # all single-byte tables stay below


def unit_bytes(charset: int) -> int:
    """Return the bytes of one code unit: data whose length is no multiple of it cannot be transcoded."""
    return _UNITS.get(charset, 1)


def _check(charset: int) -> None:
    if not 0 <= charset < len(NAMES):
        raise UnsupportedError(f"charset {charset} is unknown; the file needs a newer release")


@cache
def code_points(charset: int) -> npt.NDArray[np.uint32]:
    """Return (256,) uint32: the code point of every byte of a single-byte charset, all different."""
    values: list[int] = []
    for entry in TABLES[NAMES[charset]].split():
        first, _, last = entry.partition("-")
        values.extend(range(int(first, 16), int(last or first, 16) + 1))
    table = np.array(values if len(values) == 256 else [*range(128), *values], dtype=np.uint32)
    table.setflags(write=False)
    return table


@cache
def _bytes_of(charset: int) -> npt.NDArray[np.int16]:
    """Return (65536,) int16: the byte of every code point of a single-byte charset, -1 where it has none."""
    table = np.full(_BMP, -1, dtype=np.int16)
    table[code_points(charset)] = np.arange(256)
    table.setflags(write=False)
    return table


def to_utf8(data: bytes, charset: int) -> bytes | None:
    """Return data as UTF-8, or None where that would not be exactly reversible.

    Raises:
        UnsupportedError: the charset is unknown.
    """
    _check(charset)
    if charset == BYTES:
        return data
    if charset in SINGLE_BYTE:
        points = code_points(charset)[np.frombuffer(data, dtype=np.uint8)]
        return points.astype("<u4").tobytes().decode("utf-32-le").encode("utf-8")
    try:
        return data.decode(NAMES[charset], "surrogatepass").encode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None


def from_utf8(data: bytes, charset: int) -> bytes:
    """Return the bytes that `to_utf8` was given.

    Raises:
        UnsupportedError: the charset is unknown.
        DamagedError: the data is no result of `to_utf8` with this charset.
    """
    _check(charset)
    if charset == BYTES:
        return data
    try:
        if charset not in SINGLE_BYTE:
            return data.decode("utf-8", "surrogatepass").encode(NAMES[charset], "surrogatepass")
        points = np.frombuffer(data.decode("utf-8").encode("utf-32-le"), dtype="<u4")
    except UnicodeDecodeError as error:
        raise DamagedError(f"a slot in charset {NAMES[charset]} is not UTF-8 at byte {error.start}") from error
    values: npt.NDArray[np.int16] = _bytes_of(charset)[np.minimum(points, _BMP - 1)]
    # U+FFFF is in no table, so everything above the basic plane ends as -1 too.
    if values.size and int(values.min()) < 0:
        raise DamagedError(f"a slot has a character that charset {NAMES[charset]} lacks")
    return values.astype(np.uint8).tobytes()
