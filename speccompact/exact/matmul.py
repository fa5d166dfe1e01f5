"""int8 x int8 -> int32 matrix products, exact on every device.

`torch._int_mm` uses the int8 units of CPU and GPU. Some older CPUs have only 8-bit multiply-add instructions that
saturate at 16 bits, so the product is tried once on extreme values; where it is not exact, float32 carries the
integers: with at most 1,024 products of magnitude <= 127**2 every partial sum is an integer below 2**24, which float32
holds exactly, in any order of summation.
"""

import functools

import torch
from torch import Tensor

_CARRIER_INNER = 1024
_CUDA_MIN_ROWS = 32
"""`_int_mm` on CUDA wants more than 16 rows and multiples of 8."""


def int_matmul(x: Tensor, weight: Tensor) -> Tensor:
    """x @ weight.T in integers.

    Args:
        x: (rows, inner) int8.
        weight: (out, inner) int8; inner <= 131071, so that sums fit int32.

    Returns:
        (rows, out) int32.
    """
    if x.device.type == "cuda":
        rows = x.shape[0]
        padded = max(_CUDA_MIN_ROWS, -(-rows // 8) * 8)
        if padded != rows:
            x = torch.nn.functional.pad(x, (0, 0, 0, padded - rows))
        return torch._int_mm(x, weight.t())[:rows]
    if _native_is_exact():
        return torch._int_mm(x, weight.t())
    return carrier_matmul(x, weight)


def carrier_matmul(x: Tensor, weight: Tensor) -> Tensor:
    """The same product with float32 as the carrier of integers."""
    total = torch.zeros(x.shape[0], weight.shape[0], dtype=torch.int32, device=x.device)
    for start in range(0, x.shape[1], _CARRIER_INNER):
        part = slice(start, start + _CARRIER_INNER)
        total += (x[:, part].to(torch.float32) @ weight[:, part].to(torch.float32).t()).to(torch.int32)
    return total


@functools.cache
def _native_is_exact() -> bool:
    """Whether `_int_mm` keeps the largest products on this CPU, in every shape class."""
    try:
        for rows in (1, 3, 16, 33, 64):
            x = torch.full((rows, 576), 127, dtype=torch.int8)
            weight = torch.full((64, 576), 127, dtype=torch.int8)
            weight[1::2] = -127
            x[:, ::3] = -127
            wanted = x.to(torch.int64) @ weight.to(torch.int64).t()
            if not torch.equal(torch._int_mm(x, weight.t()).to(torch.int64), wanted):
                return False
    except RuntimeError:
        return False
    return True
