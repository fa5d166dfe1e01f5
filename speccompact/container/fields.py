"""Integers and bytes of the format: variable-length integers, and a cursor that never reads past its data."""

from speccompact.errors import DamagedError, TruncatedError

VARINT_BYTES = 9
"""A varint is at most this long: 63 bits, so that every value fits a signed 64-bit integer."""


def pack_varint(value: int) -> bytes:
    """Return `value` in groups of 7 bits, least significant first; bit 7 of every byte but the last is set.

    Raises:
        ValueError: the value is negative or needs more than 63 bits.
    """
    if not 0 <= value < 1 << 63:
        raise ValueError(f"varint out of range: {value}")
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class Cursor:
    """Takes fields off the front of `data`.

    Attributes:
        position: bytes taken so far. A failed read leaves it anywhere up to the end.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def take(self, size: int, field: str) -> bytes:
        """Return the next `size` bytes.

        Raises:
            TruncatedError: fewer are left.
        """
        stop = self.position + size
        if stop > len(self._data):
            raise TruncatedError(f'the data ends inside field "{field}"')
        taken = self._data[self.position : stop]
        self.position = stop
        return taken

    def byte(self, field: str) -> int:
        """Return the next byte as 0 to 255. Raises TruncatedError at the end."""
        if self.position >= len(self._data):
            raise TruncatedError(f'the data ends inside field "{field}"')
        self.position += 1
        return self._data[self.position - 1]

    def varint(self, field: str) -> int:
        """Return the next variable-length integer, the inverse of `pack_varint`.

        Raises:
            TruncatedError: the data ends inside it.
            DamagedError: it is longer than VARINT_BYTES, or ends in a zero byte (not the shortest form).
        """
        value = 0
        for index in range(VARINT_BYTES):
            byte = self.byte(field)
            value |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                if byte == 0 and index:
                    raise DamagedError(f'field "{field}" is not in its shortest form')
                return value
        raise DamagedError(f'field "{field}" is longer than {VARINT_BYTES} bytes')
