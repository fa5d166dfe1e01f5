"""EXACT.md section 4: the forward pass, one position at a time, with the keys and values of those before."""

from collections.abc import Sequence
from operator import mul

from tests.reference.exactmodel import ExactModel, Layer, Matrix
from tests.reference.integers import (
    INT8_MAX,
    PLANES_MAX,
    PROJECTION_LIMIT,
    RESIDUAL_LIMIT,
    SCORE_LIMIT,
    clamp,
    exp2_weight,
    norm_quantise,
    quantise,
    requantise,
    shift_round,
)

START_TOKEN = 0
ESCAPE_INPUT = 0

Quantised = tuple[list[int], int]
"""A head's 8-bit numbers and their scale."""


def dot(a: Sequence[int], b: Sequence[int]) -> int:
    return sum(map(mul, a, b))


def linear(matrix: Matrix, q: Sequence[int], row: int, limit: int) -> list[int]:
    """Section 4.1."""
    return [
        requantise(dot(weights, q), channel, row, matrix.k1, matrix.k2, limit)
        for weights, channel in zip(matrix.weight, matrix.channel, strict=True)
    ]


class Network:
    """The model reading one slot."""

    def __init__(self, model: ExactModel) -> None:
        self._model = model
        self._position = 0
        self._keys: list[list[list[Quantised]]] = [[[] for _ in range(model.kv_heads)] for _ in model.layers]
        self._values: list[list[list[Quantised]]] = [[[] for _ in range(model.kv_heads)] for _ in model.layers]

    def scores(self, before: int | None) -> list[int]:
        """Read the symbol before the next position (None: there is none) and return the scores there."""
        return self.output(before)[1]

    def output(self, before: int | None) -> tuple[list[int], list[int]]:
        """Read a symbol likewise; return the input of the head, without its scale, and the scores."""
        model = self._model
        token = START_TOKEN if before is None else before if before < model.vocab else ESCAPE_INPUT
        x = [entry << model.embed_shift for entry in model.embed[token]]
        for index, layer in enumerate(model.layers):
            x = self._attention(index, layer, x)
            x = self._feed_forward(layer, x)
        self._position += 1
        q8, row = norm_quantise(x, model.norm_gain, model.norm_epsilon)
        return q8, linear(model.head, q8, row, SCORE_LIMIT)

    def _attention(self, index: int, layer: Layer, x: list[int]) -> list[int]:
        """Sections 4.3 and 4.4."""
        model = self._model
        heads, kv_heads, size = model.heads, model.kv_heads, model.head_dim
        q8, row = norm_quantise(x, model.norm_gain, model.norm_epsilon)
        projection = linear(layer.qkv, q8, row, PROJECTION_LIMIT)
        parts = [projection[i : i + size] for i in range(0, len(projection), size)]
        queries = [quantise(self._turned(part), INT8_MAX) for part in parts[:heads]]
        for g in range(kv_heads):
            self._keys[index][g].append(quantise(self._turned(parts[heads + g]), INT8_MAX))
            self._values[index][g].append(quantise(parts[heads + kv_heads + g], INT8_MAX))
        out: list[int] = []
        for h, query in enumerate(queries):
            g = h // (heads // kv_heads)
            out += self._mixed_values(query, self._keys[index][g], self._values[index][g])
        q8, row = quantise(out, INT8_MAX)
        return _added(x, linear(layer.o, q8, row, RESIDUAL_LIMIT))

    def _turned(self, z: Sequence[int]) -> list[int]:
        half = self._model.head_dim // 2
        angles = self._model.rotary[self._position]
        cos, sin = angles[:half], angles[half:]
        first = [shift_round(z[j] * cos[j] - z[half + j] * sin[j], 15) for j in range(half)]
        second = [shift_round(z[j] * sin[j] + z[half + j] * cos[j], 15) for j in range(half)]
        return first + second

    def _mixed_values(self, query: Quantised, keys: list[Quantised], values: list[Quantised]) -> list[int]:
        """Section 4.4 for one query head."""
        model = self._model
        query_vector, query_scale = query
        factor = min(2**31 - 1, shift_round(query_scale * model.score_factor, 24))
        score = []
        for key_vector, key_scale in keys:
            gain = min(2**31 - 1, shift_round(factor * key_scale, 16))
            score.append(clamp(shift_round(dot(query_vector, key_vector) * gain, 14), SCORE_LIMIT))
        best = max(score)
        w = [exp2_weight(best - entry, model.exp2) for entry in score]
        mixed = [weight * scale for weight, (_, scale) in zip(w, values, strict=True)]
        shift = max(mixed).bit_length() - 14
        coef = [min(2**14 - 1, shift_round(entry, shift)) for entry in mixed]
        total = [dot(coef, [vector[c] for vector, _ in values]) for c in range(model.head_dim)]
        divisor = 127 * sum(w)
        e = divisor.bit_length() + 19
        ratio = (1 << e) // divisor
        return [shift_round(entry * ratio, e - shift - 4) for entry in total]

    def _feed_forward(self, layer: Layer, x: list[int]) -> list[int]:
        """Section 4.5."""
        model = self._model
        q8, row = norm_quantise(x, model.norm_gain, model.norm_epsilon)
        projection = linear(layer.gate_up, q8, row, PROJECTION_LIMIT)
        u = []
        for gate, up in zip(projection[: model.ffn], projection[model.ffn :], strict=True):
            index = min(16383, max(-16384, shift_round(gate, 2))) + 16384
            silu = shift_round(gate * model.sigmoid[index], 12)
            u.append(clamp(shift_round(silu * up, 12), RESIDUAL_LIMIT))
        q, row = quantise(u, PLANES_MAX)
        return _added(x, linear(layer.down, q, row, RESIDUAL_LIMIT))


def _added(x: list[int], change: list[int]) -> list[int]:
    return [clamp(a + b, RESIDUAL_LIMIT) for a, b in zip(x, change, strict=True)]
