"""Every block layout, decoded by hand with Python numbers, against the vectorised decoder."""

import struct
from collections.abc import Callable

import numpy as np
import pytest

from speccompact.modelstore.blocktypes import BLOCK_TYPES, dequantise

F = np.float32


def half(block: bytes, offset: int) -> np.float32:
    return F(struct.unpack_from("<e", block, offset)[0])


def nibble(packed: bytes, index: int, width: int) -> int:
    return packed[index] & 15 if index < width else packed[index - width] >> 4


def q4_0(b: bytes) -> list[np.float32]:
    return [half(b, 0) * F(nibble(b[2:], i, 16) - 8) for i in range(32)]


def q4_1(b: bytes) -> list[np.float32]:
    return [half(b, 0) * F(nibble(b[4:], i, 16)) + half(b, 2) for i in range(32)]


def fifth(packed: bytes, index: int) -> int:
    return (int.from_bytes(packed, "little") >> index & 1) << 4


def q5_0(b: bytes) -> list[np.float32]:
    return [half(b, 0) * F((nibble(b[6:], i, 16) | fifth(b[2:6], i)) - 16) for i in range(32)]


def q5_1(b: bytes) -> list[np.float32]:
    return [half(b, 0) * F(nibble(b[8:], i, 16) | fifth(b[4:8], i)) + half(b, 2) for i in range(32)]


def q8_0(b: bytes) -> list[np.float32]:
    return [half(b, 0) * F(level) for level in struct.unpack_from("<32b", b, 2)]


def k_scale(s: bytes, j: int) -> tuple[int, int]:
    if j < 4:
        return s[j] & 63, s[j + 4] & 63
    return (s[j + 4] & 15) | (s[j - 4] >> 6) << 4, (s[j + 4] >> 4) | (s[j] >> 6) << 4


def k_block(b: bytes, level: Callable[[int, int], int]) -> list[np.float32]:
    values = []
    for j in range(8):
        scale, minimum = k_scale(b[4:16], j)
        step, floor = half(b, 0) * F(scale), half(b, 2) * F(minimum)
        values += [step * F(level(j, i)) - floor for i in range(32)]
    return values


def q4_k(b: bytes) -> list[np.float32]:
    return k_block(b, lambda j, i: b[16 + j // 2 * 32 + i] >> 4 * (j % 2) & 15)


def q5_k(b: bytes) -> list[np.float32]:
    return k_block(b, lambda j, i: (b[48 + j // 2 * 32 + i] >> 4 * (j % 2) & 15) | (b[16 + i] >> j & 1) << 4)


def q6_k(b: bytes) -> list[np.float32]:
    values = []
    for i in range(256):
        part, place = divmod(i, 128)
        group, lane = divmod(place, 32)
        low = b[part * 64 + place % 64] >> 4 * (place // 64) & 15
        top = b[128 + part * 32 + lane] >> 2 * group & 3
        scale = struct.unpack_from("<b", b, 192 + i // 16)[0]
        values.append(half(b, 208) * F(scale) * F((low | top << 4) - 32))
    return values


def bf16(b: bytes) -> list[np.float32]:
    return [F(struct.unpack("<f", b"\0\0" + b)[0])]


ORACLES = {
    "F32": lambda b: [F(struct.unpack("<f", b)[0])],
    "F16": lambda b: [half(b, 0)],
    "BF16": bf16,
    "Q4_0": q4_0,
    "Q4_1": q4_1,
    "Q5_0": q5_0,
    "Q5_1": q5_1,
    "Q8_0": q8_0,
    "Q4_K": q4_k,
    "Q5_K": q5_k,
    "Q6_K": q6_k,
}


@pytest.mark.parametrize("number", BLOCK_TYPES)
def test_blocks_decode_to_the_same_bits_as_by_hand(number: int) -> None:
    kind = BLOCK_TYPES[number]
    data = np.random.default_rng(number).integers(0, 256, (40, kind.size), dtype=np.uint8)
    with np.errstate(all="ignore"):
        wanted = np.array([ORACLES[kind.name](bytes(block)) for block in data], np.float32).reshape(-1)
    found = dequantise(kind, data.reshape(-1))
    assert found.dtype == np.float32
    same = (found.view(np.uint32) == wanted.view(np.uint32)) | (np.isnan(found) & np.isnan(wanted))
    assert same.all()


def test_long_tensors_are_decoded_in_pieces_without_a_seam() -> None:
    kind = BLOCK_TYPES[8]
    block = np.frombuffer(struct.pack("<e32b", 0.5, *range(32)), np.uint8)
    found = dequantise(kind, np.tile(block, 70_000)).reshape(-1, 32)
    assert (found == np.arange(32, dtype=np.float32) / 2).all()
