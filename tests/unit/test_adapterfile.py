import hashlib
import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from speccompact.errors import ModelError
from speccompact.modelstore.adapterfile import Adapter, read_adapter, write_adapter
from speccompact.modelstore.adapternumbers import Dtype
from speccompact.modelstore.safetensors import SafetensorsFile
from tests.tiny_adapter import peft_tensors, tiny_adapter, write_peft_folder
from tests.tiny_gguf import write_safetensors

NAMES = [f"layers.{layer}.{part}" for layer in (0, 7, 39) for part in ("q", "k", "v", "o", "gate", "up", "down")]


def same(one: Adapter, other: Adapter) -> bool:
    return (
        (one.rank, one.scale, one.base, one.notes) == (other.rank, other.scale, other.base, other.notes)
        and one.factors.keys() == other.factors.keys()
        and all(
            np.array_equal(mine, theirs)
            for name in one.factors
            for mine, theirs in zip(one.factors[name], other.factors[name], strict=True)
        )
    )


@st.composite
def adapters(draw: st.DrawFn) -> Adapter:
    rank, width = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    numbers = st.floats(-60000, 60000, width=16)

    def factor(*shape: int) -> Any:
        return draw(arrays.arrays(np.float32, shape, elements=numbers))

    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    return Adapter(
        rank=rank,
        scale=draw(st.floats(allow_nan=False, allow_infinity=False)),
        base=draw(st.sampled_from(["", "5c" * 32])),
        factors={name: (factor(rank, width), factor(width, rank)) for name in names},
        notes=draw(st.dictionaries(st.text(), st.text() | st.integers() | st.lists(st.booleans()), max_size=3)),
    )


