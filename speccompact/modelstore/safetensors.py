"""Reader of safetensors files: a length, a JSON header, raw tensors. Nothing in the file is ever executed.

    bytes 0-7        header length, little-endian
    then             header: {"name": {"dtype", "shape", "data_offsets": [start, end]}, "__metadata__": {text: text}}
    then             tensor data; offsets count from here

The file is hostile until proven otherwise: lengths are checked before anything is allocated, and the tensors must
cover the data exactly, without holes or overlaps.
"""

import json
import math
import mmap
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from speccompact.errors import ModelError
from speccompact.modelstore.blocktypes import bfloat16_to_float32

_MAX_HEADER_BYTES = 100_000_000
"""The limit of the safetensors library."""

_MAX_JSON_BYTES = 200_000_000

_MAX_DIMENSIONS = 8

PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
"""Endings of files that may run code when they are loaded; such files are refused, whatever they hold."""

DTYPES: dict[str, str] = {
    "U8": "<u1",
    "I8": "<i1",
    "U16": "<u2",
    "I16": "<i2",
    "U32": "<u4",
    "I32": "<i4",
    "U64": "<u8",
    "I64": "<i8",
    "F16": "<f2",
    "F32": "<f4",
    "F64": "<f8",
    "BF16": "<u2",
}
"""numpy dtypes of the stored values; BF16 values are seen as their bits."""


@dataclass(frozen=True, slots=True)
class SafeTensor:
    """Where one tensor lies: byte offset and length in the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    length: int


class SafetensorsFile:
    """An open safetensors file; tensors are views of its memory map.

    Attributes:
        metadata: the file's "__metadata__".
        tensors: places of the tensors by name.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Read the header and check it.

        Raises:
            ModelError: the file cannot be read, or breaks a rule of the format.
        """
        self.path = Path(path)
        try:
            with open(self.path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size < 8:
                    raise ModelError(f"{self.path}: {size} bytes are no safetensors file")
                self.map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        except OSError as error:
            raise ModelError(f"{self.path}: {error.strerror or error}") from error
        length = int.from_bytes(self.map[:8], "little")
        if length > min(_MAX_HEADER_BYTES, size - 8):
            raise self.fail(f"a header of {length} bytes in a file of {size}")
        header = parse_json(self.map[8 : 8 + length], self.path)
        self.metadata = self._read_metadata(header.pop("__metadata__", {}))
        self.tensors = self._read_places(header, 8 + length, size)

    def fail(self, what: str) -> ModelError:
        """Return the error for a damaged file."""
        return ModelError(f"{self.path}: damaged safetensors file: {what}")

    def view(self, name: str) -> npt.NDArray[Any]:
        """Return the stored values of a tensor without copying them; BF16 as their bits. Writing reaches no file."""
        place = self.tensors.get(name)
        if place is None:
            raise ModelError(f"{self.path}: no tensor named {name!r}")
        dtype = np.dtype(DTYPES[place.dtype])
        return np.frombuffer(self.map, dtype, place.length // dtype.itemsize, place.offset).reshape(place.shape)

    def floats(self, name: str) -> npt.NDArray[np.float32]:
        """Return a tensor as float32; raises ModelError where its type is not F32, F16 or BF16."""
        values = self.view(name)
        dtype = self.tensors[name].dtype
        if dtype == "BF16":
            return bfloat16_to_float32(np.ascontiguousarray(values).view(np.uint8).reshape(-1)).reshape(values.shape)
        if dtype not in ("F32", "F16"):
            raise ModelError(f"{self.path}: tensor {name!r} has type {dtype}; weights must be F32, F16 or BF16")
        return values.astype(np.float32)

    def _read_metadata(self, metadata: Any) -> dict[str, str]:
        if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
            raise self.fail("__metadata__ is no map of strings")
        return metadata

    def _read_places(self, header: dict[str, Any], base: int, size: int) -> dict[str, SafeTensor]:
        places = sorted((self._read_place(name, entry) for name, entry in header.items()), key=lambda p: p.offset)
        end = 0
        for place in places:
            if place.offset != end:
                raise self.fail(f"tensor {place.name!r} starts at {place.offset}, the one before it ends at {end}")
            end += place.length
        if base + end != size:
            raise self.fail(f"the tensors end at byte {base + end}, the file at {size}")
        return {p.name: SafeTensor(p.name, p.dtype, p.shape, base + p.offset, p.length) for p in places}

    def _read_place(self, name: str, entry: Any) -> SafeTensor:
        try:
            dtype, shape, (start, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        except (KeyError, TypeError, ValueError):
            raise self.fail(f"tensor {name!r} lacks dtype, shape or data_offsets") from None
        if not isinstance(dtype, str) or dtype not in DTYPES:
            raise self.fail(f"tensor {name!r} has the unknown type {dtype!r}")
        if not isinstance(shape, list) or len(shape) > _MAX_DIMENSIONS or not all(map(_is_size, shape)):
            raise self.fail(f"tensor {name!r} has an impossible shape")
        itemsize = np.dtype(DTYPES[dtype]).itemsize
        # numpy multiplies the extents that are not zero even where there is nothing to hold
        if not _is_size(itemsize * math.prod(extent for extent in shape if extent)):
            raise self.fail(f"tensor {name!r} has an impossible shape")
        length = itemsize * math.prod(shape)
        if not _is_size(start) or not _is_size(end) or end - start != length:
            raise self.fail(f"tensor {name!r} of {length} bytes has the offsets {start!r} to {end!r}")
        return SafeTensor(name, dtype, tuple(shape), start, length)


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def parse_json(data: bytes | str, path: Path) -> dict[str, Any]:
    """Parse a JSON object; raises ModelError where it is none, names a key twice, or nests too deeply."""
    try:
        value = json.loads(data, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ModelError(f"{path}: JSON object expected")
    return value


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file of bounded size; raises ModelError where it is missing or none."""
    try:
        with open(path, "rb") as file:
            data = file.read(_MAX_JSON_BYTES + 1)
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror or error}") from error
    if len(data) > _MAX_JSON_BYTES:
        raise ModelError(f"{path}: more than {_MAX_JSON_BYTES} bytes")
    return parse_json(data, path)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key appears twice")
    return result
