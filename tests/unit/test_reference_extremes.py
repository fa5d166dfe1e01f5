"""Models that are valid but far from sane: every clamp is at work, and product and reference still agree."""

from pathlib import Path

import numpy as np
import pytest

from speccompact.modelstore.loading import load_target
from speccompact.options import Options
from tests.reference.exactmodel import read_exact_model
from tests.reference.writing import changed_model, changed_tensor, write_lane
from tests.tiny_model import TINY_EXACT, integers
from tests.tiny_slots import PlainCodec

CHECK = 77

MATRICES = ["head", *(f"layers.{i}.{name}" for i in range(2) for name in ("qkv", "o", "gate_up", "down"))]


def shifts(k2: int, *names: str) -> dict[str, int]:
    """Return changes that make the results of matrices 2^n times as large or as small."""
    return {f"linears/{matrix}/k2": k2 for matrix in MATRICES if matrix.rpartition(".")[2] in names or not names}


EXTREMES = {
    "the model as it is": {},
    "largest scores in attention": {"score_factor": 1 << 33, **shifts(10, "qkv")},
    "large scores in attention": {"score_factor": 1 << 33, **shifts(20, "qkv")},
    "no scores in attention": {"score_factor": 0},
    "largest residual": {"embed_shift": 15, **shifts(1, "o", "down")},
    "largest norms": {"norm_gain": (1 << 20) - 1, "norm_epsilon": 0},
    "no norms": {"norm_gain": 0},
    "largest epsilon": {"norm_epsilon": (1 << 43) - 1},
    "largest gates": shifts(10, "gate_up"),
    "largest scores": shifts(1, "head"),
    "everything large": shifts(20),
    "everything largest": {"embed_shift": 15, "score_factor": 1 << 33, "norm_gain": (1 << 20) - 1, **shifts(1)},
    "everything zero": shifts(62),
}


def faint(data: bytes, matrix: str, first: int, last: int) -> bytes:
    """Return the model with rows of a matrix that give next to nothing: their channel scales are 1."""
    channel = f"{matrix}.channel"
    return changed_tensor(data, channel, first * 4, (1).to_bytes(4, "little") * (last - first))


TINY = TINY_EXACT.read_bytes()
MODELS = {name: changed_model(TINY, changes) for name, changes in EXTREMES.items()} | {
    # where all is large, a clamp is hidden by the next one
    "largest queries, small keys": faint(
        changed_model(TINY, {"score_factor": 1 << 33, **shifts(15, "qkv")}), "layers.0.qkv", 48, 64
    ),
    "largest gates, small ups": faint(changed_model(TINY, shifts(15, "gate_up")), "layers.1.gate_up", 80, 160),
}


@pytest.mark.parametrize("name", MODELS)
def test_lanes_agree(tmp_path: Path, name: str) -> None:
    path = tmp_path / "extreme.exact"
    path.write_bytes(MODELS[name])
    source = integers(len(name))
    symbols = [next(source) % 479 for _ in range(12)]
    options = Options(threads=1)
    target, _ = load_target(str(path), options)
    coded = PlainCodec(target, options).encode([np.array(symbols, np.int32)], [CHECK])
    assert coded[0].payload == write_lane(read_exact_model(MODELS[name]), symbols, CHECK)
