"""The target as a float network that can be trained, in the rotated basis in which it will be quantised.

Base weights are frozen. What is trained are low-rank factors of every linear weight (LoRA; Hu et al., 2021):
W' = W + scale * B @ A, with A and B in the checkpoint's own basis, as adapter files hold them. The rotations and norm
gains that `quantize.convert` folds into a weight act on the factors alone: rotating (r, n) costs next to nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from speccompact.errors import ArgumentError
from speccompact.modelstore.adapterfile import Adapter
from speccompact.modelstore.modelconfig import Checkpoint
from speccompact.modelstore.quantize import rotate
from speccompact.training.batch import Batch
from speccompact.training.loss import code_length
from speccompact.training.rounding import rounded, rounded_linear

_PARTS = {"qkv": ("q", "k", "v"), "o": ("o",), "gate_up": ("gate", "up"), "down": ("down",)}
"""Weights that read the same input are one matrix."""

_TURNED = {"v", "o", "down"}
"""Weights whose outputs are rotated."""


class Network(nn.Module):
    """A Llama-architecture network whose trainable parameters are adapters, or every weight.

    Attributes:
        scale: what B @ A is multiplied by.
        embed, head: (vocab, hidden), in the rotated basis; parameters only where every weight is trained.
    """

    embed: Tensor
    head: Tensor
    _rates: Tensor

    def __init__(self, checkpoint: Checkpoint, rank: int | None, alpha: float, seed: int) -> None:
        """Load the base weights and start the adapters at zero effect.

        Args:
            checkpoint: the float model.
            rank: width of the low-rank factors; None trains every weight instead.
            alpha: strength; scale is alpha / rank.
            seed: of the first values of A.
        """
        super().__init__()
        self.config = checkpoint.config
        self.scale = alpha / rank if rank else 0.0
        self._full = rank is None
        config, tensors = self.config, checkpoint.tensors
        generator = torch.Generator().manual_seed(seed)
        self.layers = nn.ModuleList(_Layer(checkpoint, i, rank, self.scale, generator) for i in range(config.layers))
        embed = rotate(tensors["embed"].astype(np.float64))
        head = rotate((tensors["embed" if config.tied else "head"] * tensors["norm"]).astype(np.float64))
        self._keep("embed", embed)
        self._keep("head", head)
        inverse = config.rope_theta ** (-np.arange(0, config.head_dim, 2) / config.head_dim)
        self.register_buffer("_rates", torch.from_numpy(inverse).float(), persistent=False)

    def bits(self, batch: Batch, rounding: bool) -> Tensor:
        """Code length of a batch.

        Args:
            batch: sequences, one after the other.
            rounding: simulate the integers of the exact target.

        Returns:
            A float32 scalar, bits, differentiable in the trainable parameters.
        """
        hidden, head = self.hidden(batch, rounding)
        return code_length(hidden, head, batch.targets)

    def hidden(self, batch: Batch, rounding: bool) -> tuple[Tensor, Tensor]:
        """What the scores are products of.

        Args:
            batch, rounding: as for `bits`.

        Returns:
            (tokens, hidden) and (vocab, hidden).
        """
        x = functional.embedding(batch.inputs, self.embed).float()
        positions = torch.cat([torch.arange(length) for length in batch.lengths]).to(x.device)
        angles = positions[:, None, None] * self._rates
        turn = angles.cos(), angles.sin()
        for layer in self.layers:
            x = layer(x, turn, batch.lengths, rounding)
        hidden, head = _norm(x, self.config.rms_eps), self.head
        if rounding:
            hidden, head = rounded(hidden), rounded(head)
        return hidden, head

    def fuse(self) -> None:
        """From now on compile what lies between matrix products into fused loops, where gradients are wanted.

        The first passes then take a minute and a C++ compiler; results differ by float rounding, as between machines.
        """
        for layer in self.layers:
            assert isinstance(layer, _Layer)
            layer.fuse()

    def factors(self) -> dict[str, tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]]:
        """Return A (rank, inputs) and B (outputs, rank) of every adapted weight, by canonical name."""
        found = {}
        for i, layer in enumerate(self.layers):
            for linear in (module for module in layer.modules() if isinstance(module, _Linear)):
                for part, a, b in zip(linear.parts, linear.a, linear.b, strict=True):
                    found[f"layers.{i}.{part}"] = _to_numpy(a), _to_numpy(b)
        return found

    def weights(self) -> dict[str, npt.NDArray[np.float32]]:
        """Return every weight where all are trained, as canonical tensors in the checkpoint's own basis.

        Gains of norms are part of the weights that follow them, so that they are 1 here, and the output head is a
        tensor of its own.
        """
        ones = np.ones(self.config.hidden, np.float32)
        found = {"embed": _turned_back(self.embed), "norm": ones, "head": _turned_back(self.head)}
        for i, layer in enumerate(self.layers):
            prefix = f"layers.{i}"
            found |= {f"{prefix}.attn_norm": ones, f"{prefix}.ffn_norm": ones}
            for linear in (module for module in layer.modules() if isinstance(module, _Linear)):
                found |= {f"{prefix}.{part}": _to_numpy(weight) for part, weight in linear.split()}
        return found

    def take_factors(self, adapter: Adapter) -> None:
        """Begin where an adapter is, in place of its own first factors.

        Raises:
            ArgumentError: it has another rank, or leaves weights out.
        """
        for i, layer in enumerate(self.layers):
            for linear in (module for module in layer.modules() if isinstance(module, _Linear)):
                for part, a, b in zip(linear.parts, linear.a, linear.b, strict=True):
                    name = f"layers.{i}.{part}"
                    if name not in adapter.factors:
                        raise ArgumentError(f"{adapter.source}: it has nothing for {name}; start from one that has all")
                    first, second = (torch.from_numpy(factor) for factor in adapter.factors[name])
                    if first.shape != a.shape or second.shape != b.shape:
                        raise ArgumentError(
                            f"{adapter.source}: its rank is {adapter.rank}; train with --rank {adapter.rank}"
                        )
                    with torch.no_grad():
                        a.copy_(first)
                        b.copy_(second * (adapter.scale / self.scale))

    def _keep(self, name: str, values: npt.NDArray[np.float64]) -> None:
        _keep(self, name, values, self._full)


class _Layer(nn.Module):
    def __init__(
        self, checkpoint: Checkpoint, index: int, rank: int | None, scale: float, generator: torch.Generator
    ) -> None:
        super().__init__()
        self._fused: tuple[Callable[..., Any], Callable[..., Any]] | None = None
        self.config = checkpoint.config
        prefix = f"layers.{index}"
        self.linears = nn.ModuleDict(
            {name: _Linear(checkpoint, prefix, parts, rank, scale, generator) for name, parts in _PARTS.items()}
        )

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor], lengths: Sequence[int], rounding: bool) -> Tensor:
        """x: (rows, hidden). Only what lies between `before` and `after` depends on where sequences end."""
        before, after = self._fused if self._fused and torch.is_grad_enabled() else (self.before, self.after)
        query, key, value = before(x, turn, rounding)
        return after(x, _attend(query, key, value, lengths), rounding)

    def fuse(self) -> None:
        """See `Network.fuse`."""
        self._fused = torch.compile(self.before, dynamic=False), torch.compile(self.after, dynamic=False)

    def before(self, x: Tensor, turn: tuple[Tensor, Tensor], rounding: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values as (heads, rows, head_dim); every query head has its own keys."""
        config = self.config
        heads = torch.unflatten(self.linears["qkv"](_norm(x, config.rms_eps), rounding), 1, (-1, config.head_dim))
        turned = _turn(heads[:, : config.heads + config.kv_heads], turn)
        query, key = turned[:, : config.heads], turned[:, config.heads :]
        value = heads[:, config.heads + config.kv_heads :]
        if rounding:
            query, key, value = rounded(query), rounded(key), rounded(value)
        repeat = config.heads // config.kv_heads
        key, value = (part.repeat_interleave(repeat, dim=1) for part in (key, value))
        query, key, value = (part.transpose(0, 1).contiguous() for part in (query, key, value))
        return query, key, value

    def after(self, x: Tensor, mixed: Tensor, rounding: bool) -> Tensor:
        """Add what attention found, (heads, rows, head_dim), and the feed-forward part."""
        x = x + self.linears["o"](mixed.transpose(0, 1).flatten(1), rounding)
        gate, up = self.linears["gate_up"](_norm(x, self.config.rms_eps), rounding).chunk(2, dim=1)
        # The exact target gives this product two planes of int8: too fine to be worth a simulation.
        return x + self.linears["down"](functional.silu(gate) * up, rounding, fine_input=True)  # type: ignore[no-any-return]


