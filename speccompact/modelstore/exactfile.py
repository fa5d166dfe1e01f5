"""Exact model files: the integers that a target computes with, in a file that is the same wherever it is made.

The layout is that of safetensors, written in one way only, so that equal contents give equal bytes:

    bytes 0-7        header length, little-endian; 8 + header length is a multiple of 64
    then             header: JSON, ASCII, no spaces, keys sorted, padded with spaces at its end
    then             tensors in the order of their names, little-endian, each at a multiple of 64

safetensors allows no holes, so the bytes before a tensor that does not start at a multiple of 64 by itself belong to
a tensor of zeros (U8), which the reader hides. Its name is "~" and how many tensors stand before it in the file, those
of zeros included: "~1", "~5", ... The caller's metadata are one JSON text under
"__metadata__" / "speccompact". Only integer tensors exist.

The digest of an exact model file is the SHA-256 of all its bytes. It is the name of the model in archives.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from speccompact.errors import ModelDamagedError, ModelError
from speccompact.modelstore.safetensors import DTYPES, SafetensorsFile, parse_json

_ALIGNMENT = 64
_METADATA_KEY = "speccompact"
_PAD = "~"
_STORED = {np.dtype(code): name for name, code in DTYPES.items() if name[0] in "IU"}

Tensor = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class ExactFile:
    """An exact model file in memory.

    Attributes:
        metadata: what the converter wrote.
        tensors: views of the file's private memory map, sorted by name; writing reaches no file.
        digest: SHA-256 of the file, 32 bytes.
    """

    metadata: dict[str, Any]
    tensors: dict[str, Tensor]
    digest: bytes


def write_exact_file(path: str | os.PathLike[str], metadata: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> bytes:
    """Write an exact model file and return its digest; the file is on disk (fsync) when this returns.

    The path is written in place: whoever needs it to appear atomically passes a temporary name (`store.register` does).

    Args:
        path: file to create or overwrite.
        metadata: JSON values; floats must be finite.
        tensors: integer arrays by name; a name is printable ASCII without "~".

    Raises:
        ModelError: a tensor's name or type, or the metadata, cannot be written.
        OSError: the file cannot be written.
    """
    digest = hashlib.sha256()
    with open(path, "wb") as file:
        for piece in _pieces(metadata, tensors):
            digest.update(piece)
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
    return digest.digest()


def read_exact_file(
    path: str | os.PathLike[str],
    expected_digest: bytes | None = None,
    *,
    advice: str = "pull or convert the model again",
) -> ExactFile:
    """Map an exact model file and check it.

    Args:
        path: the file.
        expected_digest: 32 bytes, or None to accept any file that is well-formed.
        advice: what to do about a damaged file, for messages.

    Raises:
        ModelDamagedError: the file breaks a rule, or its digest is another than expected.
    """
    try:
        file = SafetensorsFile(path)
        digest = hashlib.sha256(file.map).digest()
        if expected_digest is not None and digest != expected_digest:
            raise ModelDamagedError(
                f"{path}: the model file is damaged: its SHA-256 is {digest.hex()}, not {expected_digest.hex()}; "
                f"{advice}"
            )
        metadata = parse_json(file.metadata.get(_METADATA_KEY, "").encode(), file.path)
        tensors = {name: file.view(name) for name in sorted(file.tensors) if not name.startswith(_PAD)}
    except ModelDamagedError:
        raise
    except ModelError as error:
        raise ModelDamagedError(f"{error}; {advice}") from error
    for name, tensor in tensors.items():
        if tensor.dtype not in _STORED or file.tensors[name].dtype == "BF16":
            raise ModelDamagedError(f"{path}: tensor {name!r} holds no integers")
    return ExactFile(metadata, tensors, digest)


def _pieces(metadata: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Iterator[bytes | memoryview]:
    """Yield the bytes of the file in order."""
    header: dict[str, Any] = {"__metadata__": {_METADATA_KEY: _canonical_json(metadata)}}
    data: list[bytes | Tensor] = []
    position = 0
    for name in sorted(tensors):
        tensor = tensors[name]
        if not name.isascii() or not name.isprintable() or _PAD in name or name in ("", "__metadata__"):
            raise ModelError(f"{name!r} cannot be the name of a tensor")
        stored = _STORED.get(tensor.dtype.newbyteorder("<"))
        if stored is None:
            raise ModelError(f"tensor {name!r} has type {tensor.dtype}; exact model files hold integers only")
        gap = -position % _ALIGNMENT
        if gap and tensor.nbytes:
            header[f"{_PAD}{len(data)}"] = _entry("U8", (gap,), position, gap)
            data.append(bytes(gap))
            position += gap
        header[name] = _entry(stored, tensor.shape, position, tensor.nbytes)
        data.append(tensor)
        position += tensor.nbytes
    text = _canonical_json(header).encode("ascii")
    text += b" " * (-(8 + len(text)) % _ALIGNMENT)
    yield len(text).to_bytes(8, "little") + text
    for piece in data:
        if isinstance(piece, bytes):
            yield piece
        elif piece.size:
            little = np.ascontiguousarray(piece, piece.dtype.newbyteorder("<"))
            yield little.reshape(-1).view(np.uint8).data


def _entry(dtype: str, shape: tuple[int, ...], start: int, length: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, start + length]}


def _canonical_json(value: Mapping[str, Any]) -> str:
    """Write JSON in one way only: sorted keys, no spaces, ASCII, no NaN or infinity."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ModelError(f"the metadata of an exact model file must be JSON: {error}") from None
