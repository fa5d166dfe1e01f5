"""The exact target network: token ids in, integer scores out.

Invariants:
1. A row's result depends on the tokens of its slot up to its position and on nothing else: not on the other rows of
   the pass, on how positions were cut into passes, on threads, device or kernels. (enforced by construction and tests)
2. Positions of a slot are computed in order, each from a cache that holds all before it. (assumed)
"""

from typing import Protocol

from torch import Tensor

from speccompact.exact import reference
from speccompact.exact.cache import Cache, Rows
from speccompact.exact.matmul import prepare
from speccompact.exact.weights import Linear, Weights
from speccompact.options import Kernels as KernelChoice

START_TOKEN = 0
"""What is read before the first symbol of a slot (EXACT.md sections 1 and 4.1)."""

ESCAPE_INPUT = 0
"""What is read in place of an escape symbol."""


class Kernels(Protocol):
    """What `reference` and `fused` both provide; `reference` documents each function."""

    def embed(self, weights: Weights, tokens: Tensor) -> Tensor:
        """Residual rows of tokens."""
        ...

    def norm(self, weights: Weights, x: Tensor) -> tuple[Tensor, Tensor]:
        """RMSNorm and quantisation."""
        ...

    def attention(
        self, weights: Weights, acc: Tensor, row: Tensor, layer: int, rows: Rows, cache: Cache
    ) -> tuple[Tensor, Tensor]:
        """From qkv products to quantised attention outputs."""
        ...

    def add(self, x: Tensor, acc: Tensor, linear: Linear, row: Tensor) -> None:
        """Add a projection to the residual."""
        ...

    def gate(self, weights: Weights, acc: Tensor, row: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        """Gated product of the feed-forward layer."""
        ...

    def scores(self, weights: Weights, acc: Tensor, row: Tensor) -> Tensor:
        """Output scores."""
        ...


def choose_kernels(choice: KernelChoice, device: str) -> Kernels:
    """Return the kernels for a device: fused ones on the CPU unless the reference is asked for."""
    if choice == "torch" or device != "cpu":
        return reference
    from speccompact.exact import fused

    return fused


class Transformer:
    """A converted model, ready to score."""

    def __init__(self, weights: Weights, kernels: Kernels) -> None:
        self.weights, self.kernels = weights, kernels
        self._products = [
            tuple(prepare(linear.weight, linear.bound) for linear in (layer.qkv, layer.o, layer.gate_up, layer.down))
            for layer in weights.layers
        ]
        self._head = prepare(weights.head.weight, weights.head.bound)

    def hidden(self, tokens: Tensor, rows: Rows, cache: Cache) -> tuple[Tensor, Tensor]:
        """Run all layers over the rows of one pass.

        Args:
            tokens: (rows,) int64, the token *at* each position.
            rows: which slot and position each row is.

        Modifies:
            cache: keys and values of the rows are written.

        Returns:
            (rows, hidden) int8 and (rows,) int64: input of the output head, with its scale.
        """
        weights, kernels = self.weights, self.kernels
        x = kernels.embed(weights, tokens)
        for index, layer in enumerate(weights.layers):
            qkv, o, gate_up, down = self._products[index]
            normed, scale = kernels.norm(weights, x)
            mixed, scale = kernels.attention(weights, qkv(normed), scale, index, rows, cache)
            kernels.add(x, o(mixed)[None], layer.o, scale)
            normed, scale = kernels.norm(weights, x)
            planes, scale = kernels.gate(weights, gate_up(normed), scale, index)
            products = down(planes.view(-1, weights.ffn))
            kernels.add(x, products.view(2, -1, weights.hidden), layer.down, scale)
        return kernels.norm(weights, x)

    def scores(self, hidden: Tensor, scale: Tensor) -> Tensor:
        """Scores of every token after each row.

        Args:
            hidden, scale: rows of what `hidden` returned.

        Returns:
            (rows, vocab) int32, log2 units with FRAC_SCORE fractional bits.
        """
        return self.kernels.scores(self.weights, self._head(hidden), scale)