class _Linear(nn.Module):
    """One matrix, or several over each other that read the same input, with an adapter for each."""

    base: Tensor
    gain: Tensor | None
    turn: Tensor | None

    def __init__(
        self,
        checkpoint: Checkpoint,
        prefix: str,
        parts: tuple[str, ...],
        rank: int | None,
        scale: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        config, tensors = checkpoint.config, checkpoint.tensors
        self.parts, self.scale = parts, scale
        self.a, self.b = nn.ParameterList(), nn.ParameterList()
        gain = {"q": "attn_norm", "k": "attn_norm", "v": "attn_norm", "gate": "ffn_norm", "up": "ffn_norm"}.get(
            parts[0]
        )
        self.register_buffer(
            "gain", torch.from_numpy(tensors[f"{prefix}.{gain}"].copy()) if gain else None, persistent=False
        )
        # Factors pass rotations on their way into the rotated basis. Buffers, so that they are where the factors are.
        wide, head = _rotation(config.hidden), _rotation(config.head_dim)
        self.register_buffer("turn", {"o": head, "down": None}.get(parts[0], wide), persistent=False)
        for name in _TURNED.intersection(parts):
            self.register_buffer(f"turn_{name}", head if name == "v" else wide, persistent=False)
        loaded = [torch.from_numpy(tensors[f"{prefix}.{part}"].astype(np.float32)) for part in parts]
        self._outputs = [len(part) for part in loaded]
        base = torch.cat([self._leave(part, i) for i, part in enumerate(loaded)])
        _keep(self, "base", self._enter(base).double().numpy(), rank is None)
        if rank is None:
            return
        for part in loaded:
            outputs, inputs = part.shape
            # A as in LoRA: variance 1 / (3 inputs); B is zero, so that training starts at the base.
            bound = (1.0 / inputs) ** 0.5
            first = (torch.rand(rank, inputs, generator=generator) * 2 - 1) * bound
            self.a.append(nn.Parameter(first))
            self.b.append(nn.Parameter(torch.zeros(outputs, rank)))

    def forward(self, x: Tensor, rounding: bool, fine_input: bool = False) -> Tensor:
        base = self.base
        if not len(self.a):
            return self._product(x, base, rounding, fine_input)
        a = torch.cat([self._enter(a) for a in self.a])
        b = torch.cat([self._beside(self._leave(b, i), i) for i, b in enumerate(self.b)]) * self.scale
        if rounding:
            with torch.autocast(x.device.type, enabled=False):  # bfloat16 would round what is about to be rounded
                merged = base.float() + b.float() @ a.float()
            return self._product(x, merged, rounding, fine_input)
        return functional.linear(x, base) + functional.linear(functional.linear(x, a), b)

    def split(self) -> Iterator[tuple[str, Tensor]]:
        """Yield the name and the weight of each part, in the checkpoint's basis; a turn undoes itself."""
        with torch.no_grad():
            weight = self.base if self.turn is None else _by_blocks(self.base, self.turn)
            for i, (part, rows) in enumerate(zip(self.parts, torch.split(weight.float(), self._outputs), strict=True)):
                yield part, self._leave(rows, i)

    def _beside(self, b: Tensor, part: int) -> Tensor:
        """Put the columns of one part where its rows of A are: B of all parts is block-diagonal."""
        rank = b.shape[1]
        return functional.pad(b, (part * rank, (len(self.parts) - 1 - part) * rank))

    def _product(self, x: Tensor, weight: Tensor, rounding: bool, fine_input: bool) -> Tensor:
        if not rounding:
            return functional.linear(x, weight)
        return functional.linear(x, rounded(weight)) if fine_input else rounded_linear(x, weight)

    def _enter(self, weight: Tensor) -> Tensor:
        """Fold what comes before the matrix into its columns: the norm's gain and the rotation of the input."""
        if self.gain is not None:
            weight = weight * self.gain
        return weight if self.turn is None else _by_blocks(weight, self.turn)

    def _leave(self, weight: Tensor, part: int) -> Tensor:
        """Fold the rotation of the output into the rows."""
        turn: Tensor | None = getattr(self, f"turn_{self.parts[part]}", None)
        return weight if turn is None else _by_blocks(weight.T, turn).T


def _turned_back(x: Tensor) -> npt.NDArray[np.float32]:
    """Undo the rotation of rows; it is its own inverse."""
    return rotate(x.detach().double().cpu().numpy()).astype(np.float32)


def _to_numpy(x: Tensor) -> npt.NDArray[np.float32]:
    return x.detach().float().cpu().numpy()


def _by_blocks(x: Tensor, turn: Tensor) -> Tensor:
    """Multiply the last axis, block by block, by a symmetric matrix."""
    with torch.autocast(x.device.type, enabled=False):
        return (torch.unflatten(x.float(), -1, (-1, turn.shape[0])) @ turn).flatten(-2)


@cache
def _rotation(width: int) -> Tensor:
    """Return the rotation of `width` channels as a matrix, one for all layers: the rotation of the identity."""
    return torch.from_numpy(rotate(np.eye(width))).float()


def _keep(module: nn.Module, name: str, values: npt.NDArray[np.float64], trained: bool) -> None:
    """Hold a weight: a float32 parameter where it is trained, else a bfloat16 constant outside the state."""
    if trained:
        module.register_parameter(name, nn.Parameter(torch.from_numpy(values).float()))
    else:
        module.register_buffer(name, torch.from_numpy(values).to(torch.bfloat16), persistent=False)


def _attend(query: Tensor, key: Tensor, value: Tensor, lengths: Sequence[int]) -> Tensor:
    """Causal attention within each sequence; all (heads, rows, head_dim)."""
    runs = list(_runs(lengths))
    # split, not sliced: the gradient of many slices is a sum of arrays of zeros, that of a split is one copy
    pieces = zip(
        *(torch.split(part, [n * length for n, length in runs], dim=1) for part in (query, key, value)), strict=True
    )
    out = []
    for run, piece in zip(runs, pieces, strict=True):
        q, k, v = (torch.unflatten(part, 1, run).transpose(0, 1) for part in piece)
        out.append(functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(0, 1).flatten(1, 2))
    return torch.cat(out, dim=1)


def _norm(x: Tensor, eps: float) -> Tensor:
    return functional.rms_norm(x, x.shape[-1:], eps=eps)


def _turn(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """Rotary positions: pairs are channels (j, j + width / 2). x: (rows, heads, width)."""
    (cos, sin), (low, high) = turn, x.chunk(2, dim=-1)
    return torch.cat([low * cos - high * sin, low * sin + high * cos], dim=-1).to(x.dtype)


def _runs(lengths: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield (count, length) for runs of equal lengths."""
    start = 0
    for i in range(1, len(lengths) + 1):
        if i == len(lengths) or lengths[i] != lengths[start]:
            yield i - start, lengths[start]
            start = i
