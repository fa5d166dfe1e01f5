"""What a checkpoint is, whatever file it came from: shape of the network, tensors by canonical names, tokenizer.

Canonical tensors are float32, rows are outputs:

    embed                   (vocab, hidden)
    layers.{i}.attn_norm    (hidden,)
    layers.{i}.q            (heads * head_dim, hidden), rotary pairs are rows (j, j + head_dim / 2) of a head
    layers.{i}.k, .v        (kv_heads * head_dim, hidden), .k paired like .q
    layers.{i}.o            (hidden, heads * head_dim)
    layers.{i}.ffn_norm     (hidden,)
    layers.{i}.gate, .up    (ffn, hidden)
    layers.{i}.down         (hidden, ffn)
    norm                    (hidden,)
    head                    (vocab, hidden), absent where the output head is the embedding ("tied")
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from speccompact.errors import ModelError
from speccompact.exact import bounds
from speccompact.text.spec import TokenizerSpec

_LIMITS = {
    "layers": 1024,
    "heads": 1024,
    "kv_heads": 1024,
    "context": 1 << 26,
} | {name: bounds.RANGES[name][1] for name in ("hidden", "head_dim", "ffn", "vocab")}
"""Largest sizes. Those of `bounds` are what the exact arithmetic is proven for, the others keep hostile files small."""


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Shape of a Llama-architecture transformer: no biases, RMSNorm, SiLU-gated feed-forward, plain rotary positions.

    Invariants (enforced): every size is positive and within its limit, heads is a multiple of kv_heads, head_dim is
    even, heads * head_dim is within its limit, rms_eps is positive and finite, rope_theta is at least 1 and finite (no
    pair turns by more than one radian a position, which the table of rotary positions relies on).

    Attributes:
        arch: "llama".
        layers: number of transformer layers.
        hidden: width of the residual.
        heads: query heads.
        kv_heads: key and value heads.
        head_dim: width of a head.
        ffn: width of the feed-forward layer.
        vocab: tokens that have an embedding.
        context: positions that the model was trained for (all of them attend to all before them).
        rope_theta: base of the rotary frequencies.
        rms_eps: added to the mean square in RMSNorm; the shortest decimal of its float32 value.
        tied: the output head is the embedding.
    """

    arch: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    context: int
    rope_theta: float
    rms_eps: float
    tied: bool

    def __post_init__(self) -> None:
        for name, limit in _LIMITS.items():
            size = getattr(self, name)
            if not 1 <= size <= limit:
                raise ModelError(f"model configuration: {name} is {size}; 1 to {limit} is supported")
        if self.heads % self.kv_heads:
            raise ModelError(f"model configuration: {self.heads} heads cannot share {self.kv_heads} key heads")
        if self.head_dim % 2:
            raise ModelError(f"model configuration: head_dim {self.head_dim} is odd, rotary pairs need an even one")
        if self.heads * self.head_dim > bounds.MAX_INPUTS:
            raise ModelError(
                f"model configuration: {self.heads} heads of {self.head_dim} are too wide together; "
                f"{bounds.MAX_INPUTS} is supported"
            )
        if not 1 <= self.rope_theta < 1e30:
            raise ModelError(f"model configuration: rope_theta is {self.rope_theta}; it must be at least 1 and finite")
        if not 0 < self.rms_eps < 1e30:
            raise ModelError(f"model configuration: rms_eps is {self.rms_eps}; it must be positive and finite")

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the canonical tensors' names and shapes, in network order."""
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        shapes: dict[str, tuple[int, ...]] = {"embed": (self.vocab, self.hidden)}
        for layer in range(self.layers):
            shapes |= {
                f"layers.{layer}.attn_norm": (self.hidden,),
                f"layers.{layer}.q": (queries, self.hidden),
                f"layers.{layer}.k": (keys, self.hidden),
                f"layers.{layer}.v": (keys, self.hidden),
                f"layers.{layer}.o": (self.hidden, queries),
                f"layers.{layer}.ffn_norm": (self.hidden,),
                f"layers.{layer}.gate": (self.ffn, self.hidden),
                f"layers.{layer}.up": (self.ffn, self.hidden),
                f"layers.{layer}.down": (self.hidden, self.ffn),
            }
        shapes["norm"] = (self.hidden,)
        if not self.tied:
            shapes["head"] = (self.vocab, self.hidden)
        return shapes


class LazyTensors(Mapping[str, npt.NDArray[np.float32]]):
    """Canonical tensors, each dequantised when asked for and not kept.

    Invariants (enforced): the names and shapes are exactly `ModelConfig.shapes`; every value is finite.
    """

    def __init__(
        self,
        config: ModelConfig,
        shapes: Mapping[str, tuple[int, ...]],
        load: Callable[[str], npt.NDArray[np.float32]],
        source: str,
    ) -> None:
        """Check the shapes that a file has against those that its configuration needs.

        Args:
            config: the shape of the network.
            shapes: canonical names and shapes found in the file.
            load: reads a tensor by canonical name.
            source: the file, for messages.

        Raises:
            ModelError: a tensor is missing or has another shape.
        """
        self._shapes = config.shapes()
        self._load = load
        self._source = source
        for name, shape in self._shapes.items():
            if name not in shapes:
                raise ModelError(f"{source}: tensor {name!r} is missing")
            if shapes[name] != shape:
                raise ModelError(f"{source}: tensor {name!r} has the shape {shapes[name]}, not {shape}")
        extra = sorted(set(shapes) - set(self._shapes))
        if extra:
            raise ModelError(f"{source}: tensor {extra[0]!r} has no place in the network")

    def __getitem__(self, name: str) -> npt.NDArray[np.float32]:
        """Dequantise one tensor; raises ModelError where a value is not finite."""
        if name not in self._shapes:
            raise KeyError(name)
        tensor = self._load(name)
        if not np.isfinite(tensor).all():
            raise ModelError(f"{self._source}: tensor {name!r} holds values that are not finite")
        return tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A float model: configuration, canonical tensors (module docstring) and tokenizer."""

    config: ModelConfig
    tensors: Mapping[str, npt.NDArray[np.float32]]
    tokenizer: TokenizerSpec


def shortest_float32(value: float) -> float:
    """Return the shortest decimal that rounds to the float32 nearest to the value.

    A GGUF file keeps 1e-05 as float32 and a config.json as text; both must give the same configuration.
    """
    with np.errstate(over="ignore"):
        return float(str(np.float32(value)))
