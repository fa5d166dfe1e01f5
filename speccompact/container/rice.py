"""Signed integers near zero in few bits: zigzag and Rice codes, packed from the most significant bit down.

A list starts with its parameter k in 4 bits. Each value is zigzag mapped (0, -1, 1, -2 ... to 0, 1, 2, 3 ...) and
written as its quotient by 2**k in unary (ones, then a zero) and its remainder in k bits. A quotient of ESCAPE or more
is written as ESCAPE ones and the mapped value itself in ESCAPE_VALUE_BITS bits, so that one wild value stays cheap and
a hostile run of ones stays short.
"""

from collections.abc import Sequence

from speccompact.container.fields import Cursor
from speccompact.errors import DamagedError

PARAMETER_BITS = 4
ESCAPE = 20
ESCAPE_VALUE_BITS = 32


class BitWriter:
    """Collects bits; `close` pads the last byte with zeros."""

    def __init__(self) -> None:
        self._bits: list[str] = []

    def push(self, value: int, size: int) -> None:
        """Append the `size` low bits of `value`, most significant first."""
        if size:
            self._bits.append(format(value, f"0{size}b"))

    def close(self) -> bytes:
        """Return everything pushed, the last byte filled up with zeros."""
        bits = "".join(self._bits)
        size = -(-len(bits) // 8)
        return int(bits.ljust(8 * size, "0"), 2).to_bytes(size, "big") if size else b""


class BitReader:
    """Takes bits off a cursor, a byte at a time, so that nothing behind the list is touched."""

    def __init__(self, cursor: Cursor, field: str) -> None:
        self._cursor = cursor
        self._field = field
        self._value = 0
        self._left = 0

    def pop(self, size: int) -> int:
        """Return the next `size` bits as an integer. Raises TruncatedError at the end of the data."""
        while self._left < size:
            self._value = self._value << 8 | self._cursor.byte(self._field)
            self._left += 8
        self._left -= size
        taken = self._value >> self._left
        self._value &= (1 << self._left) - 1
        return taken

    def close(self) -> None:
        """Check that what is left of the last byte is zero. Raises DamagedError where it is not."""
        if self._value:
            raise DamagedError(f'the padding of field "{self._field}" is not zero')


def zigzag(value: int) -> int:
    """Map a signed integer to an unsigned one, small to small."""
    return 2 * value if value >= 0 else -2 * value - 1


def unzigzag(value: int) -> int:
    """Undo `zigzag`."""
    return -(value + 1 >> 1) if value & 1 else value >> 1


def rice_bits(values: Sequence[int], k: int) -> int:
    """Return the bits that zigzag mapped values take with parameter k."""
    return sum(v_q + 1 + k if (v_q := v >> k) < ESCAPE else ESCAPE + ESCAPE_VALUE_BITS for v in values)


def push_rice(writer: BitWriter, values: Sequence[int]) -> None:
    """Append signed values with the parameter that makes them shortest (the smallest of several)."""
    mapped = [zigzag(value) for value in values]
    k = min(range(1 << PARAMETER_BITS), key=lambda candidate: rice_bits(mapped, candidate))
    writer.push(k, PARAMETER_BITS)
    for value in mapped:
        quotient = value >> k
        if quotient >= ESCAPE:
            writer.push((1 << ESCAPE) - 1, ESCAPE)
            writer.push(value, ESCAPE_VALUE_BITS)
        else:
            writer.push((1 << quotient + 1) - 2, quotient + 1)
            writer.push(value & (1 << k) - 1, k)


def pop_rice(reader: BitReader, count: int) -> list[int]:
    """Take `count` signed values, the inverse of `push_rice`. Raises TruncatedError at the end of the data."""
    k = reader.pop(PARAMETER_BITS)
    values = []
    for _ in range(count):
        quotient = 0
        while quotient < ESCAPE and reader.pop(1):
            quotient += 1
        mapped = reader.pop(ESCAPE_VALUE_BITS) if quotient == ESCAPE else quotient << k | reader.pop(k)
        values.append(unzigzag(mapped))
    return values
