"""Scalar integer functions for the fused kernels, and how those are compiled."""

import contextlib
import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

Integer = Any
"""A scalar of a compiled function: the compiler's integer types are no subtypes of int."""

_F = TypeVar("_F", bound=Callable[..., Any])


def jit(function: _F) -> _F:
    """Compile a kernel: kept on disk if anything can be, the interpreter lock released while it runs.

    In the exact zone kernels are of integers only.

    Numba takes a compiled kernel for fresh as long as the file of its function has the same time and size. That says
    nothing of what the kernel has inlined from other modules, so here all of the source decides.
    """
    compiled: Any = numba.njit(nogil=True)(function)
    if hasattr(compiled, "enable_caching"):  # not where a user has turned compiling off
        # where neither the package's folder nor the user's cache can be written, every process compiles
        with contextlib.suppress(RuntimeError):
            compiled.enable_caching()
            compiled._cache._cache_file._source_stamp = _source_digest()
    return cast(_F, compiled)


@functools.cache
def _source_digest() -> str:
    """Return a digest of all modules that kernels are made of."""
    package = Path(__file__).parent.parent
    packages = ("exact", "memory", "entropy", "speculative")
    files = (file for name in packages for file in sorted(package.glob(f"{name}/*.py")))
    return hashlib.sha256(b"".join(file.read_bytes() for file in (package.joinpath("params.py"), *files))).hexdigest()


@jit
def largest_of(row: Array) -> Integer:
    """Return the largest of one or more numbers."""
    largest = row[0]
    for i in range(row.shape[0]):
        largest = max(largest, row[i])
    return largest


@jit
def bit_length(x: Integer) -> Integer:
    """See `fixedpoint.bit_length`; x >= 0."""
    bits = np.int64(0)
    while x > 0:
        x >>= 1
        bits += 1
    return bits


@jit
def isqrt(x: Integer) -> Integer:
    """See `fixedpoint.isqrt`; 0 <= x < 2**62."""
    root = np.int64(0)
    bit = np.int64(1) << 30
    while bit > 0:
        trial = root + bit
        if trial * trial <= x:
            root = trial
        bit >>= 1
    return root


@jit
def reciprocal_of(largest: Integer, limit: Integer) -> tuple[Integer, Integer]:
    """Reciprocal and exponent of `fixedpoint.quantise` for a row whose largest magnitude is given (>= 1)."""
    exponent = bit_length(largest) + 30 - bit_length(limit)
    return (np.int64(limit) << exponent) // largest, exponent


@jit
def requantise(
    acc: Integer, channel: Integer, row: Integer, k1: Integer, half1: Integer, k2: Integer, half2: Integer
) -> Integer:
    """See `fixedpoint.requantise`, before the clamp; half = 2**k / 2, or 0 for k = 0."""
    inner = (np.int64(acc) * np.int64(channel) + half1) >> k1
    return (np.int64(np.int32(inner)) * np.int64(np.int32(row)) + half2) >> k2
