"""FORMAT.md section 1: words and numbers."""

from hashlib import sha256

MAX_VARINT_BYTES = 9
RICE_LIMIT = 20


class Refused(Exception):
    """An archive or a model is not valid; the text says where and why."""


def check(size: int, *pieces: bytes) -> bytes:
    """H(size, pieces …)."""
    return sha256(b"".join(pieces)).digest()[:size]


class Cursor:
    """Reads fields from bytes, one after the other."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def left(self) -> int:
        return len(self.data) - self.position

    def take(self, size: int, field: str) -> bytes:
        """Return the next `size` bytes."""
        if size > self.left():
            raise Refused(f"the archive ends within {field} at byte {self.position}")
        self.position += size
        return self.data[self.position - size : self.position]

    def byte(self, field: str) -> int:
        return self.take(1, field)[0]

    def fixed(self, size: int, field: str) -> int:
        return int.from_bytes(self.take(size, field), "little")

    def varint(self, field: str) -> int:
        """Return a varint; only its shortest form is valid."""
        value = 0
        for index in range(MAX_VARINT_BYTES):
            byte = self.byte(field)
            value |= (byte & 127) << (7 * index)
            if byte < 128:
                if byte == 0 and index > 0:
                    raise Refused(f"{field}: a varint is longer than needed")
                return value
        raise Refused(f"{field}: a varint has more than {MAX_VARINT_BYTES} bytes")

    def expect(self, expected: bytes, field: str) -> None:
        """Compare the next bytes, most often a check, with what they must be."""
        if self.take(len(expected), field) != expected:
            raise Refused(f"{field} does not agree")


class BitString:
    """A bit string that begins at a cursor; numbers in it have their highest bit first."""

    def __init__(self, cursor: Cursor, field: str) -> None:
        self._cursor = cursor
        self._field = field
        self._byte = 0
        self._unused = 0  # low bits of _byte that were not taken yet

    def bits(self, count: int) -> int:
        value = 0
        for _ in range(count):
            if self._unused == 0:
                self._byte = self._cursor.byte(self._field)
                self._unused = 8
            self._unused -= 1
            value = value << 1 | (self._byte >> self._unused & 1)
        return value

    def close(self) -> None:
        """Refuse reserved bits that are set."""
        if self._byte & ((1 << self._unused) - 1):
            raise Refused(f"{self._field}: reserved bits are set")

    def rice_list(self, count: int) -> list[int]:
        """Return `count` signed integers."""
        parameter = self.bits(4)
        return [self._rice(parameter) for _ in range(count)]

    def _rice(self, parameter: int) -> int:
        quotient = 0
        while quotient < RICE_LIMIT and self.bits(1):
            quotient += 1
        if quotient < RICE_LIMIT:
            mapped = quotient << parameter | self.bits(parameter)
        else:
            mapped = self.bits(32)
        return mapped // 2 if mapped % 2 == 0 else -(mapped + 1) // 2
