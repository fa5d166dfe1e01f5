"""GGML tensor types: sizes and dequantisation to float32.

Every value is computed with single IEEE float32 operations in the order written here, elementwise, so the result is
the same on every machine. Where a formula has a product and a sum, each is rounded on its own (never fused).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]

_CHUNK_BLOCKS = 1 << 15
"""Blocks dequantised at a time: bounds the intermediate arrays to some tens of megabytes."""


@dataclass(frozen=True, slots=True)
class BlockType:
    """One GGML tensor type.

    Attributes:
        name: the field's name for it, such as "Q4_1".
        values: values in a block, along the last axis of the tensor.
        size: bytes of a block.
        decode: (blocks, size) uint8 -> (blocks, values) float32.
    """

    name: str
    values: int
    size: int
    decode: Callable[[Bytes], Floats]


def dequantise(kind: BlockType, data: Bytes) -> Floats:
    """Turn the bytes of a tensor into float32 values.

    Args:
        kind: the type of the tensor.
        data: (n * kind.size,) uint8.

    Returns:
        (n * kind.values,) float32.
    """
    blocks = data.reshape(-1, kind.size)
    result = np.empty((blocks.shape[0], kind.values), np.float32)
    # damaged scales overflow or are NaN: that is for whoever checks the tensor, not a warning
    with np.errstate(all="ignore"):
        for start in range(0, blocks.shape[0], _CHUNK_BLOCKS):
            piece = slice(start, start + _CHUNK_BLOCKS)
            result[piece] = kind.decode(np.ascontiguousarray(blocks[piece]))
    return result.reshape(-1)


def bfloat16_to_float32(data: Bytes) -> Floats:
    """Widen bfloat16 values, little-endian, (..., 2n) uint8 -> (..., n) float32; exact."""
    return (data.view("<u2").astype(np.uint32) << np.uint32(16)).view(np.float32)


def _half(blocks: Bytes, offset: int) -> Floats:
    """Return the float16 at a byte offset of every block, widened: (blocks, 1) float32."""
    return np.ascontiguousarray(blocks[:, offset : offset + 2]).view("<f2").astype(np.float32)


def _nibbles(packed: Bytes) -> Bytes:
    """Split (..., n) bytes into (..., 2n): all low halves, then all high halves."""
    return np.concatenate([packed & np.uint8(15), packed >> np.uint8(4)], axis=-1)


def _fifth_bits(packed: Bytes) -> Bytes:
    """Spread a 32-bit little-endian mask, (blocks, 4) bytes, to (blocks, 32) values 0 or 16."""
    return np.unpackbits(packed, axis=-1, bitorder="little") << np.uint8(4)


def _f32(blocks: Bytes) -> Floats:
    return blocks.view("<f4").astype(np.float32)


def _f16(blocks: Bytes) -> Floats:
    return blocks.view("<f2").astype(np.float32)


def _q4_0(blocks: Bytes) -> Floats:
    return _half(blocks, 0) * (_nibbles(blocks[:, 2:]).astype(np.float32) - np.float32(8))


def _q4_1(blocks: Bytes) -> Floats:
    return _half(blocks, 0) * _nibbles(blocks[:, 4:]).astype(np.float32) + _half(blocks, 2)


def _q5_0(blocks: Bytes) -> Floats:
    levels = _nibbles(blocks[:, 6:]) | _fifth_bits(blocks[:, 2:6])
    return _half(blocks, 0) * (levels.astype(np.float32) - np.float32(16))


def _q5_1(blocks: Bytes) -> Floats:
    levels = _nibbles(blocks[:, 8:]) | _fifth_bits(blocks[:, 4:8])
    return _half(blocks, 0) * levels.astype(np.float32) + _half(blocks, 2)


def _q8_0(blocks: Bytes) -> Floats:
    return _half(blocks, 0) * blocks[:, 2:].view(np.int8).astype(np.float32)


def _k_scales(packed: Bytes) -> tuple[Floats, Floats]:
    """Unpack the eight 6-bit scales and minima of a 256-value block.

    Args:
        packed: (blocks, 12) uint8. Bytes 0-3 hold scales 0-3 and bytes 4-7 minima 0-3 in their low six bits; bytes
            8-11 hold the low four bits of scales 4-7 (low half) and minima 4-7 (high half), whose upper two bits are
            the top bits of bytes 0-3 and 4-7.

    Returns:
        Scales and minima, (blocks, 8, 1) float32 each.
    """
    first, second, third = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    low, high, six = np.uint8(15), np.uint8(0x30), np.uint8(63)
    scales = np.concatenate([first & six, (third & low) | ((first >> np.uint8(2)) & high)], axis=1)
    minima = np.concatenate([second & six, (third >> np.uint8(4)) | ((second >> np.uint8(2)) & high)], axis=1)
    return scales.astype(np.float32)[:, :, None], minima.astype(np.float32)[:, :, None]


def _k_blocks(blocks: Bytes, levels: Bytes) -> Floats:
    """Apply (d * scale) * level - (dmin * minimum) to (blocks, 8, 32) levels."""
    scales, minima = _k_scales(blocks[:, 4:16])
    step = _half(blocks, 0)[:, :, None] * scales
    floor = _half(blocks, 2)[:, :, None] * minima
    return (step * levels.astype(np.float32) - floor).reshape(-1, 256)


def _q4_k(blocks: Bytes) -> Floats:
    # 32 bytes hold sub-block 2i in their low halves and sub-block 2i+1 in their high halves
    levels = _nibbles(blocks[:, 16:].reshape(-1, 4, 32)).reshape(-1, 8, 32)
    return _k_blocks(blocks, levels)


def _q5_k(blocks: Bytes) -> Floats:
    levels = _nibbles(blocks[:, 48:].reshape(-1, 4, 32)).reshape(-1, 8, 32)
    # bit i of byte j is the fifth bit of value j of sub-block i
    shifts = np.arange(8, dtype=np.uint8)[None, :, None]
    fifth = (blocks[:, 16:48][:, None, :] >> shifts) & np.uint8(1)
    return _k_blocks(blocks, levels | (fifth << np.uint8(4)))


def _q6_k(blocks: Bytes) -> Floats:
    # a half of 128 values takes 64 bytes of low nibbles and 32 bytes of top bit pairs
    low = _nibbles(blocks[:, :128].reshape(-1, 2, 64))
    shifts = np.array([0, 2, 4, 6], np.uint8)[None, None, :, None]
    top = (blocks[:, 128:192].reshape(-1, 2, 1, 32) >> shifts) & np.uint8(3)
    levels = (low | (top.reshape(-1, 2, 128) << np.uint8(4))).view(np.int8).astype(np.float32) - np.float32(32)
    scales = np.ascontiguousarray(blocks[:, 192:208]).view(np.int8).astype(np.float32)
    step = _half(blocks, 208) * scales
    return (step[:, :, None] * levels.reshape(-1, 16, 16)).reshape(-1, 256)


BLOCK_TYPES: dict[int, BlockType] = {
    0: BlockType("F32", 1, 4, _f32),
    1: BlockType("F16", 1, 2, _f16),
    2: BlockType("Q4_0", 32, 18, _q4_0),
    3: BlockType("Q4_1", 32, 20, _q4_1),
    6: BlockType("Q5_0", 32, 22, _q5_0),
    7: BlockType("Q5_1", 32, 24, _q5_1),
    8: BlockType("Q8_0", 32, 34, _q8_0),
    12: BlockType("Q4_K", 256, 144, _q4_k),
    13: BlockType("Q5_K", 256, 176, _q5_k),
    14: BlockType("Q6_K", 256, 210, _q6_k),
    30: BlockType("BF16", 1, 2, bfloat16_to_float32),
}
"""Supported GGML types by their number in the file."""
