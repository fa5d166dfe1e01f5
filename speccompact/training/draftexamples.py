"""What a block drafter learns from: windows of a text, and the blocks that follow them."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from speccompact.training.batch import Batch

Tokens = npt.NDArray[np.int32]
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Places:
    """Where tokens are in the list of those that can be drafted.

    Attributes:
        listed: (listed,) int64, the tokens, rising.
        logs: (listed,) float32, logarithm of the share of each.
        of: (vocabulary + 1,) int64, the place of every token, `listed` places for all that are not in it.
    """

    listed: Tensor
    logs: Tensor
    of: Tensor

    @staticmethod
    def make(tokens: Counts, counts: Counts, vocabulary: int) -> "Places":
        """Number tokens of a vocabulary, rising, of which is known how often they occur."""
        listed, shares = torch.from_numpy(tokens), torch.from_numpy(counts / counts.sum())
        of = torch.full((vocabulary + 1,), len(listed), dtype=torch.int64)
        of[listed] = torch.arange(len(listed))
        return Places(listed, shares.log().float(), of)


@dataclass(frozen=True, slots=True)
class Examples:
    """Blocks and what stands before them.

    Attributes:
        tokens: (n,) int64, the text that windows lie in.
        anchors: (examples,) int64, index in it of the first token of each block.
        windows: (examples, window) int64, indices of the tokens before it, oldest first; n stands for none.
        before: (examples, block) int64, place of the token before each position.
        wanted: (examples, block) int64, place of the token at each position; `listed` places for what cannot be
            drafted, and for what lies beyond the end of the text.
        inside: (examples, block) bool, whether the text goes that far.
    """

    tokens: Tensor
    anchors: Tensor
    windows: Tensor
    before: Tensor
    wanted: Tensor
    inside: Tensor


def make_examples(batch: Batch, places: Places, window: int, block: int, stride: int = 1, phase: int = 0) -> Examples:
    """Cut a batch into examples.

    Args:
        batch: sequences of tokens, on the CPU as the places are.
        places: see there.
        window, block: tokens of each.
        stride: distance of two anchors.
        phase: index of the first anchor.
    """
    none = len(places.of) - 1
    targets, count = batch.targets, len(batch.targets)
    known = places.of[torch.cat([targets, torch.tensor([none])])]
    lengths = torch.tensor(batch.lengths)
    starts = torch.repeat_interleave(lengths.cumsum(0) - lengths, lengths)
    stops = torch.repeat_interleave(lengths.cumsum(0), lengths)
    anchors = torch.arange(phase, count, stride)
    back = anchors[:, None] + torch.arange(-window, 0)
    windows = torch.where(back >= starts[anchors, None], back, count)
    ahead = anchors[:, None] + torch.arange(block)
    inside = ahead < stops[anchors, None]
    wanted = known[torch.where(inside, ahead, count)]
    before = torch.cat([known[windows[:, -1:]], wanted[:, :-1]], 1)
    return Examples(targets, anchors, windows, before, wanted, inside)


def frequent_tokens(sequences: Iterable[Tokens], vocabulary: int, most: int) -> tuple[Counts, Counts]:
    """Return the tokens that occur most often, rising, and how often each does; of two that tie, the lower one.

    Args:
        sequences: (n,) int32 each.
        vocabulary: tokens that there are.
        most: how many are wanted; fewer where fewer occur.
    """
    seen = np.zeros(vocabulary, np.int64)
    for sequence in sequences:
        seen += np.bincount(sequence, minlength=vocabulary)
    order = np.argsort(-seen, kind="stable")[: min(most, np.count_nonzero(seen))]
    listed = np.sort(order)
    return listed, seen[listed]
