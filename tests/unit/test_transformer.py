"""The whole network on the tiny model: pinned bits, and both kernels."""

import hashlib

import pytest
import torch

from speccompact.exact import fused, reference
from speccompact.exact.cache import Cache, Rows, Span
from speccompact.exact.transformer import Kernels, Transformer, choose_kernels
from tests.exact_inputs import weights

TOKENS = torch.arange(100) * 211 % 460


def run(kernels: Kernels) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    transformer = Transformer(weights(), kernels)
    hidden, scale = transformer.hidden(TOKENS, Rows.of([Span(0, 0, 100)]), Cache(weights(), 1, 100))
    return hidden, scale, transformer.scores(hidden, scale)


@pytest.mark.parametrize("kernels", [reference, fused], ids=["reference", "fused"])
def test_the_bits_of_exact_version_1(kernels: Kernels) -> None:
    hidden, scale, scores = run(kernels)
    assert (hidden.dtype, scale.dtype, scores.dtype) == (torch.int8, torch.int64, torch.int32)
    packed = hidden.numpy().tobytes() + scale.numpy().astype("<i8").tobytes() + scores.numpy().astype("<i4").tobytes()
    assert hashlib.sha256(packed).hexdigest() == "bdb49da87da070ebdc8d917d9d37e83dc51013481e7a1a18d73838a3c3cc0c84"


def test_the_network_is_not_blind() -> None:
    """Every earlier token changes what follows it, and the distribution is neither flat nor certain."""
    scores = run(reference)[2]
    other = Transformer(weights(), reference)
    changed = TOKENS.clone()
    changed[3] = 200
    hidden, scale = other.hidden(changed, Rows.of([Span(0, 0, 100)]), Cache(weights(), 1, 100))
    again = other.scores(hidden, scale)
    assert torch.equal(again[:3], scores[:3])
    assert bool((again[3:] != scores[3:]).any(-1).all())
    surprise = -torch.log2(torch.softmax(scores.double() / 65536 * 0.6931471805599453, -1).amax(-1))
    assert 0.05 < float(surprise.mean()) < 6


def test_kernels_follow_device_and_choice() -> None:
    assert choose_kernels("auto", "cpu") is fused
    assert choose_kernels("numba", "cpu") is fused
    assert choose_kernels("torch", "cpu") is reference
    assert choose_kernels("auto", "cuda") is reference
