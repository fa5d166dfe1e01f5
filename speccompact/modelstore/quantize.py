"""Float checkpoint to exact model: rotation, int8 weights, integer scales, tables, overflow bounds.

The result is the same on every machine: single IEEE double operations on arrays in a fixed order (sums are written
out as sequences of additions), Python integers for the tables, no matrix product of any library.

Rotation. The residual stream of a language model has a few channels that are hundreds of times larger than the rest,
which costs int8 activations most of their resolution. An orthogonal matrix R, folded into every weight that reads or
writes the residual, spreads them over all channels and changes nothing else, because RMSNorm (its gain folded into
the weights that follow) commutes with it. Values are rotated per head in the same way, between the value and output
projections. The idea is that of QuaRot (Ashkboos et al., 2024); R = O(m) x Hadamard(2**k) for a width of m * 2**k,
O(m) = I - 2/m, is symmetric and its own inverse.
"""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from speccompact.errors import ModelError
from speccompact.exact import bounds, fixedpoint, tables
from speccompact.modelstore.download import Progress, no_progress
from speccompact.modelstore.modelconfig import Checkpoint, ModelConfig
from speccompact.modelstore.tokenizer_tensors import tokenizer_to_tensors
from speccompact.params import EXACT_VERSION

CHANNEL_BITS = 20
"""The largest weight scale of a matrix has this many bits."""

_INNER_BITS = 30
_LOG2_E = 1.4426950408889634

Floats = npt.NDArray[np.float64]
Tensors = dict[str, npt.NDArray[Any]]


def convert(checkpoint: Checkpoint, progress: Progress = no_progress) -> tuple[dict[str, Any], Tensors]:
    """Convert a checkpoint to the contents of an exact model file.

    Args:
        checkpoint: what `checkpoints.load_checkpoint` returned.
        progress: told how many weights are converted, and of how many.

    Returns:
        Metadata (JSON values) and integer tensors by name; EXACT.md section 3 lists both.

    Raises:
        ModelError: a tensor is not finite, or a bound cannot be met.
    """
    config = checkpoint.config
    done, total = 0, _weights(config)

    def advance(count: int) -> None:
        nonlocal done
        done += count
        progress("convert", done, total)

    advance(0)
    embed, embed_shift = _fixed_embedding(rotate(_load(checkpoint, "embed")))
    numbers = _numbers(config, embed_shift)
    if flaw := bounds.flaw(numbers):
        raise ModelError(f"the exact arithmetic does not allow this model: {flaw}")
    advance(embed.size)
    tensors: Tensors = {
        "embed": embed,
        "exp2": tables.exp2_table(fixedpoint.EXP2_INDEX_BITS, fixedpoint.EXP2_BITS),
        "sigmoid": tables.sigmoid_table(tables.SIGMOID_STEP_BITS, tables.SIGMOID_HALF, fixedpoint.FRAC_SIGMOID),
        "rotary": tables.rotary_table(config.rope_theta, config.head_dim, numbers["positions"], fixedpoint.FRAC_ROTARY),
    }
    linears: dict[str, dict[str, int]] = {}

    def add(name: str, weight: Floats, site: str) -> None:
        linears[name] = _add_linear(tensors, name, weight, site)
        advance(weight.size)

    for i in range(config.layers):
        _convert_layer(checkpoint, f"layers.{i}", add)
    head = _load(checkpoint, "embed" if config.tied else "head") * _load(checkpoint, "norm")
    add("head", rotate(head), "head")
    tensors |= tokenizer_to_tensors(checkpoint.tokenizer)
    return {"exact_version": EXACT_VERSION, **numbers, "linears": linears}, tensors


def _weights(config: ModelConfig) -> int:
    """Return how many weights are converted: those of all matrices, of embedding and head each for itself."""
    sizes = {name: math.prod(shape) for name, shape in config.shapes().items() if len(shape) == 2}
    return sum(sizes.values()) + (sizes["embed"] if config.tied else 0)


