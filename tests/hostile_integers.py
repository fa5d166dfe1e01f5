"""Integers that break careless arithmetic, for tests of the exact zone."""

import random
from collections.abc import Sequence

import torch
from torch import Tensor


def edge_values(limit: int) -> list[int]:
    """Return zero, all powers of two up to the limit with their neighbours, and the limit, with both signs."""
    values = {0, limit, limit - 1}
    power = 1
    while power <= limit:
        values |= {power - 1, power, power + 1}
        power *= 2
    kept = sorted(value for value in values if value <= limit)
    return [-value for value in reversed(kept) if value] + kept


def hostile_rows(width: int, limit: int, dtype: torch.dtype = torch.int32, seed: int = 0) -> Tensor:
    """Return (rows, width): constant rows, single spikes, alternating extremes, and noise of every magnitude.

    Args:
        limit: largest magnitude.
    """
    source = random.Random(seed)
    rows: list[Sequence[int]] = [[value] * width for value in edge_values(limit)]
    for value in (1, -1, limit, -limit, limit // 3):
        for place in (0, width // 2, width - 1):
            rows.append([value if column == place else 0 for column in range(width)])
    rows.append([limit if column % 2 else -limit for column in range(width)])
    rows.append([limit] + [1] * (width - 1))
    for bits in range(1, limit.bit_length() + 1):
        most = min(limit, (1 << bits) - 1)
        rows.append([source.randint(-most, most) for _ in range(width)])
    return torch.tensor(rows, dtype=dtype)
