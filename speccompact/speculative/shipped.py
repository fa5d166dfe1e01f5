"""The block drafters that ship with the package: weights/NAME.safetensors, each for one vocabulary.

Beside each lies what it was made of: NAME.provenance.json, as `train drafter` wrote it.
"""

from pathlib import Path
from typing import Final

from speccompact.speculative.blockfile import BlockWeights, read_block, vocabulary_of

WEIGHTS: Final = Path(__file__).with_name("weights")


def shipped_block(vocabulary_digest: str) -> BlockWeights | None:
    """Return the drafter that ships for a vocabulary, or None where there is none.

    Args:
        vocabulary_digest: SHA-256, hexadecimal.

    Raises:
        ModelError: a file of the package is damaged.
    """
    for path in sorted(WEIGHTS.glob("*.safetensors")):
        if vocabulary_of(path) == vocabulary_digest:
            return read_block(path)
    return None
