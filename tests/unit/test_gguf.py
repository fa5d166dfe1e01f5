import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speccompact.errors import ModelError
from speccompact.modelstore.gguf import GgufFile
from tests.tiny_gguf import (
    ARRAY,
    BOOL,
    F32,
    I32,
    STRING,
    TYPE_F32,
    TYPE_Q8_0,
    U32,
    RawGguf,
    RawTensor,
    float_tensor,
    text,
    tiny_llama,
    value,
)

FOUR = np.arange(4, dtype=np.float32)


def test_metadata_and_tensors_are_read(tmp_path: Path) -> None:
    matrix = np.arange(6, dtype=np.float32).reshape(2, 3)
    q8 = struct.pack("<e32b", 2.0, *range(-16, 16))
    metadata = {
        "a.int": value(U32, 7),
        "a.float": value(F32, 0.5),
        "a.flag": value(BOOL, 1),
        "a.text": value(STRING, "grün"),
        "a.list": value(ARRAY, (I32, [1, -2])),
        "a.texts": value(ARRAY, (STRING, ["x", ""])),
    }
    tensors = {"m": float_tensor(matrix), "q": RawTensor((1, 32), TYPE_Q8_0, q8)}
    file = GgufFile(RawGguf(metadata, tensors).write(tmp_path / "m.gguf"))
    assert file.metadata["a.list"].tolist() == [1, -2]
    assert {key: file.metadata[key] for key in ("a.int", "a.float", "a.flag", "a.text", "a.texts")} == {
        "a.int": 7,
        "a.float": 0.5,
        "a.flag": True,
        "a.text": "grün",
        "a.texts": ["x", ""],
    }
    assert (file.tensor("m") == matrix).all()
    assert (file.tensor("q") == np.arange(-32, 32, 2, dtype=np.float32)).all()
    with pytest.raises(ModelError, match="no tensor named"):
        file.tensor("absent")


def test_version_2_and_other_alignments_are_read(tmp_path: Path) -> None:
    raw = RawGguf({"general.alignment": value(U32, 8)}, {"t": float_tensor(FOUR)}, version=2)
    assert (GgufFile(raw.write(tmp_path / "m.gguf")).tensor("t") == FOUR).all()


HUGE = (1 << 63) - 1

HOSTILE: dict[str, RawGguf] = {
    "magic": RawGguf(magic=b"GGML"),
    "version 1": RawGguf(version=1),
    "big-endian": RawGguf(version=3 << 24),
    "tensor count": RawGguf(tensor_count=HUGE),
    "key count": RawGguf(key_count=HUGE),
    "one key too many": RawGguf({"a": value(U32, 1)}, key_count=2),
    "key length": RawGguf({"a": value(STRING, "x")[:4] + struct.pack("<Q", HUGE)}),
    "array count": RawGguf({"a": struct.pack("<IIQ", ARRAY, U32, HUGE)}),
    "array of strings count": RawGguf({"a": struct.pack("<IIQ", ARRAY, STRING, HUGE)}),
    "nested arrays": RawGguf({"a": struct.pack("<IIQ", ARRAY, ARRAY, 1) * 40}),
    "value type": RawGguf({"a": struct.pack("<IQ", 99, 0)}),
    "invalid UTF-8": RawGguf({"a": struct.pack("<IQ", STRING, 2) + b"\xff\xfe"}),
    "alignment 0": RawGguf({"general.alignment": value(U32, 0)}, {"t": float_tensor(FOUR)}),
    "alignment 24": RawGguf({"general.alignment": value(U32, 24)}, {"t": float_tensor(FOUR)}),
    "alignment text": RawGguf({"general.alignment": value(STRING, "32")}, {"t": float_tensor(FOUR)}),
    "tensor type": RawGguf({}, {"t": RawTensor((4,), 16, bytes(16))}),
    "no dimensions": RawGguf({}, {"t": RawTensor((), TYPE_F32, bytes(16))}),
    "five dimensions": RawGguf({}, {"t": RawTensor((1, 1, 1, 1, 4), TYPE_F32, bytes(16))}),
    "empty tensor": RawGguf({}, {"t": RawTensor((0, 4), TYPE_F32, b"")}),
    "overflowing shape": RawGguf({}, {"t": RawTensor((1 << 62, 1 << 62, 16), TYPE_F32, bytes(16))}),
    "part of a block": RawGguf({}, {"t": RawTensor((2, 16), TYPE_Q8_0, bytes(34))}),
    "tensor past the end": RawGguf({}, {"t": RawTensor((5,), TYPE_F32, bytes(16))}),
    "offset past the end": RawGguf({}, {"t": RawTensor((4,), TYPE_F32, bytes(16), offset=1 << 40)}),
    "offset not aligned": RawGguf({}, {"t": RawTensor((4,), TYPE_F32, bytes(64), offset=4)}),
    "overlap": RawGguf(
        {},
        {"t": RawTensor((16,), TYPE_F32, bytes(64), offset=0), "u": RawTensor((16,), TYPE_F32, bytes(64), offset=32)},
    ),
    "same place": RawGguf(
        {}, {"t": RawTensor((4,), TYPE_F32, bytes(16), offset=0), "u": RawTensor((4,), TYPE_F32, bytes(16), offset=0)}
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_files_are_refused(tmp_path: Path, kind: str) -> None:
    with pytest.raises(ModelError):
        GgufFile(HOSTILE[kind].write(tmp_path / "m.gguf"))


def test_names_that_appear_twice_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    for raw, name in (
        (RawGguf({"a": value(U32, 1), "b": value(U32, 2)}), "b"),
        (RawGguf({}, {"a": float_tensor(FOUR), "b": float_tensor(FOUR)}), "b"),
    ):
        path.write_bytes(raw.build().replace(text(name), text("a")))
        with pytest.raises(ModelError, match="twice"):
            GgufFile(path)


def test_missing_and_empty_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="No such file"):
        GgufFile(tmp_path / "absent.gguf")
    (tmp_path / "empty.gguf").touch()
    with pytest.raises(ModelError, match="empty"):
        GgufFile(tmp_path / "empty.gguf")
    with pytest.raises(ModelError):
        GgufFile(tmp_path)


WHOLE = tiny_llama().build()


@given(st.integers(0, len(WHOLE) - 1))
def test_truncated_files_are_refused(tmp_path: Path, length: int) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(WHOLE[:length])
    with pytest.raises(ModelError):
        GgufFile(path)


@given(st.integers(0, 6000), st.binary(min_size=1, max_size=8))
def test_damaged_headers_never_raise_anything_else(tmp_path: Path, place: int, damage: bytes) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(WHOLE[:place] + damage + WHOLE[place + len(damage) :])
    try:
        file = GgufFile(path)
        for name in file.tensors:
            file.tensor(name)
    except ModelError:
        pass