def rotate(x: Floats) -> Floats:
    """Multiply by the symmetric orthogonal matrix of the last axis; its own inverse up to rounding.

    Args:
        x: (..., n), n = m * 2**k with m odd.
    """
    n = x.shape[-1]
    power = n & -n
    lead = x.shape[:-1]
    y = x.reshape(*lead, n // power, power)
    width = 1
    while width < power:
        pairs = y.reshape(*lead, n // power, power // (2 * width), 2, width)
        even, odd = pairs[..., 0, :], pairs[..., 1, :]
        y = np.stack([even + odd, even - odd], axis=-2).reshape(*lead, n // power, power)
        width *= 2
    y = y * (1.0 / math.sqrt(power))
    groups = n // power
    if groups > 1:
        total = y[..., 0, :]
        for group in range(1, groups):
            total = total + y[..., group, :]
        y = y - (total * (2.0 / groups))[..., None, :]
    return y.reshape(x.shape)


def _numbers(config: ModelConfig, embed_shift: int) -> dict[str, int]:
    """Return the numbers of a model's metadata; EXACT.md section 3.2."""
    return {
        "layers": config.layers,
        "hidden": config.hidden,
        "heads": config.heads,
        "kv_heads": config.kv_heads,
        "head_dim": config.head_dim,
        "ffn": config.ffn,
        "vocab": config.vocab,
        "positions": min(config.context, bounds.MAX_POSITIONS),
        "embed_shift": embed_shift,
        "norm_gain": _norm_gain(config.hidden),
        "norm_epsilon": math.floor(Fraction(repr(config.rms_eps)) * config.hidden * 2**32 + Fraction(1, 2)),
        "score_factor": _score_factor(config),
    }


def _convert_layer(checkpoint: Checkpoint, name: str, add: Any) -> None:
    config = checkpoint.config
    attn_norm, ffn_norm = _load(checkpoint, f"{name}.attn_norm"), _load(checkpoint, f"{name}.ffn_norm")
    query, key = (_load(checkpoint, f"{name}.{part}") * attn_norm for part in "qk")
    value = _load(checkpoint, f"{name}.v") * attn_norm
    per_head = np.swapaxes(value.reshape(config.kv_heads, config.head_dim, config.hidden), 1, 2)
    value = np.swapaxes(rotate(per_head), 1, 2).reshape(value.shape)
    add(f"{name}.qkv", rotate(np.concatenate([query, key, value])), "norm")
    output = rotate(_load(checkpoint, f"{name}.o").reshape(config.hidden, config.heads, config.head_dim))
    add(f"{name}.o", _rotate_rows(output.reshape(config.hidden, config.heads * config.head_dim)), "attention")
    gate, up = (_load(checkpoint, f"{name}.{part}") * ffn_norm for part in ("gate", "up"))
    add(f"{name}.gate_up", rotate(np.concatenate([gate, up])), "norm")
    add(f"{name}.down", _rotate_rows(_load(checkpoint, f"{name}.down")), "gated")


_SITES = {
    # What feeds the matrix, what reads it: factor of the scale, fractional bits of row scale and of the result,
    # largest input.
    "norm": (1.0, fixedpoint.FRAC_NORM, fixedpoint.FRAC_PROJECTION, fixedpoint.INT8_MAX),
    "head": (_LOG2_E, fixedpoint.FRAC_NORM, fixedpoint.FRAC_SCORE, fixedpoint.INT8_MAX),
    "attention": (
        1.0 / fixedpoint.INT8_MAX, fixedpoint.FRAC_RESIDUAL, fixedpoint.FRAC_RESIDUAL, fixedpoint.INT8_MAX,
    ),
    "gated": (
        1.0 / fixedpoint.PLANES_MAX, fixedpoint.FRAC_RESIDUAL, fixedpoint.FRAC_RESIDUAL, fixedpoint.PLANES_MAX,
    ),
}  # fmt: skip


def _add_linear(tensors: Tensors, name: str, weight: Floats, site: str) -> dict[str, int]:
    """Quantise a matrix row by row and choose the shifts of its requantisation.

    Returns:
        k1, k2, and the proven bounds: acc, the largest |sum of products|; inner, of the value before the second
        multiplication.
    """
    factor, row_bits, out_bits, input_max = _SITES[site]
    scale = np.abs(weight).max(axis=1) / float(fixedpoint.INT8_MAX)
    scale = np.where(scale > 0.0, scale, scale.max() or 1.0)
    integers = np.rint(weight / scale[:, None]).astype(np.int8)
    channel_real = scale * factor
    exponent = CHANNEL_BITS - int(np.frexp(channel_real.max())[1])
    channel = np.maximum(np.rint(np.ldexp(channel_real, exponent)), 1.0).astype(np.int32)
    acc, scaled = bounds.largest_products(integers, channel, input_max)
    k1 = max(0, scaled.bit_length() - _INNER_BITS)
    k2 = exponent + row_bits - out_bits - k1
    if not 1 <= k2 <= bounds.MAX_SECOND_SHIFT:
        raise ModelError(f"{name}: weights of this size cannot be represented (shift {k2}); is the checkpoint sound?")
    tensors[f"{name}.weight"] = integers
    tensors[f"{name}.channel"] = channel
    return {"k1": k1, "k2": k2, "acc": acc, "inner": bounds.inner_bound(scaled, k1)}


def _fixed_embedding(embed: Floats) -> tuple[npt.NDArray[np.int16], int]:
    """Embedding rows as int16 with as many fractional bits as fit, at most those of the residual.

    Returns:
        (vocab, hidden) int16, and the left shift that brings it to the residual's fractional bits.
    """
    exponent = int(np.frexp(np.abs(embed).max())[1])
    bits = min(fixedpoint.FRAC_RESIDUAL, 15 - exponent)
    fixed = np.clip(np.rint(np.ldexp(embed, bits)), -32767, 32767).astype(np.int16)
    shift = fixedpoint.FRAC_RESIDUAL - bits
    if shift > 15:
        raise ModelError(f"embed: values reach 2**{exponent}; is the checkpoint sound?")
    return fixed, shift


def _norm_gain(hidden: int) -> int:
    """sqrt(hidden) * 2**20 / 127, rounded half up."""
    return (math.isqrt(hidden << 100) * 2 + (127 << 30)) // (127 << 31)


def _score_factor(config: ModelConfig) -> int:
    """log2(e) / (sqrt(head_dim) * 127**2) * 2**46, rounded half up.

    A query scale and a key scale (FRAC_PROJECTION bits each) times this, over 2**46, turn an int8 dot product into a
    score in log2 units with FRAC_SCORE bits: 46 = 54 - 2 * FRAC_PROJECTION + FRAC_SCORE.
    """
    log2_e = tables.log2_e()
    divisor = math.isqrt(config.head_dim << (2 * tables.GUARD)) * fixedpoint.INT8_MAX**2
    return ((log2_e << 47) + divisor) // (divisor * 2)


def _rotate_rows(weight: Floats) -> Floats:
    return np.ascontiguousarray(rotate(weight.T).T)


def _load(checkpoint: Checkpoint, name: str) -> Floats:
    values = checkpoint.tensors[name].astype(np.float64)
    if not np.isfinite(values).all():
        raise ModelError(f"{name}: holds values that are not finite")
    return values
