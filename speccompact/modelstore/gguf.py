"""Reader of GGUF model files, versions 2 and 3, little-endian.

The file is hostile until proven otherwise: every count is checked against the bytes that are left before anything is
allocated, every tensor must lie inside the file, and no two tensors may overlap. Nothing is read that was not asked
for: tensor data stay in the memory map until `GgufFile.tensor`.

Reference: the GGUF specification in the ggml project (docs/gguf.md).
"""

import mmap
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from speccompact.errors import ModelError
from speccompact.modelstore.blocktypes import BLOCK_TYPES, BlockType, dequantise

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_MAX_KEYS = 1 << 16
_MAX_TENSORS = 1 << 16
_MAX_STRINGS = 1 << 22
_MAX_NAME_BYTES = 1 << 16
_MAX_DIMENSIONS = 4
_MIN_KEY_BYTES = 8 + 4 + 1
_MIN_TENSOR_BYTES = 8 + 4 + 8 + 4 + 8

_SCALARS: dict[int, str] = {
    0: "<u1",
    1: "<i1",
    2: "<u2",
    3: "<i2",
    4: "<u4",
    5: "<i4",
    6: "<f4",
    7: "<u1",
    10: "<u8",
    11: "<i8",
    12: "<f8",
}
_BOOL, _STRING, _ARRAY = 7, 8, 9


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """Where one tensor lies: shape with the rows first, byte offset and length in the file."""

    name: str
    shape: tuple[int, ...]
    kind: BlockType
    offset: int
    length: int


