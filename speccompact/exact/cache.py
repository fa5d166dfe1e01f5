"""Which rows a target pass computes, and the int8 attention cache that they extend."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from speccompact.exact.weights import Weights

CAPACITY_STEP = 64
"""Capacities are rounded up to this, so that kernels may read whole blocks of positions."""


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive positions of one slot in a pass.

    Attributes:
        place: index of the slot in the cache.
        start: first position (tokens from the start of the slot).
        count: number of positions, at least 1.
    """

    place: int
    start: int
    count: int


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one pass: the spans one after the other.

    Attributes:
        spans: at most one for each place.
        place, position: (rows,) int64, for every row.
        offsets: first row of each span.
    """

    spans: tuple[Span, ...]
    place: Tensor
    position: Tensor
    offsets: tuple[int, ...]

    @classmethod
    def of(cls, spans: Sequence[Span]) -> "Rows":
        """Lay out spans."""
        counts = torch.tensor([span.count for span in spans])
        offsets = torch.cumsum(counts, 0) - counts
        place = torch.repeat_interleave(torch.tensor([span.place for span in spans]), counts)
        start = torch.repeat_interleave(torch.tensor([span.start for span in spans]) - offsets, counts)
        position = start + torch.arange(int(counts.sum()))
        return cls(tuple(spans), place, position, tuple(offsets.tolist()))


class Cache:
    """Keys and values of every place, layer by layer; memory is touched as positions are written.

    A position may be written again: rolling back is nothing but going on from an earlier position, since a row at
    position p reads positions 0 .. p only.

    Attributes:
        keys, values: a tensor for each layer, (places, kv_heads, capacity, head_dim) int8.
        key_scales, value_scales: likewise (places, kv_heads, capacity) int32, largest magnitude of the projection.
    """

    def __init__(self, weights: Weights, places: int, capacity: int) -> None:
        """Reserve a cache.

        Args:
            places: slots that can be held at once.
            capacity: positions of each.
        """
        device = weights.embed.device
        layers, heads, width = len(weights.layers), weights.kv_heads, weights.head_dim

        def reserve(*shape: int, dtype: torch.dtype) -> list[Tensor]:
            return [torch.empty(places, heads, *shape, dtype=dtype, device=device) for _ in range(layers)]

        capacity = -(-capacity // CAPACITY_STEP) * CAPACITY_STEP
        self.places, self.capacity = places, capacity
        self.keys = reserve(capacity, width, dtype=torch.int8)
        self.values = reserve(capacity, width, dtype=torch.int8)
        self.key_scales = reserve(capacity, dtype=torch.int32)
        self.value_scales = reserve(capacity, dtype=torch.int32)
