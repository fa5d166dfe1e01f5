"""From dot products to attention coefficients, one row of one head at a time, for the fused CPU kernels."""

import numpy as np

from speccompact.exact import fixedpoint
from speccompact.exact.fusedscalar import Array, Integer, bit_length, jit

COEFFICIENT_MAX = (1 << fixedpoint.MIX_BITS) - 1

_SCORE_LIMIT = fixedpoint.SCORE_LIMIT
_FACTOR_LIMIT = fixedpoint.FACTOR_LIMIT
_LIFT = fixedpoint.FRAC_RESIDUAL - fixedpoint.FRAC_PROJECTION


@jit
def weigh(score: Array, factor: Integer, key_scale: Array, value_scale: Array, exp2: Array) -> tuple[Integer, Integer]:
    """Dot products to exp2 weights, in place.

    Args:
        score: (seen,) int32 dot products of one query with the visible keys.
        factor: scale of the query.
        key_scale, value_scale: int32, of the slot's positions.
        exp2: the exp2 table.

    Returns:
        The sum of the weights, and the shift that brings weight * value scale to MIX_BITS bits.
    """
    limit, factor_limit = np.int64(_SCORE_LIMIT), np.int64(_FACTOR_LIMIT)
    top = np.int32(-_SCORE_LIMIT)
    for j in range(score.shape[0]):
        gain = min((np.int64(np.int32(factor)) * np.int64(key_scale[j]) + (1 << 15)) >> 16, factor_limit)
        scaled = (np.int64(score[j]) * np.int64(np.int32(gain)) + (1 << 13)) >> 14
        score[j] = np.int32(min(max(scaled, -limit), limit))
        top = max(top, score[j])
    total, largest = np.int64(0), np.int64(0)
    for j in range(score.shape[0]):
        distance = np.int32(top - score[j])
        weight = np.int32(exp2[(distance >> 4) & 4095] >> min(distance >> 16, 31))
        score[j] = weight
        total += weight
        largest = max(largest, np.int64(weight) * np.int64(value_scale[j]))
    return total, bit_length(largest) - fixedpoint.MIX_BITS


@jit
def divisor(total: Integer, shift: Integer) -> tuple[Integer, Integer]:
    """Reciprocal and final shift that turn a sum of coefficient * value into a weighted mean."""
    total *= fixedpoint.INT8_MAX
    exponent = bit_length(total) + 19
    return (np.int64(1) << exponent) // total, exponent - shift - _LIFT