@given(adapter=adapters(), dtype=st.sampled_from(["F16", "F32"]))
def test_what_is_written_is_read(tmp_path: Path, adapter: Adapter, dtype: Dtype) -> None:
    path = tmp_path / "a.safetensors"
    digest = write_adapter(path, adapter, dtype)
    assert hashlib.sha256(path.read_bytes()).digest() == digest
    found = read_adapter(path)
    assert same(found, adapter)
    assert found.source == str(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.safetensors"]


@given(adapter=adapters())
def test_int8_is_as_close_as_8_bits_allow(tmp_path: Path, adapter: Adapter) -> None:
    path = tmp_path / "a.safetensors"
    write_adapter(path, adapter, "I8")
    found = read_adapter(path)
    for name, pair in adapter.factors.items():
        for axis, (mine, theirs) in enumerate(zip(pair, found.factors[name], strict=True)):
            largest = np.abs(mine).max(axis=1 - axis, keepdims=True).astype(np.float64)
            assert (np.abs(mine.astype(np.float64) - theirs) <= largest / 127 * 0.50001).all()


def test_int8_needs_scales_that_fit(tmp_path: Path) -> None:
    for wrong in (np.ones((5,), np.float32), np.ones((1, 2), np.float32), None, np.ones((2,), np.int8)):
        path = tmp_path / "a.safetensors"
        write_adapter(path, tiny_adapter(), "I8")
        file = SafetensorsFile(path)
        tensors = {name: np.array(file.view(name)) for name in file.tensors}
        name = next(name for name in tensors if name.endswith(".scale"))
        if wrong is None:
            del tensors[name]
        else:
            tensors[name] = wrong
        write_safetensors(path, tensors, file.metadata)
        with pytest.raises(ModelError, match="scale"):
            read_adapter(path)


@pytest.mark.parametrize("scale", [float("nan"), float("inf"), -float("inf"), 3e38])
def test_int8_scales_that_lead_nowhere(tmp_path: Path, scale: float) -> None:
    path = tmp_path / "a.safetensors"
    write_adapter(path, tiny_adapter(), "I8")
    file = SafetensorsFile(path)
    tensors = {name: np.array(file.view(name)) for name in file.tensors}
    name = next(name for name in tensors if name.endswith(".scale"))
    tensors[name][0] = scale
    write_safetensors(path, tensors, file.metadata)
    with pytest.raises(ModelError) as caught:
        read_adapter(path)
    assert f"{path}: tensor {name.removesuffix('.scale')!r} holds values that are not finite" in str(caught.value)


def test_an_int8_scale_of_zero_is_a_row_of_zeros(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    write_adapter(path, tiny_adapter(), "I8")
    file = SafetensorsFile(path)
    tensors = {name: np.array(file.view(name)) for name in file.tensors}
    tensors["base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight.scale"][1] = 0
    write_safetensors(path, tensors, file.metadata)
    a, _ = read_adapter(path).factors["layers.0.q"]
    assert a[0].any()
    assert not a[1].any()


@pytest.mark.parametrize("shape", [[0, 1 << 62], [1 << 62, 0, 1 << 62], [1 << 62, 1 << 62]])
def test_shapes_that_overflow(tmp_path: Path, shape: list[int]) -> None:
    header = json.dumps({"x": {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]}}).encode()
    (tmp_path / "a").write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(ModelError, match="a: damaged safetensors file: tensor 'x' has an impossible shape"):
        SafetensorsFile(tmp_path / "a")


def test_metadata_that_are_no_unicode(tmp_path: Path) -> None:
    header = json.dumps({"__metadata__": {"speccompact": "{\ud800}"}}).encode()
    (tmp_path / "a").write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(ModelError, match="a: not JSON"):
        read_adapter(tmp_path / "a")


def test_equal_adapters_are_equal_files(tmp_path: Path) -> None:
    adapter = tiny_adapter()
    backwards = replace(adapter, factors=dict(reversed(list(adapter.factors.items()))))
    assert write_adapter(tmp_path / "a", adapter) == write_adapter(tmp_path / "b", backwards)


def test_the_safetensors_library_reads_it(tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    adapter = tiny_adapter()
    write_adapter(tmp_path / "a.safetensors", adapter)
    found = load_file(tmp_path / "a.safetensors")
    assert found.keys() == peft_tensors(adapter).keys()
    for name, values in peft_tensors(adapter).items():
        assert np.array_equal(found[name], values.astype(np.float16))


def test_brain_floats_are_rounded_to_the_nearest_even(tmp_path: Path) -> None:
    import torch

    values = np.random.default_rng(1).normal(size=(2, 500)).astype(np.float32)
    values[0, :4] = [1 + 2.0**-8, 1 + 3 * 2.0**-8, -1 - 2.0**-8, -3 * 2.0**-140]
    adapter = Adapter(2, 1.0, "", {"layers.0.q": (values, np.zeros((3, 2), np.float32))})
    write_adapter(tmp_path / "a.safetensors", adapter, "BF16")
    found = read_adapter(tmp_path / "a.safetensors").factors["layers.0.q"][0]
    assert np.array_equal(found, torch.from_numpy(values).bfloat16().float().numpy())


@pytest.mark.parametrize(("dtype", "value"), [("F16", 65520.0), ("BF16", -3.4e38)])
def test_numbers_beyond_the_type_are_refused(tmp_path: Path, dtype: Dtype, value: float) -> None:
    pair = (np.full((1, 2), value, np.float32), np.ones((2, 1), np.float32))
    (tmp_path / "a").write_bytes(b"before")
    with pytest.raises(ModelError, match=rf"a: tensor '.*layers\.3\.mlp\.up_proj\.lora_A\.weight'.*{dtype}"):
        write_adapter(tmp_path / "a", Adapter(1, 1.0, "", {"layers.3.up": pair}), dtype)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"before"


def test_notes_that_are_no_json_are_refused(tmp_path: Path) -> None:
    for notes in ({"x": {1}}, {"x": float("nan")}):
        with pytest.raises(ModelError, match="JSON"):
            write_adapter(tmp_path / "a", replace(tiny_adapter(), notes=notes))


def factor(*shape: int) -> Any:
    return np.ones(shape, np.float32)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"rank": 0}, "rank"),
        ({"rank": True}, "rank"),
        ({"scale": float("inf")}, "scale"),
        ({"base": "abc"}, "fingerprint"),
        ({"factors": {}}, "no tensor"),
        ({"factors": {"embed": (factor(2, 3), factor(3, 2))}}, "'embed'"),
        ({"factors": {"layers.0.attn_norm": (factor(2, 3), factor(3, 2))}}, "attn_norm"),
        ({"factors": {"layers.01.q": (factor(2, 3), factor(3, 2))}}, "layers.01.q"),
        ({"factors": {"layers.0.q": (factor(3, 3), factor(3, 2))}}, "q_proj.lora_A"),
        ({"factors": {"layers.0.q": (factor(2, 3), factor(3, 3))}}, "q_proj.lora_B"),
        ({"factors": {"layers.0.q": (factor(2), factor(3, 2))}}, "q_proj.lora_A"),
        ({"factors": {"layers.0.q": (factor(2, 3), factor(3, 2) * np.nan)}}, "not finite"),
    ],
)
def test_what_an_adapter_cannot_be(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ModelError, match=words):
        replace(tiny_adapter(), **fields)


@pytest.mark.parametrize("dtype", ["<f4", "<f2"])
def test_a_folder_of_peft_is_read(tmp_path: Path, dtype: str) -> None:
    adapter = tiny_adapter()
    found = read_adapter(write_peft_folder(tmp_path, adapter, dtype=dtype))
    assert (found.rank, found.scale, found.base, found.notes) == (2, 4.0, "", {})
    for name, pair in adapter.factors.items():
        for mine, theirs in zip(pair, found.factors[name], strict=True):
            assert np.array_equal(mine.astype(dtype), theirs)


def test_rank_stabilised_adapters_divide_by_the_root(tmp_path: Path) -> None:
    folder = write_peft_folder(tmp_path, tiny_adapter(), use_rslora=True, lora_alpha=8)
    assert read_adapter(folder).scale == 8 / 2**0.5


