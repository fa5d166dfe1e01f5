"""Columns of a table as bytes: numbers in as few bytes as their spread needs, and strings that end in NUL.

A column of equal numbers takes no byte for each: tables of a million entries that say nothing stay small.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np

from speccompact.container.fields import Cursor, pack_varint
from speccompact.errors import DamagedError

_MOST = 1 << 63


def pack_numbers(values: Sequence[int]) -> bytes:
    """Return integers of 64 bits with sign as: smallest (zigzag varint), width (byte), and planes of bytes.

    Plane *i* holds byte *i* of every difference to the smallest; the planes of one column compress far better than
    its numbers.
    """
    if not values:
        return b""
    low = min(values)
    spread = max(values) - low
    width = (spread.bit_length() + 7) // 8
    smallest = pack_varint(2 * low if low >= 0 else -2 * low - 1)
    if not width:
        return smallest + b"\0"
    differences = np.array([value - low for value in values], dtype="<u8")
    planes = differences.view(np.uint8).reshape(len(values), 8)[:, :width]
    return smallest + bytes([width]) + planes.T.tobytes()


def unpack_numbers(cursor: Cursor, count: int, field: str) -> list[int]:
    """Return `count` integers, the inverse of `pack_numbers`.

    Raises:
        FormatError: they are not there, or too large.
    """
    if not count:
        return []
    zigzag = cursor.varint(field)
    low = zigzag // 2 if zigzag % 2 == 0 else -(zigzag + 1) // 2
    width = cursor.byte(field)
    if width > 8:
        raise DamagedError(f'numbers of {width} bytes in field "{field}"')
    if not width:
        return [low] * count
    planes = np.frombuffer(cursor.take(width * count, field), np.uint8).reshape(width, count)
    whole = np.zeros((count, 8), np.uint8)
    whole[:, :width] = planes.T
    differences: list[int] = whole.view("<u8").reshape(count).tolist()
    if max(differences) + low >= _MOST:
        raise DamagedError(f'a number in field "{field}" is too large')
    return [low + difference for difference in differences]


def pack_strings(values: Sequence[bytes]) -> bytes:
    """Return strings without NUL, each followed by one, with their length in all before them (varint)."""
    joined = b"".join(value + b"\0" for value in values)
    return pack_varint(len(joined)) + joined


def unpack_strings(cursor: Cursor, count: int, field: str) -> list[bytes]:
    """Return `count` strings, the inverse of `pack_strings`."""
    joined = cursor.take(cursor.varint(field), field)
    if joined.count(b"\0") != count or (count and joined[-1:] != b"\0"):
        raise DamagedError(f'field "{field}" has not {count} strings')
    return joined.split(b"\0")[:count]


def pack_blobs(values: Sequence[bytes]) -> bytes:
    """Return any bytes: lengths, then the bytes joined."""
    return pack_numbers([len(value) for value in values]) + b"".join(values)


def unpack_blobs(cursor: Cursor, count: int, field: str) -> list[bytes]:
    """Return `count` byte strings, the inverse of `pack_blobs`."""
    lengths = unpack_numbers(cursor, count, field)
    if any(length < 0 for length in lengths):
        raise DamagedError(f'a length in field "{field}" is negative')
    joined = cursor.take(sum(lengths), field)
    stops = list(accumulate(lengths, initial=0))
    return [joined[start:stop] for start, stop in pairwise(stops)]


def pack_names(values: Sequence[bytes]) -> bytes:
    """Return strings of which few differ: the different ones in order of first use, and the number of each."""
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    return pack_varint(len(numbers)) + pack_strings(list(numbers)) + pack_numbers([numbers[v] for v in values])


def unpack_names(cursor: Cursor, count: int, field: str) -> list[bytes]:
    """Return `count` strings, the inverse of `pack_names`."""
    different = cursor.varint(field)
    if different > count:
        raise DamagedError(f'field "{field}" has {different} names for {count} entries')
    names = unpack_strings(cursor, different, field)
    numbers = unpack_numbers(cursor, count, field)
    if numbers and not 0 <= min(numbers) <= max(numbers) < different:
        raise DamagedError(f'field "{field}" names what is not there')
    return [names[number] for number in numbers]
