"""A block drafter of random numbers for the tiny model's vocabulary, and one for any other."""

from functools import cache
from pathlib import Path

import numpy as np
import torch

from speccompact.speculative.blockfile import BlockShape, BlockWeights, write_block
from speccompact.text.vocabulary import Vocabulary
from speccompact.training.draftexamples import Places
from speccompact.training.draftnetwork import DraftNetwork
from tests.tiny_model import tiny
from tests.tiny_slots import QUIET


def block_weights(vocabulary: Vocabulary, seed: int = 3) -> BlockWeights:
    """Return an untrained drafter, which is sure of itself now and then."""
    listed = np.arange(1, vocabulary.size, 2)
    places = Places.make(listed, np.ones(len(listed), np.int64), vocabulary.size)
    shape = BlockShape(vocabulary.size, len(listed), 6, 5, 8, 16, 16, 1, 8, 4, 4)
    embed = torch.randn(vocabulary.size, 12, generator=torch.Generator().manual_seed(seed))
    network = DraftNetwork(shape, embed, places, seed)
    return network.weights(vocabulary.digest().hex(), torch.ones(5), torch.linspace(1, -1, 5))


@cache
def tiny_block() -> BlockWeights:
    """Return one for the tiny model."""
    return block_weights(tiny(QUIET)[0].vocabulary)


def write_tiny_block(path: Path) -> Path:
    """Write it."""
    write_block(path, tiny_block())
    return path
