"""What keeps integers from overflowing is checked when a model is made and when it is loaded."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from speccompact.errors import ModelDamagedError, ModelError, UnsupportedError
from speccompact.exact import bounds, fixedpoint, tables
from speccompact.exact.weights import load_weights
from speccompact.modelstore.modelconfig import Checkpoint
from speccompact.modelstore.quantize import convert
from tests.exact_inputs import changed
from tests.tiny_model import CONFIG, checkpoint, contents

LINEARS = ["layers.0.qkv", "layers.1.o", "layers.0.gate_up", "layers.1.down", "head"]
SIZES = ["layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab", "positions"]

Tensors = dict[str, npt.NDArray[Any]]


def with_tensor(name: str, index: int, value: int) -> Tensors:
    """Return the tiny model's tensors with one entry of one replaced."""
    tensor = contents()[1][name].copy()
    tensor.reshape(-1)[index] = value
    return contents()[1] | {name: tensor}


def restated(tensors: Tensors, name: str) -> dict[str, Any]:
    """Return metadata that state the bounds that the weights of a matrix would have."""
    entry = contents()[0]["linears"][name]
    sums = np.abs(tensors[f"{name}.weight"].astype(np.int64)).sum(1) * (16256 if name.endswith("down") else 127)
    inner = (int((sums * tensors[f"{name}.channel"].astype(np.int64)).max()) >> entry["k1"]) + 1
    metadata = changed()
    metadata["linears"][name] |= {"acc": int(sums.max()), "inner": inner}
    return metadata


def with_zeros(*names: str) -> Checkpoint:
    zeros = {name: np.zeros_like(checkpoint().tensors[name]) for name in names}
    return replace(checkpoint(), tensors={**checkpoint().tensors, **zeros})


@pytest.mark.parametrize("name", bounds.RANGES)
def test_numbers_are_possible_within_their_range_only(name: str) -> None:
    good = {key: contents()[0][key] for key in bounds.RANGES}
    assert bounds.flaw(good) is None
    low, high = bounds.RANGES[name]
    for value in (low - 1, high + 1, -1, True, False, float(good[name]), str(good[name]), None):
        assert name in str(bounds.flaw(good | {name: value}))
    if name not in ("heads", "kv_heads"):
        assert [bounds.flaw(good | {name: value}) for value in (low, high)] == [None, None]


def test_head_numbers_reach_their_limits_together() -> None:
    sizes = {"heads": 65535, "kv_heads": 65535, "head_dim": 2}
    assert bounds.flaw(contents()[0] | sizes) is None
    assert bounds.flaw(contents()[0] | sizes | {"heads": 65536, "kv_heads": 1}) is not None


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"head_dim": 7}, "even"),
        ({"heads": 5}, "no multiple"),
        ({"heads": 1024, "kv_heads": 1, "head_dim": 128}, "at most 131071"),
    ],
    ids=str,
)
def test_sizes_that_do_not_fit_together_are_flaws(sizes: dict[str, int], message: str) -> None:
    assert message in str(bounds.flaw(contents()[0] | sizes))


@pytest.mark.parametrize(("rows", "inputs"), [(1, 1), (3, 131071), (5000, 7), (2731, 768), (9, 131071)])
def test_sums_of_magnitudes_are_exact(rows: int, inputs: int) -> None:
    weight = np.full((rows, inputs), -127, np.int8)
    weight[1::2] = np.arange(inputs) % 255 - 127
    assert (bounds.magnitude_sums(weight) == np.abs(weight.astype(np.int64)).sum(1)).all()


def test_the_largest_matrix_stays_within_the_proof() -> None:
    weight = np.full((2, bounds.MAX_INPUTS), -127, np.int8)
    channel = np.full(2, bounds.MAX_CHANNEL, np.int32)
    acc, scaled = bounds.largest_products(weight, channel, fixedpoint.PLANES_MAX)
    assert (acc, scaled) == (131071 * 127 * 16256, 131071 * 127 * 16256 << 20)
    assert acc < bounds.PLANES_END
    assert bounds.largest_products(weight, channel, fixedpoint.INT8_MAX)[0] < bounds.INT32_END
    assert [bounds.inner_bound(scaled, shift) for shift in (0, 27)] == [scaled + 1, (scaled >> 27) + 1]


