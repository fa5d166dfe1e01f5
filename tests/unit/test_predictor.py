from itertools import pairwise

import numpy as np
import pytest
import torch

from speccompact.entropy.cdf import Tiling
from speccompact.exact.cache import Cache, Rows, Span
from speccompact.exact.transformer import Transformer, choose_kernels
from speccompact.memory.predictor import Asked, Predictor
from speccompact.options import Kernels
from speccompact.params import PRECISION
from tests.exact_inputs import weights

TILING = Tiling(460, 19, PRECISION)


NOWHERE = np.zeros(1000, dtype=np.int64)


def ask(hidden: torch.Tensor, scale: torch.Tensor) -> Asked:
    return Asked(NOWHERE[: len(scale)], NOWHERE[: len(scale)], hidden, scale)


def predictor(kernels: Kernels) -> tuple[Predictor, torch.Tensor, torch.Tensor]:
    transformer = Transformer(weights(), choose_kernels(kernels, "cpu"))
    tokens = torch.arange(150) * 13 % 460
    hidden, scale = transformer.hidden(tokens, Rows.of([Span(0, 0, 150)]), Cache(weights(), 1, 150))
    return Predictor(transformer, TILING), hidden, scale


@pytest.mark.parametrize("kernels", ["torch", "numba"])
def test_find_is_the_inverse_of_intervals(kernels: Kernels) -> None:
    model, hidden, scale = predictor(kernels)
    symbols = np.arange(150) * 7 % (460 + 19)
    starts, frequencies = model.intervals(ask(hidden, scale), symbols, None)
    for points in (starts, starts + frequencies // 2, starts + frequencies - 1):
        found = model.find(model.spread(ask(hidden, scale), None), points)
        assert [part.tolist() for part in found] == [symbols.tolist(), starts.tolist(), frequencies.tolist()]


def test_both_kernels_give_the_same_distribution_in_any_grouping() -> None:
    symbols = np.arange(150) * 11 % (460 + 19)
    results = []
    for kernels in ("torch", "numba"):
        model, hidden, scale = predictor(kernels)
        for sizes in ([150], [1] * 150, [63, 1, 64, 22], [65, 85]):
            cuts = np.cumsum([0, *sizes])
            parts = [model.intervals(ask(hidden[a:b], scale[a:b]), symbols[a:b], None) for a, b in pairwise(cuts)]
            results.append([np.concatenate(column).tolist() for column in zip(*parts, strict=True)])
    assert all(result == results[0] for result in results)


def test_the_distribution_of_a_row_is_complete() -> None:
    model, hidden, scale = predictor("auto")
    everything = np.arange(460 + 19)
    for row in (0, 70, 149):
        same = slice(row, row + 1)
        starts, sizes = model.intervals(ask(hidden[same].repeat(479, 1), scale[same].repeat(479)), everything, None)
        assert starts[0] == 0
        assert (starts[1:] == (starts + sizes)[:-1]).all()
        assert starts[-1] + sizes[-1] == 1 << PRECISION
        assert sizes.min() >= 1
