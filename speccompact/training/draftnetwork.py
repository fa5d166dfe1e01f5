"""The block drafter as a network that can be trained: the same as `speculative.blocknet`, in float32 parameters.

The embedding is the target's, shared and frozen; only the projection of it is trained, and the projected rows are what
the drafter's file holds. So a drafter needs no target at hand, and serves every one with its vocabulary.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from speccompact.speculative.blockfile import BlockShape, BlockWeights
from speccompact.speculative.blocknet import layer, normed
from speccompact.training.draftexamples import Examples, Places

_INT8_MAX = 127


class DraftNetwork(nn.Module):
    """Everything of a block drafter that is trained.

    Attributes:
        shape: its sizes.
        places: the tokens that it drafts.
        head: (listed, rank).
        head_bias: (listed,).
        trust_input, trust_bias, trust_output: see `blocknet.Trust`.
    """

    _embed: Tensor

    def __init__(self, shape: BlockShape, embed: Tensor, places: Places, seed: int) -> None:
        """Start anew.

        Args:
            shape: the sizes.
            embed: (vocabulary, hidden) float32, the target's embedding.
            places: the tokens that can be drafted.
            seed: of the first values.
        """
        super().__init__()
        self.shape, self.places = shape, places
        generator = torch.Generator().manual_seed(seed)

        def matrix(outputs: int, inputs: int, gain: float = 1.0) -> nn.Parameter:
            return nn.Parameter(torch.randn(outputs, inputs, generator=generator) * gain * inputs**-0.5)

        hidden = embed.shape[1]
        scaled = embed / embed.square().mean(1, keepdim=True).sqrt().clamp_min(1e-6)
        self.register_buffer("_embed", scaled.to(torch.bfloat16), persistent=False)
        self.project = matrix(shape.embed, hidden)
        self.nothing = nn.Parameter(torch.zeros(shape.embed))
        self.input = matrix(shape.width, shape.window * shape.embed)
        self.up = nn.ParameterList(matrix(2 * shape.inner, shape.width) for _ in range(shape.layers))
        self.down = nn.ParameterList(matrix(shape.width, shape.inner, 0.5) for _ in range(shape.layers))
        self.output = matrix(shape.block * shape.rank, shape.width)
        self.head = matrix(shape.listed, shape.rank, 0.3)
        self.head_bias = nn.Parameter(places.logs.clone())
        if shape.markov:
            self.before = nn.Parameter(torch.randn(shape.listed + 1, shape.markov, generator=generator) * 0.1)
            self.turn = matrix(shape.rank, shape.markov)
        self.trust_input = matrix(shape.trust, shape.rank + 1)
        self.trust_bias = nn.Parameter(torch.zeros(shape.block, shape.trust))
        self.trust_output = nn.Parameter(torch.zeros(shape.trust))

    def embedded(self, tokens: Tensor) -> Tensor:
        """Return what is known of tokens before any of it is trained: (tokens, hidden)."""
        return self._embed[tokens].float()

    def read(self, examples: Examples) -> Tensor:
        """Return what the first layer meets: (examples, width)."""
        known = functional.linear(self.embedded(examples.tokens), self.project)
        known = torch.cat([known, self.nothing[None].to(known.dtype)])
        return functional.linear(functional.embedding(examples.windows, known).flatten(1), self.input)

    def rows(self, examples: Examples) -> Tensor:
        """Return what the head meets: (examples, block, rank), each corrected by the token of the text before it."""
        shape = self.shape
        x = self.read(examples)
        for up, down in zip(self.up, self.down, strict=True):
            x = layer(x, up, down)
        rows = functional.linear(normed(x), self.output).view(-1, shape.block, shape.rank)
        if not shape.markov:
            return rows
        return rows + functional.embedding(examples.before, functional.linear(self.before, self.turn))

    def weights(self, vocabulary_digest: str, scale: Tensor, shift: Tensor) -> BlockWeights:
        """Return the drafter for its file.

        Args:
            vocabulary_digest: of the vocabulary that it was trained with.
            scale, shift: (block,) float32, of `blocknet.Trust`.
        """
        with torch.no_grad():
            known = torch.cat([functional.linear(self._embed.float(), self.project), self.nothing[None]])
            largest = known.abs().amax(1).clamp_min(1e-12)
            tensors = {
                "tokens": (known * (_INT8_MAX / largest)[:, None]).round(),
                "tokens.scale": largest / _INT8_MAX,
                "input": self.input,
                "output": self.output,
                "head": self.head,
                "head.bias": self.head_bias,
                "listed": self.places.listed,
                "trust.input": self.trust_input,
                "trust.bias": self.trust_bias,
                "trust.output": self.trust_output,
                "trust.scale": scale,
                "trust.shift": shift,
            }
            for i, (up, down) in enumerate(zip(self.up, self.down, strict=True)):
                tensors |= {f"layers.{i}.up": up, f"layers.{i}.down": down}
            if self.shape.markov:
                tensors |= {"before": self.before, "turn": self.turn}
        kinds = {"I8": torch.int8, "I32": torch.int32, "F32": torch.float32, "BF16": torch.bfloat16}
        wanted = self.shape.tensors()
        kept = {name: tensors[name].detach().cpu().to(kinds[dtype]) for name, (dtype, _) in wanted.items()}
        return BlockWeights(self.shape, vocabulary_digest, kept)
