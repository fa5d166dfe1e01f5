"""Probabilities and their log-odds in integers, for the kernels of the memory: EXACT.md section 11.2.

A probability is an integer p in (0, 2**PROBABILITY_BITS); its log-odds ("stretch") is log2(p / (1 - p)) with
FRAC_ODDS fractional bits, kept within +-ODDS_LIMIT. Mixing in this domain is that of Mattern (2012) and of Mahoney's
PAQ7 (2005), here in base 2.
"""

from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from speccompact.exact.fixedpoint import EXP2_BITS, EXP2_INDEX_BITS
from speccompact.exact.fusedscalar import Array, Integer, bit_length, jit
from speccompact.exact.tables import log2_table

PROBABILITY_BITS: Final = 22
PROBABILITY_ONE: Final = 1 << PROBABILITY_BITS
FRAC_ODDS: Final = 12
ODDS_LIMIT: Final = 20 << FRAC_ODDS
"""Log-odds beyond 2**20 to 1 either way are not told apart."""

MIN_PROBABILITY: Final = 1 << 2
"""Flags are at least so likely, and at most one less this, so that no flag costs more than 20 bits."""

MANTISSA_BITS: Final = 12


@jit
def log2(x: Integer, table: Array) -> Integer:
    """log2 of an integer >= 1 with FRAC_ODDS fractional bits, from its MANTISSA_BITS bits below the leading one.

    Args:
        x: int64, 1 <= x < 2**62.
        table: (4096,) int32, `tables.log2_table`.
    """
    whole = bit_length(x) - 1
    mantissa = x >> (whole - MANTISSA_BITS) if whole >= MANTISSA_BITS else x << (MANTISSA_BITS - whole)
    return (whole << FRAC_ODDS) + table[mantissa & ((1 << MANTISSA_BITS) - 1)]


@cache
def log2_of_mantissas() -> npt.NDArray[np.int32]:
    """Return the table for `log2`."""
    return log2_table(MANTISSA_BITS, FRAC_ODDS)


def cost_of(frequencies: npt.NDArray[np.int64], precision: int) -> int:
    """Return what symbols of these frequencies, each of 2**precision, cost in bits with FRAC_ODDS fractional bits."""
    return int(_cost(frequencies, precision, log2_of_mantissas()))


@jit
def _cost(frequencies: Array, precision: Integer, table: Array) -> Integer:
    total = np.int64(0)
    for i in range(frequencies.shape[0]):
        total += (np.int64(precision) << FRAC_ODDS) - log2(frequencies[i], table)
    return total


@jit
def odds_of(part: Integer, rest: Integer, table: Array) -> Integer:
    """Log-odds of part against rest, both int64 in [0, 2**62); 0 stands for less than anything."""
    if part <= 0:
        return np.int64(-ODDS_LIMIT)
    if rest <= 0:
        return np.int64(ODDS_LIMIT)
    return max(-ODDS_LIMIT, min(ODDS_LIMIT, log2(part, table) - log2(rest, table)))


@jit
def squash(odds: Integer, exp2: Array) -> Integer:
    """Probability of given log-odds: floor(2**(22 + 23) / (2**23 + e)), or what is left of 1 for negative odds.

    Here e is the exp2 weight of the odds without their sign.

    Args:
        odds: int64, |odds| <= ODDS_LIMIT.
        exp2: (4096,) int32, `tables.exp2_table`: its index is the fraction of the odds.
    """
    size = abs(odds)
    small = np.int64(exp2[size & ((1 << EXP2_INDEX_BITS) - 1)]) >> (size >> FRAC_ODDS)
    likely = (np.int64(1) << (PROBABILITY_BITS + EXP2_BITS)) // ((np.int64(1) << EXP2_BITS) + small)
    return likely if odds >= 0 else PROBABILITY_ONE - likely