@pytest.mark.parametrize("name", LINEARS)
@pytest.mark.parametrize("key", ["acc", "inner"])
@pytest.mark.parametrize("step", [-1, 1])
def test_bounds_are_computed_anew(name: str, key: str, step: int) -> None:
    metadata = changed()
    metadata["linears"][name][key] += step
    with pytest.raises(ModelDamagedError, match="bounds"):
        load_weights(metadata, contents()[1], "cpu")


@pytest.mark.parametrize("name", LINEARS)
def test_weights_with_the_bounds_of_others_are_refused(name: str) -> None:
    weight = contents()[1][f"{name}.weight"]
    row = int(np.abs(weight.astype(np.int64)).sum(1).argmax())
    index = row * weight.shape[1] + int(np.abs(weight[row]).argmin())
    with pytest.raises(ModelDamagedError, match="bounds"):
        load_weights(contents()[0], with_tensor(f"{name}.weight", index, 127), "cpu")


@pytest.mark.parametrize("name", LINEARS)
@pytest.mark.parametrize(
    ("part", "value"), [("weight", -128), ("channel", 0), ("channel", -5), ("channel", (1 << 20) + 1)]
)
def test_values_out_of_range_are_refused_whatever_the_bounds_say(name: str, part: str, value: int) -> None:
    tensors = with_tensor(f"{name}.{part}", 3, value)
    with pytest.raises(ModelDamagedError, match="out of range"):
        load_weights(restated(tensors, name), tensors, "cpu")


@pytest.mark.parametrize("name", LINEARS)
def test_other_values_within_range_load(name: str) -> None:
    tensors = with_tensor(f"{name}.weight", 3, -127)
    load_weights(restated(tensors, name), tensors, "cpu")


@pytest.mark.parametrize("name", LINEARS)
def test_a_shift_too_small_for_the_weights_is_refused(name: str) -> None:
    channel = np.full_like(contents()[1][f"{name}.channel"], 1 << 20)
    tensors = contents()[1] | {f"{name}.channel": channel}
    metadata = restated(tensors, name)
    entry = metadata["linears"][name]
    entry["inner"], entry["k1"] = (entry["acc"] << 20) + 1, 0
    with pytest.raises(ModelDamagedError, match="bounds"):
        load_weights(metadata, tensors, "cpu")


@pytest.mark.parametrize("key", ["k1", "k2", "acc", "inner"])
@pytest.mark.parametrize("value", [True, 12.0, "12", None])
def test_shifts_and_bounds_are_integers(key: str, value: object) -> None:
    metadata = changed()
    metadata["linears"]["head"][key] = value
    with pytest.raises(ModelDamagedError, match="integers"):
        load_weights(metadata, contents()[1], "cpu")


@pytest.mark.parametrize("version", [True, 1.0])
def test_a_version_that_equals_one_is_not_yet_one(version: object) -> None:
    with pytest.raises(UnsupportedError):
        load_weights(changed({"exact_version": version}), contents()[1], "cpu")


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("value", [0, True])
def test_nothing_and_truth_are_no_sizes(name: str, value: object) -> None:
    with pytest.raises(ModelDamagedError, match=name):
        load_weights(changed({name: value}), contents()[1], "cpu")


def test_pinned_digests_are_those_of_the_tables() -> None:
    exp2 = tables.exp2_table(fixedpoint.EXP2_INDEX_BITS, fixedpoint.EXP2_BITS)
    sigmoid = tables.sigmoid_table(tables.SIGMOID_STEP_BITS, tables.SIGMOID_HALF, fixedpoint.FRAC_SIGMOID)
    assert tables.digest(exp2) == tables.EXP2_DIGEST
    assert tables.digest(sigmoid) == tables.SIGMOID_DIGEST
    assert tables.digest(sigmoid.astype(">i4")) == tables.SIGMOID_DIGEST


