"""Loading refuses what would break the arithmetic."""

from typing import Any

import numpy as np
import pytest

from speccompact.errors import ModelDamagedError, UnsupportedError
from speccompact.exact.weights import load_weights
from tests.exact_inputs import changed, weights
from tests.tiny_model import CONFIG, contents


def test_the_tiny_model_loads() -> None:
    loaded = weights()
    assert (loaded.hidden, loaded.heads, loaded.vocab, len(loaded.layers)) == (48, 6, 460, 2)
    assert loaded.cache_bytes_per_token == 2 * 2 * 2 * (8 + 4)
    assert loaded.rotary.shape == (CONFIG.context, CONFIG.head_dim)


@pytest.mark.parametrize("version", [0, 2, "1"])
def test_another_exact_version_is_named(version: object) -> None:
    with pytest.raises(UnsupportedError, match="exact version"):
        load_weights(changed({"exact_version": version}), contents()[1], "cpu")


@pytest.mark.parametrize("key", sorted(contents()[0]))
def test_a_missing_value_is_damage(key: str) -> None:
    metadata = changed()
    del metadata[key]
    with pytest.raises(ModelDamagedError):
        load_weights(metadata, contents()[1], "cpu")


@pytest.mark.parametrize("key", [key for key, value in contents()[0].items() if type(value) is int])
@pytest.mark.parametrize("value", [-1, 1 << 60, 1.5, None, "48"])
def test_an_impossible_number_is_damage(key: str, value: object) -> None:
    with pytest.raises((ModelDamagedError, UnsupportedError)):
        load_weights(changed({key: value}), contents()[1], "cpu")


@pytest.mark.parametrize(
    "sizes",
    [
        {"hidden": 8193}, {"head_dim": 7}, {"head_dim": 258}, {"kv_heads": 4}, {"heads": 5}, {"layers": 3},
        {"vocab": 461},
    ],
    ids=str,
)  # fmt: skip
def test_an_impossible_shape_is_damage(sizes: dict[str, int]) -> None:
    with pytest.raises(ModelDamagedError):
        load_weights(changed(sizes), contents()[1], "cpu")


@pytest.mark.parametrize("name", ["layers.0.qkv", "layers.1.o", "layers.0.gate_up", "layers.1.down", "head"])
@pytest.mark.parametrize(
    "bound",
    [
        {"k1": -1}, {"k1": 41}, {"k2": 0}, {"k2": 63}, {"inner": 1 << 31}, {"inner": -1}, {"acc": -1}, {"acc": 1 << 60},
        {"acc": None}, {"k1": "3"},
    ],
    ids=str,
)  # fmt: skip
def test_a_bound_that_does_not_hold_is_refused(name: str, bound: dict[str, Any]) -> None:
    metadata = changed()
    metadata["linears"][name] |= bound
    with pytest.raises(ModelDamagedError):
        load_weights(metadata, contents()[1], "cpu")


@pytest.mark.parametrize("name", ["embed", "exp2", "sigmoid", "rotary", "head.weight", "head.channel"])
def test_a_tensor_that_is_missing_or_of_another_kind_is_damage(name: str) -> None:
    good = contents()[1]
    for wrong in (None, good[name][:-1], good[name].astype(np.int64), good[name].reshape(-1, 1)):
        tensors = {key: value for key, value in good.items() if key != name}
        if wrong is not None:
            tensors[name] = wrong
        with pytest.raises(ModelDamagedError):
            load_weights(contents()[0], tensors, "cpu")
