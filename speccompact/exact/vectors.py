"""Vectors of 512 bits for Numba kernels: whether this CPU has them, and the pieces of compiler intrinsics.

Numba has no vector types, so intrinsics take addresses. What they compute is plain integer arithmetic, which any CPU
could do; kernels that use them have a plain twin.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final

import llvmlite.binding
import numba
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

LANES: Final = 16
"""Lanes of a VECTOR."""

_I32 = ir.IntType(32)
VECTOR = ir.VectorType(_I32, LANES)
"""16 lanes of int32."""

llvmlite.binding.initialize_native_asmparser()


@functools.cache
def available() -> bool:
    """Whether this CPU has the instructions, and Numba compiles for this CPU and no other.

    Asked once: to list the features takes longer than the attention of a short row.
    """
    pinned = ("CPU_NAME", "CPU_FEATURES", "DISABLE_JIT")
    if any(getattr(numba.config, name, None) for name in pinned):
        return False
    return _has("avx512f", "avx512bw", "avx512vnni")


@functools.cache
def matrix_units() -> bool:
    """Whether this CPU multiplies whole tiles of int8 (AMX), which no vector instruction keeps up with."""
    return _has("amx-int8")


def _has(*features: str) -> bool:
    try:
        found = llvmlite.binding.get_host_cpu_features()
    except RuntimeError:
        return False
    return all(found.get(name, False) for name in features)


def load(builder: Any, address: Any, kind: Any) -> Any:
    """Read a value of a kind at an address, aligned or not."""
    return builder.load(builder.inttoptr(address, kind.as_pointer()), align=1)


def store(builder: Any, value: Any, address: Any) -> None:
    """Write a value at an address, aligned or not."""
    builder.store(value, builder.inttoptr(address, value.type.as_pointer()), align=1)


def splat(builder: Any, value: Any, lanes: int = LANES) -> Any:
    """A vector of one integer."""
    kind = ir.VectorType(value.type, lanes)
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(_I32, 0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(_I32, lanes), [0] * lanes))


def multiply_add(builder: Any, total: Any, unsigned: Any, signed: Any) -> Any:
    """VPDPBUSD total += unsigned bytes * signed bytes."""
    kind = ir.FunctionType(VECTOR, [VECTOR, VECTOR, VECTOR])
    return builder.asm(kind, "vpdpbusd $3, $2, $0", "=v,0,v,v", [total, unsigned, signed], side_effect=False)


def intrinsic_of(name: str, arguments: int, emit: Callable[..., Any]) -> Callable[..., Any]:
    """A function for compiled code.

    Args:
        name: what to call it.
        arguments: how many int64 arguments it takes; it returns nothing.
        emit: writes its instructions: (context, builder, signature, values of the arguments).
    """

    def declare(typing: Any, *given: Any) -> Any:
        return types.none(*[types.int64] * arguments), emit

    declare.__name__ = name
    # Numba calls it with as many arguments as its signature names
    names = ("typing", *(f"argument{i}" for i in range(arguments)))
    declare.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(each, inspect.Parameter.POSITIONAL_OR_KEYWORD) for each in names]
    )
    return intrinsic(declare)