class _Cursor:
    """Reads fields one after the other and never past the end."""

    def __init__(self, data: memoryview, path: Path) -> None:
        self.data = data
        self.position = 0
        self.path = path

    def fail(self, what: str) -> ModelError:
        return ModelError(f"{self.path}: damaged GGUF file at byte {self.position}: {what}")

    @property
    def left(self) -> int:
        return len(self.data) - self.position

    def take(self, length: int) -> memoryview:
        if length > self.left:
            raise self.fail(f"{length} bytes wanted, {self.left} left")
        piece = self.data[self.position : self.position + length]
        self.position += length
        return piece

    def u32(self) -> int:
        return int.from_bytes(self.take(4), "little")

    def u64(self) -> int:
        return int.from_bytes(self.take(8), "little")

    def text(self, limit: int) -> str:
        length = self.u64()
        if length > limit:
            raise self.fail(f"a string of {length} bytes; at most {limit} are allowed here")
        try:
            return str(self.take(length), "utf-8")
        except UnicodeDecodeError:
            raise self.fail("a string is not UTF-8") from None

    def name(self) -> str:
        name = self.text(_MAX_NAME_BYTES)
        if not name:
            raise self.fail("a name is empty")
        return name

    def value(self, kind: int) -> Any:
        """Read a metadata value: int, float, bool, str, list[str], or a numeric array."""
        if kind == _STRING:
            return self.text(self.left)
        if kind == _ARRAY:
            return self.array()
        if kind not in _SCALARS:
            raise self.fail(f"unknown value type {kind}")
        dtype = np.dtype(_SCALARS[kind])
        scalar = np.frombuffer(self.take(dtype.itemsize), dtype)[0].item()
        return bool(scalar) if kind == _BOOL else scalar

    def array(self) -> list[str] | npt.NDArray[Any]:
        kind, count = self.u32(), self.u64()
        if kind == _STRING:
            if count > min(_MAX_STRINGS, self.left // 8):
                raise self.fail(f"an array of {count} strings")
            return [self.text(self.left) for _ in range(count)]
        if kind not in _SCALARS:
            raise self.fail(f"unsupported array of value type {kind}")
        dtype = np.dtype(_SCALARS[kind])
        if count > self.left // dtype.itemsize:
            raise self.fail(f"an array of {count} values, {self.left} bytes left")
        # copied, so that no array keeps the memory map open
        return np.frombuffer(self.take(count * dtype.itemsize), dtype).copy()


class GgufFile:
    """An open GGUF file.

    Attributes:
        metadata: values by key; numeric arrays are numpy arrays, strings str, arrays of strings lists.
        tensors: places of the tensors by name.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Read the header and check it.

        Raises:
            ModelError: the file cannot be read, is no GGUF file, or breaks a rule of the format.
        """
        self.path = Path(path)
        try:
            with open(self.path, "rb") as file:
                if os.fstat(file.fileno()).st_size == 0:
                    raise ModelError(f"{self.path}: empty file, not a GGUF model")
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise ModelError(f"{self.path}: {error.strerror or error}") from error
        cursor = _Cursor(memoryview(self._map), self.path)
        self.metadata: dict[str, Any] = {}
        tensor_count, key_count = _read_head(cursor)
        for _ in range(key_count):
            key = cursor.name()
            if key in self.metadata:
                raise cursor.fail(f"key {key!r} appears twice")
            self.metadata[key] = cursor.value(cursor.u32())
        self.tensors = _read_tensors(cursor, tensor_count, self._alignment(cursor))

    def tensor(self, name: str) -> npt.NDArray[np.float32]:
        """Dequantise one tensor.

        Returns:
            float32 of the tensor's shape, rows first.

        Raises:
            ModelError: there is no such tensor.
        """
        place = self.tensors.get(name)
        if place is None:
            raise ModelError(f"{self.path}: no tensor named {name!r}")
        data = np.frombuffer(self._map, np.uint8, place.length, place.offset)
        return dequantise(place.kind, data).reshape(place.shape)

    def _alignment(self, cursor: _Cursor) -> int:
        alignment = self.metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or not 1 <= alignment <= 1 << 20 or alignment & (alignment - 1):
            raise cursor.fail(f"alignment {alignment!r} is no power of two")
        return alignment


def _read_head(cursor: _Cursor) -> tuple[int, int]:
    """Read magic, version and the two counts; return tensors and keys."""
    if bytes(cursor.data[:4]) != _MAGIC:
        raise ModelError(f"{cursor.path}: not a GGUF file")
    cursor.take(4)
    version = cursor.u32()
    if version not in _VERSIONS:
        raise ModelError(f"{cursor.path}: GGUF version {version:#x} is not supported (2 and 3 are, little-endian)")
    tensors, keys = struct.unpack("<QQ", cursor.take(16))
    if tensors > min(_MAX_TENSORS, cursor.left // _MIN_TENSOR_BYTES):
        raise cursor.fail(f"{tensors} tensors")
    if keys > min(_MAX_KEYS, cursor.left // _MIN_KEY_BYTES):
        raise cursor.fail(f"{keys} keys")
    return tensors, keys


def _read_tensors(cursor: _Cursor, count: int, alignment: int) -> dict[str, GgufTensor]:
    """Read the tensor table; check types, sizes, places and that nothing overlaps."""
    entries: dict[str, tuple[tuple[int, ...], BlockType, int, int]] = {}
    for _ in range(count):
        name = cursor.name()
        if name in entries:
            raise cursor.fail(f"tensor {name!r} appears twice")
        entries[name] = _read_entry(cursor, name)
    base = -(-cursor.position // alignment) * alignment
    tensors: dict[str, GgufTensor] = {}
    end = base
    for name, (shape, kind, offset, length) in sorted(entries.items(), key=lambda item: item[1][2]):
        start = base + offset
        if offset % alignment:
            raise cursor.fail(f"tensor {name!r} lies at offset {offset}, no multiple of {alignment}")
        if start < end:
            raise cursor.fail(f"tensor {name!r} overlaps the one before it")
        end = start + length
        if end > len(cursor.data):
            raise cursor.fail(f"tensor {name!r} ends at byte {end} of {len(cursor.data)}")
        tensors[name] = GgufTensor(name, shape, kind, start, length)
    return tensors


def _read_entry(cursor: _Cursor, name: str) -> tuple[tuple[int, ...], BlockType, int, int]:
    """Read shape, type and offset of one tensor; return them with its length in bytes."""
    dimensions = cursor.u32()
    if not 1 <= dimensions <= _MAX_DIMENSIONS:
        raise cursor.fail(f"tensor {name!r} has {dimensions} dimensions")
    # the file names the fastest axis first
    shape = tuple(reversed(struct.unpack(f"<{dimensions}Q", cursor.take(8 * dimensions))))
    number, offset = cursor.u32(), cursor.u64()
    kind = BLOCK_TYPES.get(number)
    if kind is None:
        names = ", ".join(known.name for known in BLOCK_TYPES.values())
        raise ModelError(f"{cursor.path}: tensor {name!r} has type {number}, which is not supported ({names} are)")
    values = 1
    for extent in shape:
        values *= extent
    if values < 1 or shape[-1] % kind.values:
        raise cursor.fail(f"tensor {name!r} of type {kind.name} cannot have the shape {shape}")
    return shape, kind, offset, values // kind.values * kind.size
