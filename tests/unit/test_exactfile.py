import contextlib
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from speccompact.errors import ModelDamagedError, ModelError
from speccompact.modelstore.exactfile import Tensor, read_exact_file, write_exact_file

INTEGERS = st.sampled_from([np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
ARRAYS = INTEGERS.flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=9))
)
NAMES = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7D), min_size=1, max_size=12)
METADATA = st.dictionaries(
    st.text(max_size=5),
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
)


@given(METADATA, st.dictionaries(NAMES.filter(lambda name: name != "__metadata__"), ARRAYS, max_size=6))
def test_what_is_written_is_read(tmp_path: Path, metadata: dict[str, Any], tensors: dict[str, Any]) -> None:
    path = tmp_path / "m.exact"
    digest = write_exact_file(path, metadata, tensors)
    assert digest == hashlib.sha256(path.read_bytes()).digest()
    found = read_exact_file(path, digest)
    assert found.metadata == metadata
    assert found.digest == digest
    assert list(found.tensors) == sorted(tensors)
    for name, tensor in tensors.items():
        assert found.tensors[name].dtype == tensor.dtype
        assert found.tensors[name].shape == tensor.shape
        assert np.array_equal(found.tensors[name], tensor)
        assert tensor.size == 0 or found.tensors[name].ctypes.data % 64 == 0


def test_the_bytes_are_pinned(tmp_path: Path) -> None:
    tensors: dict[str, Tensor] = {"b": np.array([[1, 2], [3, -4]], np.int16), "a": np.arange(3, dtype=np.uint8)}
    digest = write_exact_file(tmp_path / "m.exact", {"z": 1, "a": "é"}, tensors)
    raw = (tmp_path / "m.exact").read_bytes()
    length = int.from_bytes(raw[:8], "little")
    assert (8 + length) % 64 == 0
    assert raw[8 : 8 + length].rstrip() == (
        rb'{"__metadata__":{"speccompact":"{\"a\":\"\\u00e9\",\"z\":1}"},"a":{"data_offsets":[0,3],"dtype":"U8",'
        rb'"shape":[3]},"b":{"data_offsets":[64,72],"dtype":"I16","shape":[2,2]},"~1":{"data_offsets":[3,64],'
        rb'"dtype":"U8","shape":[61]}}'
    )
    assert raw[8 + length :] == bytes([0, 1, 2]) + bytes(61) + bytes([1, 0, 2, 0, 3, 0, 0xFC, 0xFF])
    assert digest.hex() == hashlib.sha256(raw).hexdigest()


def test_order_layout_and_byte_order_of_the_input_change_nothing(tmp_path: Path) -> None:
    matrix = np.arange(12, dtype=np.int32).reshape(3, 4)
    one = write_exact_file(tmp_path / "1", {"x": 1, "y": 2}, {"a": matrix, "b": matrix.T})
    other = write_exact_file(
        tmp_path / "2", {"y": 2, "x": 1}, {"b": np.ascontiguousarray(matrix.T), "a": matrix.astype(">i4")}
    )
    assert one == other


def test_writing_to_what_was_read_leaves_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "m.exact"
    digest = write_exact_file(path, {}, {"a": np.arange(100, dtype=np.int32)})
    read_exact_file(path, digest).tensors["a"][:] = 0
    assert read_exact_file(path, digest).tensors["a"].tolist() == list(range(100))


def test_the_safetensors_library_reads_it(tmp_path: Path) -> None:
    tensors: dict[str, Tensor] = {"a": np.arange(5, dtype=np.int8), "b": np.arange(7, dtype=np.int64)}
    write_exact_file(tmp_path / "m.exact", {"k": "v"}, tensors)
    found = safetensors.numpy.load_file(tmp_path / "m.exact")
    assert all(np.array_equal(found[name], tensor) for name, tensor in tensors.items())