@pytest.mark.parametrize(
    "settings",
    [
        {"peft_type": "IA3"},
        {"bias": "all"},
        {"bias": "lora_only"},
        {"use_dora": True},
        {"modules_to_save": ["lm_head"]},
        {"fan_in_fan_out": True},
        {"rank_pattern": {"q_proj": 4}},
        {"alpha_pattern": {"q_proj": 4}},
        {"layer_replication": [[0, 2]]},
        {"init_lora_weights": "pissa"},
        {"init_lora_weights": "loftq"},
        {"lora_bias": True},
        {"trainable_token_indices": [1, 2]},
        {"something_of_a_later_release": "on"},
        {"r": 0},
        {"r": None},
        {"r": True},
        {"r": 10**400},
        {"lora_alpha": None},
        {"lora_alpha": float("nan")},
        {"use_rslora": "yes"},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_settings_of_peft_that_are_not_supported(tmp_path: Path, settings: dict[str, Any]) -> None:
    folder = write_peft_folder(tmp_path, tiny_adapter(), **settings)
    with pytest.raises(ModelError, match=rf"adapter_config\.json: {next(iter(settings))} .{{1,80}} is not supported$"):
        read_adapter(folder)


@pytest.mark.parametrize(
    "name",
    [
        "base_model.model.model.embed_tokens.lora_embedding_A",
        "base_model.model.lm_head.lora_A.weight",
        "base_model.model.lm_head.weight",
        "base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector",
        "base_model.model.model.layers.0.self_attn.q_proj.lora_A.bias",
        "base_model.model.model.layers.0.input_layernorm.lora_A.weight",
        "base_model.model.model.layers.00.self_attn.q_proj.lora_A.weight",
        "model.layers.0.self_attn.q_proj.lora_A.weight",
    ],
)
def test_tensors_that_are_not_supported(tmp_path: Path, name: str) -> None:
    folder = write_peft_folder(tmp_path, tiny_adapter())
    path = folder / "adapter_model.safetensors"
    write_safetensors(path, peft_tensors(tiny_adapter()) | {name: factor(2, 3)})
    with pytest.raises(ModelError) as caught:
        read_adapter(folder)
    assert f"{path}: tensor {name!r} is not supported" in str(caught.value)


def test_half_of_a_pair_is_refused(tmp_path: Path) -> None:
    folder = write_peft_folder(tmp_path, tiny_adapter())
    tensors = peft_tensors(tiny_adapter())
    name = next(name for name in tensors if "lora_B" in name)
    del tensors[name]
    write_safetensors(folder / "adapter_model.safetensors", tensors)
    with pytest.raises(ModelError, match=f"tensor '{name}' is missing"):
        read_adapter(folder)


def test_integers_are_no_factors(tmp_path: Path) -> None:
    folder = write_peft_folder(tmp_path, tiny_adapter(), dtype="<i4")
    with pytest.raises(ModelError, match="I32"):
        read_adapter(folder)


def test_files_that_are_none_of_ours(tmp_path: Path) -> None:
    folder = write_peft_folder(tmp_path / "peft", tiny_adapter())
    with pytest.raises(ModelError, match="name the folder"):
        read_adapter(folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").unlink()
    with pytest.raises(ModelError, match=r"adapter_config\.json: No such file"):
        read_adapter(folder)
    (tmp_path / "x.bin").write_bytes(b"\x80\x04.")
    with pytest.raises(ModelError, match="never read"):
        read_adapter(tmp_path / "x.bin")
    with pytest.raises(FileNotFoundError, match="absent"):
        read_adapter(tmp_path / "absent")


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"adapter_version": 2}, "version 2"),
        ({"rank": "2"}, "rank"),
        ({"rank": 3}, "rank 3"),
        ({"rank": None}, "rank"),
        ({"scale": "1"}, "scale"),
        ({"scale": float("inf")}, "scale"),
        ({"base": 7}, "base"),
        ({"base": "xyz"}, "fingerprint"),
        ({"notes": []}, "notes"),
        ({"bias": True}, "'bias'"),
    ],
)
def test_metadata_that_are_damaged_or_of_a_later_version(tmp_path: Path, facts: dict[str, Any], words: str) -> None:
    from safetensors.numpy import save_file

    path = tmp_path / "a.safetensors"
    whole = {"adapter_version": 1, "rank": 2, "scale": 0.5, "base": "", "notes": {}}
    save_file(peft_tensors(tiny_adapter()), path, {"speccompact": json.dumps(whole)})
    assert read_adapter(path).scale == 0.5
    save_file(peft_tensors(tiny_adapter()), path, {"speccompact": json.dumps(whole | facts)})
    with pytest.raises(ModelError, match=words) as caught:
        read_adapter(path)
    assert str(path) in str(caught.value)


def test_damage_anywhere_is_an_error_or_another_adapter(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    write_adapter(path, tiny_adapter())
    whole = path.read_bytes()
    for position in range(0, len(whole), 7):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0x55]) + whole[position + 1 :])
        with suppress(ModelError):
            read_adapter(path)
        path.write_bytes(whole[:position])
        with pytest.raises(ModelError):
            read_adapter(path)
