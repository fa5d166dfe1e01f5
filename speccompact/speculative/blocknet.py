"""The network of the block drafter, as it runs: from the last symbols of slots to drafts of a whole block.

What is read of the window's symbols goes through a few gated layers (SwiGLU; Shazeer, 2020) into one row for each
position of the block, all in one forward pass. What then happens position by position is cheap: the row, corrected by
the symbol drafted just before (a first-order Markov correction of low rank, as in DSpark, 2026, arXiv 2607.05147),
meets a head of few tokens and low rank, and the best token is the draft.

The result steers time and nothing else, so floats are welcome here, and they may differ from machine to machine.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from speccompact.speculative.blockfile import BlockWeights

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

NORM_EPS = 1e-5


@dataclass(frozen=True, slots=True)
class Trust:
    """Says how likely a drafted symbol is right, given that all before it are.

    logit = scale_k * (output . silu(input [row, best score] + bias_k)) + shift_k at position k of the block. It is
    trained beside the network and does not change it; scale and shift are fitted to held-out text in the end.

    Attributes:
        inputs: (trust, rank + 1).
        bias: (block, trust).
        outputs: (trust,).
        scale, shift: (block,).
    """

    inputs: Tensor
    bias: Tensor
    outputs: Tensor
    scale: Tensor
    shift: Tensor

    def logits(self, rows: Tensor, best: Tensor, bias: Tensor) -> Tensor:
        """Return what scale and shift are applied to.

        Args:
            rows: (..., rank) float32.
            best: (...) float32, score of the drafted symbol.
            bias: (..., trust), that of the position.
        """
        seen = functional.linear(torch.cat([rows, best[..., None]], -1), self.inputs) + bias
        return functional.silu(seen) @ self.outputs


def normed(x: Tensor) -> Tensor:
    """Divide rows by their root mean square."""
    return functional.rms_norm(x, x.shape[-1:], eps=NORM_EPS)


def layer(x: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """One gated layer with its residual: (rows, width) to the same."""
    gates, values = functional.linear(normed(x), up).chunk(2, -1)
    return x + functional.linear(functional.silu(gates) * values, down)


class BlockNet:
    """A block drafter that is ready to run.

    Attributes:
        shape: its sizes.
    """

    def __init__(self, weights: BlockWeights, dtype: torch.dtype = torch.bfloat16) -> None:
        """Lay the weights out.

        Args:
            weights: see there.
            dtype: of the arithmetic: bfloat16, or float32 where that is wanted.
        """
        self.shape = shape = weights.shape
        tensors = weights.tensors
        kept = {name: value.to(dtype) for name, value in tensors.items() if value.dtype == torch.bfloat16}
        self._dtype = dtype
        self._tokens = (tensors["tokens"] * tensors["tokens.scale"][:, None]).to(dtype)
        self._input, self._output = kept["input"], kept["output"]
        self._layers = [(kept[f"layers.{i}.up"], kept[f"layers.{i}.down"]) for i in range(shape.layers)]
        self._head, self._bias = kept["head"], kept["head.bias"]
        self._listed = tensors["listed"].long()
        self._places = torch.full((shape.vocabulary + 1,), shape.listed, dtype=torch.int64)
        self._places[self._listed] = torch.arange(shape.listed)
        self._correction = (
            functional.linear(tensors["before"].float(), tensors["turn"].float()).to(dtype) if shape.markov else None
        )
        parts = (tensors[f"trust.{name}"] for name in ("input", "bias", "output", "scale", "shift"))
        self._trust = Trust(*parts)

    def rows(self, windows: Tensor) -> Tensor:
        """The forward pass.

        Args:
            windows: (slots, window) int64, the last symbols of each slot, oldest first; `shape.vocabulary` stands for
                none.

        Returns:
            (slots, block, rank), what the head meets at each position but for the correction.
        """
        x = functional.embedding(windows, self._tokens).flatten(1)
        x = functional.linear(x, self._input)
        for up, down in self._layers:
            x = layer(x, up, down)
        return functional.linear(normed(x), self._output).view(-1, self.shape.block, self.shape.rank)

    def draft(self, windows: Ints, limits: Ints, floor: float) -> tuple[Ints, Floats, Ints]:
        """Draft greedily, position by position, for as long as it is worth while.

        Args:
            windows: (slots, window) int64, as in `rows`.
            limits: (slots,) int64, the most positions of each.
            floor: positions that are reached with less than this chance are left out.

        Returns:
            symbols (slots, block) int64, chances (slots, block) float32 and lengths (slots,) int64; what lies beyond a
            length means nothing.
        """
        with torch.inference_mode():
            found = self._draft(torch.from_numpy(windows), torch.from_numpy(limits), floor)
        symbols, chances, lengths = (part.numpy() for part in found)
        return symbols, chances, lengths

    def _draft(self, windows: Tensor, limits: Tensor, floor: float) -> tuple[Tensor, Tensor, Tensor]:
        shape = self.shape
        rows = self.rows(windows)
        symbols = torch.zeros(len(windows), shape.block, dtype=torch.int64)
        chances = torch.zeros(len(windows), shape.block)
        lengths = torch.zeros(len(windows), dtype=torch.int64)
        going = torch.arange(len(windows))
        before, survival = self._places[windows[:, -1]], torch.ones(len(windows))
        for position in range(shape.block):
            kept = ((limits[going] > position) & (survival >= floor)).nonzero()[:, 0]
            if len(kept) < len(going):
                going, before, survival = going[kept], before[kept], survival[kept]
            if not len(going):
                break
            seen = rows[going, position]
            if self._correction is not None:
                seen = seen + functional.embedding(before, self._correction)
            best, before = functional.linear(seen, self._head, self._bias).max(-1)
            trust = self._trust
            logits = trust.logits(seen.float(), best.float(), trust.bias[position])
            chance = torch.sigmoid(logits * trust.scale[position] + trust.shift[position])
            symbols[going, position] = self._listed[before]
            chances[going, position] = chance
            survival = survival * chance
            lengths[going] += 1
        return symbols, chances, lengths
