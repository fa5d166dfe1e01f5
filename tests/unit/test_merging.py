"""An adapter in the weights: the numbers that EXACT.md says, on every machine."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from speccompact.errors import ModelError
from speccompact.modelstore import merging
from speccompact.modelstore.adapterfile import Adapter
from speccompact.modelstore.checkpoints import Checkpoint, load_checkpoint
from speccompact.modelstore.exactfile import write_exact_file
from speccompact.modelstore.merging import fingerprint, merge
from speccompact.modelstore.quantize import convert
from tests import tiny_model
from tests.tiny_adapter import adapter_for, linear_shapes, tiny_adapter
from tests.tiny_gguf import hf_config, hf_tokenizer, hf_weights, tiny_llama, write_safetensors

MERGED_DIGEST = "760baae808a132ecd2222287a9d59ea23c9e4df3a6716b29c80c8971d8ca8b0a"
"""Of the tiny model with an adapter, converted: another one means that archives would not open elsewhere."""


@pytest.fixture
def base(tmp_path: Path) -> Checkpoint:
    return load_checkpoint(tiny_llama().write(tmp_path / "m.gguf"))


def random_adapter(checkpoint: Checkpoint, rank: int, scale: float, seed: int = 0) -> Adapter:
    """Return factors whose every bit matters."""
    random = np.random.default_rng(seed)
    factors = {
        name: tuple(random.normal(size=size).astype(np.float32) for size in ((rank, columns), (rows, rank)))
        for name, (rows, columns) in linear_shapes(checkpoint.config).items()
    }
    return Adapter(rank, scale, "", {name: (a, b) for name, (a, b) in factors.items()})


def test_every_rounding_is_where_the_document_says(base: Checkpoint) -> None:
    adapter = random_adapter(base, rank=5, scale=2 / 3)
    for name in ("layers.0.q", "layers.1.k", "layers.1.down"):
        weight = base.tensors[name]
        a, b = (factor.tolist() for factor in adapter.factors[name])
        wanted = np.empty_like(weight)
        for o, c in np.ndindex(*weight.shape):
            total = b[o][0] * a[0][c]
            for r in range(1, 5):
                total = total + b[o][r] * a[r][c]
            wanted[o, c] = np.float32(total * (2 / 3) + float(weight[o, c]))
        assert np.array_equal(merge(base, adapter).tensors[name], wanted)


@pytest.mark.parametrize("block", [1, 100, 1 << 20])
def test_the_size_of_a_block_changes_nothing(base: Checkpoint, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    adapter = random_adapter(base, rank=4, scale=0.1)
    before = fingerprint(merge(base, adapter))
    monkeypatch.setattr(merging, "_BLOCK_VALUES", block)
    assert fingerprint(merge(base, adapter)) == before


def test_the_rest_of_the_checkpoint_stays(base: Checkpoint) -> None:
    adapter = tiny_adapter()
    only = replace(adapter, factors={"layers.1.up": adapter.factors["layers.1.up"]})
    merged = merge(base, only)
    assert (merged.config, merged.tokenizer, list(merged.tensors)) == (base.config, base.tokenizer, list(base.tensors))
    different = [name for name in base.tensors if not np.array_equal(base.tensors[name], merged.tensors[name])]
    assert different == ["layers.1.up"]


def test_the_fingerprint_is_that_of_the_weights_in_any_file(base: Checkpoint, tmp_path: Path) -> None:
    folder = tmp_path / "hf"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(hf_config()))
    (folder / "tokenizer.json").write_text(json.dumps(hf_tokenizer()))
    write_safetensors(folder / "model.safetensors", hf_weights())
    assert fingerprint(load_checkpoint(folder)) == fingerprint(base)
    assert fingerprint(load_checkpoint(tiny_llama(1).write(tmp_path / "other"))) != fingerprint(base)


def test_the_fingerprint_is_what_its_words_say(base: Checkpoint) -> None:
    text = b"".join(
        " ".join([name, *map(str, tensor.shape)]).encode() + b"\n" + tensor.astype("<f4").tobytes()
        for name, tensor in base.tensors.items()
    )
    assert fingerprint(base) == hashlib.sha256(text).hexdigest()


def test_an_adapter_for_another_model_is_refused(base: Checkpoint, tmp_path: Path) -> None:
    fits = tiny_adapter(base=fingerprint(base))
    merge(base, fits)
    other = load_checkpoint(tiny_llama(1).write(tmp_path / "other"))
    with pytest.raises(ModelError, match="made for another model"):
        merge(other, replace(fits, source="mine"))
    merge(other, replace(fits, base=""))


def test_adapters_stack(base: Checkpoint) -> None:
    first = merge(base, tiny_adapter(base=fingerprint(base)))
    second = tiny_adapter(base=fingerprint(first), seed=99)
    assert fingerprint(merge(first, second)) != fingerprint(first)
    with pytest.raises(ModelError, match="made for another model"):
        merge(base, second)


def test_factors_that_do_not_fit_are_refused(base: Checkpoint) -> None:
    a, b = tiny_adapter().factors["layers.1.q"]
    with pytest.raises(ModelError, match=r"mine: tensor 'layers\.2\.q' has no place in a model of 2 layers"):
        merge(base, Adapter(2, 1.0, "", {"layers.2.q": (a, b)}, source="mine"))
    with pytest.raises(ModelError, match=r"mine: tensor '.*q_proj.lora_A.weight' has the shape \(2, 9\)"):
        merge(base, Adapter(2, 1.0, "", {"layers.1.q": (np.ones((2, 9), np.float32), b)}, source="mine"))
    with pytest.raises(ModelError, match=r"mine: tensor '.*q_proj.lora_B.weight' has the shape \(9, 2\)"):
        merge(base, Adapter(2, 1.0, "", {"layers.1.q": (a, np.ones((9, 2), np.float32))}, source="mine"))


def test_weights_that_leave_float32_are_refused(base: Checkpoint) -> None:
    merged = merge(base, replace(tiny_adapter(), scale=1e300, source="mine"))
    with pytest.raises(ModelError, match=r"mine: tensor 'layers\.0\.q' holds values that are not finite"):
        merged.tensors["layers.0.q"]


def test_conversion_with_an_adapter_gives_the_pinned_files(tmp_path: Path) -> None:
    checkpoint = tiny_model.checkpoint()
    adapter = adapter_for(linear_shapes(checkpoint.config), fingerprint(checkpoint), rank=3)
    adapter = replace(adapter, scale=1 / 3)
    merged = merge(checkpoint, adapter)
    assert fingerprint(merged) == "5078257ac946cfe2492aa5249aaa83d5119e29916b425288b0a3c919b23f58b6"
    assert write_exact_file(tmp_path / "x", *convert(merged)).hex() == MERGED_DIGEST


def test_an_adapter_of_zeros_changes_no_byte(tmp_path: Path) -> None:
    checkpoint = tiny_model.checkpoint()
    adapter = adapter_for(linear_shapes(checkpoint.config))
    zeros = {name: (a, np.zeros_like(b)) for name, (a, b) in adapter.factors.items()}
    merged = merge(checkpoint, replace(adapter, factors=zeros))
    assert write_exact_file(tmp_path / "x", *convert(merged)).hex() == tiny_model.TINY_DIGEST
