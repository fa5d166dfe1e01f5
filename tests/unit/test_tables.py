"""Tables are part of the format of the arithmetic: their digests never change."""

import hashlib
import math

import numpy as np
import numpy.typing as npt
import pytest

from speccompact.exact import fixedpoint, tables


def digest(table: npt.NDArray[np.int32]) -> str:
    return hashlib.sha256(np.ascontiguousarray(table, "<i4").tobytes()).hexdigest()


def test_exp2_table() -> None:
    table = tables.exp2_table(fixedpoint.EXP2_INDEX_BITS, fixedpoint.EXP2_BITS)
    assert table.dtype == np.int32
    assert table.shape == (4096,)
    assert [int(table[i]) for i in (0, 1, 2048, 4095)] == [8388608, 8387189, 5931642, 4195014]
    assert np.abs(table - 2.0 ** (23 - np.arange(4096) / 4096)).max() < 0.5001
    assert digest(table) == "0d94419093c10cffe13757f71c1a03448da41931dd9ed421b9a5c5a496253cfc"


def test_sigmoid_table() -> None:
    table = tables.sigmoid_table(10, 1 << 14, fixedpoint.FRAC_SIGMOID)
    assert table.dtype == np.int32
    assert table.shape == (32768,)
    assert int(table[1 << 14]) == 1 << 15
    x = (np.arange(32768) - 16384) / 1024
    assert np.abs(table - 65536 / (1 + np.exp(-x))).max() < 0.5001
    assert (np.diff(table) >= 0).all()
    assert (table[1:] + table[:0:-1] - 65536 <= 1).all()
    assert digest(table) == "1ffdfecf5d406e67f752a829ed1928319283063dc2001025005fe0baf3a30a77"


@pytest.mark.parametrize(
    ("base", "width", "positions", "wanted"),
    [
        (10000.0, 8, 2048, "3a29cd097eaf11471a058f46d467318cb73ec018c407b8fee6eef67120c10f85"),
        (100000.0, 64, 256, "c8060f22efd1c19972add976c45dae2f879b355327301c2f34c5ff09beb4a689"),
    ],
)
def test_rotary_table(base: float, width: int, positions: int, wanted: str) -> None:
    table = tables.rotary_table(base, width, positions, fixedpoint.FRAC_ROTARY)
    assert table.dtype == np.int32
    assert table.shape == (positions, width)
    half = width // 2
    assert table[0].tolist() == [1 << 15] * half + [0] * half
    angle = np.arange(positions)[:, None] * base ** (-2 * np.arange(half) / width)
    assert np.abs(table[:, :half] - 32768 * np.cos(angle)).max() < 0.501
    assert np.abs(table[:, half:] - 32768 * np.sin(angle)).max() < 0.501
    assert digest(table) == wanted


def test_a_longer_rotary_table_begins_with_the_shorter() -> None:
    long, short = (tables.rotary_table(10000.0, 8, positions, 15) for positions in (300, 7))
    assert (long[:7] == short).all()


def test_log2_e() -> None:
    assert math.isclose(tables.log2_e() / 2**tables.GUARD, math.log2(math.e), rel_tol=1e-15)