@pytest.mark.parametrize("name", ["", "~1", "a~", "__metadata__", "ä", "a\n"])
def test_impossible_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelError, match="name of a tensor"):
        write_exact_file(tmp_path / "m", {}, {name: np.zeros(1, np.int8)})


def test_floats_and_what_is_not_json_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="integers only"):
        write_exact_file(tmp_path / "m", {}, {"a": np.zeros(1, np.float32)})
    for metadata in ({"a": float("nan")}, {"a": b"x"}, {"a": np.int32(1)}):
        with pytest.raises(ModelError, match="JSON"):
            write_exact_file(tmp_path / "m", metadata, {})


@given(st.data())
def test_any_flipped_bit_is_found(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "m.exact"
    digest = write_exact_file(path, {"k": 1}, {"a": np.arange(50, dtype=np.int16), "b": np.ones(3, np.int8)})
    raw = bytearray(path.read_bytes())
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(raw)
    with pytest.raises(ModelDamagedError):
        read_exact_file(path, digest)
    # without a digest only the structure can be wrong, and nothing but our own error may come of it
    with contextlib.suppress(ModelDamagedError):
        read_exact_file(path)


@given(st.data())
def test_any_truncation_is_found(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "m.exact"
    write_exact_file(path, {}, {"a": np.arange(50, dtype=np.int16)})
    raw = path.read_bytes()
    path.write_bytes(raw[: data.draw(st.integers(0, len(raw) - 1))])
    with pytest.raises(ModelDamagedError):
        read_exact_file(path)


def entry(dtype: Any = "I8", shape: Any = (4,), offsets: Any = (0, 4)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


HEADERS: dict[str, Any] = {
    "no object": [],
    "no metadata": {"a": entry()},
    "metadata of numbers": {"__metadata__": {"speccompact": 1}, "a": entry()},
    "metadata no JSON": {"__metadata__": {"speccompact": "x"}, "a": entry()},
    "entry no object": {"a": 7},
    "no offsets": {"a": {"dtype": "I8", "shape": [4]}},
    "three offsets": {"a": entry(offsets=[0, 4, 4])},
    "unknown type": {"a": entry(dtype="I4")},
    "type no text": {"a": entry(dtype=["I8"])},
    "floats": {"__metadata__": {"speccompact": "{}"}, "a": entry(dtype="F32", shape=[1])},
    "brain floats": {"__metadata__": {"speccompact": "{}"}, "a": entry(dtype="BF16", shape=[2])},
    "negative extent": {"a": entry(shape=[-4])},
    "fraction": {"a": entry(shape=[4.0])},
    "truth": {"a": entry(shape=[True, 4])},
    "many dimensions": {"a": entry(shape=[1] * 99 + [4])},
    "overflow": {"a": entry(shape=[1 << 62, 1 << 62])},
    "hole": {"a": entry(offsets=[1, 5])},
    "too long": {"a": entry(shape=[5], offsets=[0, 5])},
    "too short": {"a": entry(shape=[3], offsets=[0, 3])},
    "overlap": {"a": entry(), "b": entry()},
    "backwards": {"a": entry(offsets=[4, 0])},
}


@pytest.mark.parametrize("kind", HEADERS)
def test_hostile_headers_are_refused(tmp_path: Path, kind: str) -> None:
    text = json.dumps(HEADERS[kind]).encode()
    (tmp_path / "m").write_bytes(len(text).to_bytes(8, "little") + text + bytes(4))
    with pytest.raises(ModelDamagedError):
        read_exact_file(tmp_path / "m")


def test_hostile_header_lengths_are_refused(tmp_path: Path) -> None:
    for raw in (b"", b"1234567", b"\xff" * 8, bytes(8), (1 << 40).to_bytes(8, "little") + b"{}"):
        (tmp_path / "m").write_bytes(raw)
        with pytest.raises(ModelDamagedError):
            read_exact_file(tmp_path / "m")
    with pytest.raises(ModelDamagedError):
        read_exact_file(tmp_path / "absent")
