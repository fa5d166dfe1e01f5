"""What a network trains on at once: sequences without padding, each read as the codec reads a slot."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from speccompact.exact.transformer import START_TOKEN
from speccompact.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class Batch:
    """Sequences, one after the other.

    Attributes:
        inputs: (tokens,) int64; each sequence is the start token, then its targets but the last.
        targets: (tokens,) int64.
        lengths: tokens of each sequence; attention never crosses from one to the next.
        content_bytes: bytes of text that the targets spell.
    """

    inputs: Tensor
    targets: Tensor
    lengths: tuple[int, ...]
    content_bytes: int

    def to(self, device: torch.device) -> Self:
        """Return the batch on a device, with all tensors that it has."""
        parts = ((part.name, getattr(self, part.name)) for part in fields(self))
        moved: dict[str, Any] = {
            name: part.to(device, non_blocking=True) for name, part in parts if isinstance(part, Tensor)
        }
        return replace(self, **moved)


def make_batch(sequences: Sequence[npt.NDArray[np.int32]], vocabulary: Vocabulary) -> Batch:
    """Pack sequences of tokens, longest first: those of one length are attended to together.

    Args:
        sequences: (n,) int32 each, n >= 1; no escapes.
        vocabulary: says how many bytes a token has.
    """
    ordered = sorted(sequences, key=len, reverse=True)
    lengths = tuple(len(sequence) for sequence in ordered)
    targets = np.concatenate(ordered).astype(np.int64)
    inputs = np.empty_like(targets)
    inputs[1:] = targets[:-1]
    inputs[np.cumsum((0, *lengths[:-1]))] = START_TOKEN
    size = int(vocabulary.lengths[targets].sum())
    return Batch(torch.from_numpy(inputs), torch.from_numpy(targets), lengths, size)
