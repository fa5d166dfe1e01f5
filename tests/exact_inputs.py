"""Inputs of the exact kernels, as hostile as the proven bounds allow."""

from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from typing import Any

import torch
from torch import Tensor

from speccompact.exact.weights import Linear, Weights, load_weights
from tests.hostile_integers import hostile_rows
from tests.tiny_model import contents

ROW_LIMIT = (1 << 31) - 1


@cache
def weights() -> Weights:
    """Return the tiny model's integers."""
    metadata, tensors = contents()
    return load_weights(metadata, tensors, "cpu")


def changed(metadata: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a copy of the tiny model's metadata with some values replaced."""
    copy: dict[str, Any] = deepcopy(contents()[0])
    copy |= metadata or {}
    return copy


def steep_weights(shift: int) -> Weights:
    """Return the tiny model with every requantisation `shift` bits louder, as a model with huge weights would be."""
    metadata = changed()
    for linear in metadata["linears"].values():
        linear["k2"] -= shift
    return load_weights(metadata, contents()[1], "cpu")


def products(linear: Linear, input_max: int = 127, seed: int = 0) -> Tensor:
    """Return (rows, out) int32 that a product with `linear` might give: every column up to its own bound."""
    bounds = linear.weight.to(torch.int64).abs().sum(1) * input_max
    wild = hostile_rows(len(bounds), ROW_LIMIT, torch.int64, seed)
    return torch.maximum(torch.minimum(wild, bounds), -bounds).to(torch.int32)


def row_scales(count: int) -> Tensor:
    """Return (count,) int64 scales from 1 to the largest."""
    sizes = [1, 2, 127, 1 << 12, 1 << 16, 1 << 22, (1 << 22) + 12345, 1 << 30, ROW_LIMIT]
    return torch.tensor([sizes[i % len(sizes)] for i in range(count)])