@pytest.mark.parametrize("name", ["exp2", "sigmoid"])
@pytest.mark.parametrize("index", [0, 1234, -1])
def test_a_table_of_other_values_is_refused(name: str, index: int) -> None:
    tensors = with_tensor(name, index, int(contents()[1][name][index]) + 1)
    with pytest.raises(ModelDamagedError, match=f"table {name}"):
        load_weights(contents()[0], tensors, "cpu")


@pytest.mark.parametrize("value", [32769, -32769, (1 << 31) - 1, -(1 << 31)])
def test_rotary_entries_are_bounded(value: int) -> None:
    with pytest.raises(ModelDamagedError, match="rotary"):
        load_weights(contents()[0], with_tensor("rotary", 77, value), "cpu")
    load_weights(contents()[0], with_tensor("rotary", 77, max(-32768, min(value, 32768))), "cpu")


WHOLE_MATRICES = [
    ("layers.0.qkv", ["layers.0.q", "layers.0.k", "layers.0.v"]),
    ("layers.0.qkv", ["layers.0.attn_norm"]),
    ("layers.1.o", ["layers.1.o"]),
    ("layers.0.gate_up", ["layers.0.gate", "layers.0.up"]),
    ("layers.1.down", ["layers.1.down"]),
    ("head", ["head"]),
    ("head", ["norm"]),
]


@pytest.mark.parametrize(("matrix", "parts"), WHOLE_MATRICES, ids=str)
def test_a_matrix_of_zeros_converts(matrix: str, parts: list[str]) -> None:
    metadata, tensors = convert(with_zeros(*parts))
    assert not tensors[f"{matrix}.weight"].any()
    assert len(set(tensors[f"{matrix}.channel"].tolist())) == 1
    entry = metadata["linears"][matrix]
    assert (entry["k1"], entry["acc"], entry["inner"]) == (0, 0, 1)
    load_weights(metadata, tensors, "cpu")


def test_rows_of_zeros_have_the_largest_scale_of_their_matrix() -> None:
    metadata, tensors = convert(with_zeros("layers.0.gate"))
    channel = tensors["layers.0.gate_up.channel"]
    assert (channel[: CONFIG.ffn] == channel[CONFIG.ffn :].max()).all()
    load_weights(metadata, tensors, "cpu")


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"hidden": 8193}, "hidden"),
        ({"head_dim": 258}, "head_dim"),
        ({"ffn": 131072}, "ffn"),
        ({"vocab": (1 << 18) + 1}, "vocab"),
        ({"heads": 1024, "head_dim": 128}, "too wide"),
        ({"layers": 0}, "layers"),
        ({"rope_theta": 0.999}, "rope_theta"),
        ({"rope_theta": float("nan")}, "rope_theta"),
        ({"rope_theta": float("inf")}, "rope_theta"),
        ({"rms_eps": 0.0}, "rms_eps"),
    ],
    ids=str,
)
def test_configurations_that_could_not_be_loaded_are_refused(sizes: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        replace(CONFIG, **sizes)


def test_the_largest_configuration_is_possible() -> None:
    sizes: dict[str, Any] = {name: bounds.RANGES[name][1] for name in ("hidden", "ffn", "vocab")}
    replace(CONFIG, heads=508, kv_heads=508, head_dim=256, rope_theta=1.0, **sizes)


def test_an_epsilon_beyond_the_proof_is_refused() -> None:
    largest = 2047.9 / CONFIG.hidden
    assert bounds.flaw(convert(replace(checkpoint(), config=replace(CONFIG, rms_eps=largest, context=4)))[0]) is None
    with pytest.raises(ModelError, match="norm_epsilon"):
        convert(replace(checkpoint(), config=replace(CONFIG, rms_eps=2048.1 / CONFIG.hidden)))
