"""Averages of adapters: the arithmetic, what fits together, and what is written."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from speccompact.errors import ArgumentError
from speccompact.modelstore.adapterfile import ADAPTER_NAME, Adapter, read_adapter, write_adapter
from speccompact.modelstore.download import file_sha256
from speccompact.modelstore.merging import fingerprint
from speccompact.training.averaging import Averaged, average, mean_adapter
from speccompact.training.trainoptions import TrainOptions
from speccompact.training.tuning import load_base
from tests.tiny_adapter import tiny_adapter
from tests.tiny_corpus import write_home

OPTIONS = TrainOptions(length=64, batch=256, evaluate_tokens=128, threads=1)


def doubled(adapter: Adapter) -> Adapter:
    return replace(adapter, factors={name: (2 * a, 3 * b) for name, (a, b) in adapter.factors.items()})


def test_factors_are_averaged_one_by_one() -> None:
    one = tiny_adapter()
    mean = mean_adapter([one, doubled(one), one])
    assert (mean.rank, mean.scale, mean.base) == (one.rank, one.scale, one.base)
    for name, (a, b) in one.factors.items():
        np.testing.assert_allclose(mean.factors[name][0], a * np.float32(4 / 3), rtol=1e-6)
        np.testing.assert_allclose(mean.factors[name][1], b * np.float32(5 / 3), rtol=1e-6)


def test_the_mean_of_one_thing_is_the_thing() -> None:
    one = tiny_adapter()
    assert all(
        np.array_equal(mine, theirs)
        for name, pair in mean_adapter([one] * 3).factors.items()
        for mine, theirs in zip(pair, one.factors[name], strict=True)
    )


def without_a_weight(adapter: Adapter) -> Adapter:
    return replace(adapter, factors=dict(list(adapter.factors.items())[1:]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda one: replace(one, base="0" * 64), "its base is 0000"),
        (lambda one: replace(one, scale=one.scale + 1), "its scale is"),
        (without_a_weight, "changes other weights"),
    ],
)
def test_what_does_not_fit_is_refused(change: Callable[[Adapter], Adapter], message: str) -> None:
    one = tiny_adapter()
    with pytest.raises(ArgumentError, match=message):
        mean_adapter([one, change(one)])
    with pytest.raises(ArgumentError, match="two adapters or more"):
        mean_adapter([one])


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with text, a model, and two adapters for it."""
    folder = write_home(tmp_path_factory.mktemp("home"))
    base, _ = load_base(str(folder / "tiny.gguf"))
    one = replace(tiny_adapter(), base=fingerprint(base))
    write_adapter(folder / "one.safetensors", one)
    write_adapter(folder / "two.safetensors", doubled(one))
    return folder


def averaged(home: Path, out: Path, *names: str) -> Averaged:
    base, name = load_base(str(home / "tiny.gguf"))
    return average([home / each for each in names], out, base, name, home / "corpus", OPTIONS)


def test_an_average_leaves_an_adapter_and_where_it_comes_from(home: Path, tmp_path: Path) -> None:
    done = averaged(home, tmp_path, "one.safetensors", "two.safetensors")
    assert done.adapter == tmp_path / ADAPTER_NAME
    wanted = mean_adapter([read_adapter(home / name) for name in ("one.safetensors", "two.safetensors")])
    found = read_adapter(done.adapter)
    for name, (a, b) in wanted.factors.items():
        np.testing.assert_allclose(found.factors[name][0], a, atol=float(abs(a).max()) / 100)
        np.testing.assert_allclose(found.factors[name][1], b, atol=float(abs(b).max()) / 100)
    record = json.loads((tmp_path / "provenance.json").read_text("utf-8"))
    assert record["averaged_sha256"] == [file_sha256(home / f"{name}.safetensors") for name in ("one", "two")]
    assert record["result"]["adapter_sha256"] == file_sha256(done.adapter)
    assert list(record["result"]["held_out"]) == ["logs", "prose", "text"]
    assert record["command"].endswith("--evaluate-length 64 --device cpu --threads 1 ADAPTER1 ADAPTER2")
    assert str(home) not in json.dumps(record)
    with pytest.raises(ArgumentError, match="holds a result already"):
        averaged(home, tmp_path, "one.safetensors", "two.safetensors")


def test_the_mean_is_what_was_measured(home: Path, tmp_path: Path) -> None:
    same = averaged(home, tmp_path / "same", "one.safetensors", "one.safetensors")
    mean = averaged(home, tmp_path / "mean", "one.safetensors", "two.safetensors")
    assert same.start == mean.start
    assert same.end != mean.end
    assert same.end != same.start


def test_other_models_and_empty_folders_are_refused(home: Path, tmp_path: Path) -> None:
    write_adapter(home / "other.safetensors", replace(tiny_adapter(), base="0" * 64))
    with pytest.raises(ArgumentError, match="another model"):
        averaged(home, tmp_path / "out", "other.safetensors", "other.safetensors")
    base, name = load_base(str(home / "tiny.gguf"))
    held_out = tmp_path / "held_out"
    held_out.mkdir()
    for content, message in ((b"", "no files in it, or only empty ones"), (bytes(range(256)) * 40, "is no text")):
        (held_out / "data").write_bytes(content)
        with pytest.raises(ArgumentError, match=message):
            average([home / "one.safetensors"] * 2, tmp_path / "out", base, name, held_out, OPTIONS)
