"""Attention row by row: the VNNI loops and the plain ones give the same integers, at every edge of their blocks."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from speccompact.exact import fusedrows, tables, vectors, vnni

EXP2 = tables.exp2_table(12, 23)
CAPACITY = 2112
EXTREMES = np.array([-127, 127], dtype=np.int8)

Arrays = tuple[npt.NDArray[Any], ...]


def inputs(heads: int, kv_heads: int, positions: list[int], seed: int, extreme: bool) -> Arrays:
    """Arguments of `attend_rows` for rows at the given positions, each in a place of its own, without the output."""
    values = np.random.Generator(np.random.PCG64(seed))
    rows, width = len(positions), vnni.WIDTH

    def int8(*shape: int) -> npt.NDArray[np.int8]:
        drawn = values.choice(EXTREMES, shape) if extreme else values.integers(-127, 128, shape)
        return drawn.astype(np.int8)

    query = int8(rows, heads, width)
    factor = values.integers(1, 1 << (31 if extreme else 16), (rows, heads)).astype(np.int32)
    place, position = np.arange(rows), np.array(positions, dtype=np.int64)
    keys, cached = (int8(rows, kv_heads, CAPACITY, width) for _ in range(2))
    scales = [
        values.integers(1, 1 << (25 if extreme else 15), (rows, kv_heads, CAPACITY)).astype(np.int32) for _ in range(2)
    ]
    return query, factor, EXP2, place, position, keys, cached, scales[0], np.minimum(scales[1], 1 << 24)


def packed(keys: npt.NDArray[np.int8], values: npt.NDArray[np.int8]) -> Arrays:
    """The same keys and values as a packed cache."""
    places, heads, count, width = keys.shape
    key_blocks = (keys ^ -128).reshape(places, heads, count // 16, 16, width // 4, 4).swapaxes(3, 4)
    value_blocks = values.reshape(places, heads, count // 4, 4, width).swapaxes(3, 4)
    return tuple(np.ascontiguousarray(blocks).reshape(keys.shape) for blocks in (key_blocks, value_blocks))


def attended(arguments: Any) -> npt.NDArray[np.int32]:
    query, keys, values = arguments[0], arguments[5], arguments[6]
    out = np.zeros((query.shape[0], query.shape[1] * query.shape[2]), dtype=np.int32)
    cache = packed(keys, values) if fusedrows.packed(query.shape[2]) else (keys, values)
    attend: Any = fusedrows.attend_rows
    attend(*arguments[:5], *cache, *arguments[7:], out)
    return out


def test_keys_and_values_are_written_as_the_packed_cache_lays_them_out() -> None:
    keys, values = inputs(3, 3, [0, 1], seed=4, extreme=False)[5:7]
    cache = np.zeros_like(keys), np.zeros_like(values)
    for place, head, position in np.ndindex(*keys.shape[:3]):
        vnni.write_key(cache[0][place, head], position, keys[place, head, position])
        vnni.write_value(cache[1][place, head], position, values[place, head, position])
    assert all(np.array_equal(*pair) for pair in zip(cache, packed(keys, values), strict=True))


@pytest.mark.skipif(not vectors.available(), reason="this CPU has no AVX-512 VNNI: only the plain loops exist here")
@pytest.mark.parametrize("extreme", [False, True], ids=["ordinary", "extreme"])
@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (9, 3), (8, 2), (12, 2)])
def test_both_ways_give_the_same_integers(
    heads: int, kv_heads: int, extreme: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    positions = [0, 1, 2, 14, 15, 16, 17, 31, 32, 62, 63, 64, 65, 1022, 1023, 1024, 1025, 2047, 2048]
    arguments = inputs(heads, kv_heads, positions, seed=heads, extreme=extreme)
    fast = attended(arguments)
    monkeypatch.setattr(vectors, "available", lambda: False)
    assert np.array_equal(fast, attended(arguments))


def test_a_single_visible_key_gives_back_its_value() -> None:
    arguments = inputs(3, 1, [0], seed=1, extreme=False)
    cached, scales = arguments[6], arguments[8]
    wanted = cached[0, 0, 0].astype(np.float64) * scales[0, 0, 0] / 127 * 16
    found = attended(arguments).reshape(3, vnni.WIDTH)
    assert np.allclose(found, wanted, rtol=1e-3, atol=16)


@pytest.mark.parametrize("capable", [True, False])
def test_what_lies_beyond_the_position_does_not_matter(capable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not capable:
        monkeypatch.setattr(vectors, "available", lambda: False)
    arguments = inputs(3, 1, [0, 5, 20, 100], seed=2, extreme=False)
    before = attended(arguments)
    for row, position in enumerate(arguments[4].tolist()):
        for array in arguments[5:]:
            array[row, :, position + 1 :] = -77
    assert np.array_equal(before, attended(arguments))
