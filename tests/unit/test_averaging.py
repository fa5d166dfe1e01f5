"""Averages of adapters: the arithmetic, what fits together, and what is written."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from speccompact.errors import ArgumentError, LimitError
from speccompact.modelstore.adapterfile import ADAPTER_NAME, Adapter, Factors, read_adapter, write_adapter
from speccompact.modelstore.download import file_sha256
from speccompact.modelstore.merging import fingerprint
from speccompact.training.averaging import Averaged, average, mean_adapter
from speccompact.training.trainoptions import TrainOptions
from speccompact.training.tuning import load_base
from tests.tiny_adapter import peft_folder, tiny_adapter
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


def wider(adapter: Adapter) -> Factors:
    return {
        name: (np.pad(a, ((0, 1), (0, 0))), np.pad(b, ((0, 0), (0, 1)))) for name, (a, b) in adapter.factors.items()
    }


def without_a_weight(adapter: Adapter) -> Adapter:
    return replace(adapter, factors=dict(list(adapter.factors.items())[1:]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda one: replace(one, scale=one.scale + 1), "its scale is"),
        (lambda one: replace(one, rank=one.rank + 1, factors=wider(one)), "its rank is"),
        (without_a_weight, "changes other weights"),
    ],
)
def test_what_does_not_fit_is_refused(change: Callable[[Adapter], Adapter], message: str) -> None:
    one = tiny_adapter()
    with pytest.raises(ArgumentError, match=message):
        mean_adapter([one, change(one)])
    with pytest.raises(ArgumentError, match="two adapters or more"):
        mean_adapter([one])


def test_an_adapter_that_changes_nothing_is_refused() -> None:
    with pytest.raises(ArgumentError, match="its scale is 0"):
        mean_adapter([replace(tiny_adapter(), scale=0.0)] * 2)


def test_a_base_that_nobody_knows_goes_with_any() -> None:
    one = tiny_adapter()
    unknown, known = replace(one, base=""), replace(one, base="1" * 64)
    assert mean_adapter([unknown, known, unknown]).base == known.base
    assert mean_adapter([unknown] * 2).base == ""
    with pytest.raises(ArgumentError, match="its base is 2222222222222222, but that of adapter is 1111"):
        mean_adapter([unknown, known, replace(one, base="2" * 64)])


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
    return average([home / each for each in names], out, base, name, home / "corpus", OPTIONS, ignore)


def ignore(done: int, total: int) -> None:
    assert 0 <= done < total


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
    assert {"versions", "device", "threads", "compile"} <= set(record)
    assert len(record["versions"]["speccompact_source"]) == 64
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
            average([home / "one.safetensors"] * 2, tmp_path / "out", base, name, held_out, OPTIONS, ignore)


def test_folders_of_peft_are_averaged(home: Path, tmp_path: Path) -> None:
    """They do not say what model they are for; the mean does."""
    base, name = load_base(str(home / "tiny.gguf"))
    files = [peft_folder(tmp_path / name, home / f"{name}.safetensors") for name in ("one", "two")]
    done = average(files, tmp_path / "out", base, name, home / "corpus", OPTIONS, ignore)
    assert read_adapter(done.adapter).base == fingerprint(base)
    record = json.loads((tmp_path / "out" / "provenance.json").read_text("utf-8"))
    assert record["averaged_sha256"] == [file_sha256(home / f"{name}.safetensors") for name in ("one", "two")]


def test_what_is_interrupted_leaves_nothing_that_looks_finished(home: Path, tmp_path: Path) -> None:
    base, name = load_base(str(home / "tiny.gguf"))

    def interrupt(done: int, total: int) -> None:
        if 2 * done >= total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        average([home / "one.safetensors"] * 2, tmp_path, base, name, home / "corpus", OPTIONS, interrupt)
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_an_unfinished_run_is_refused(home: Path, tmp_path: Path) -> None:
    (tmp_path / "last.safetensors").touch()
    with pytest.raises(ArgumentError, match="holds a run already"):
        averaged(home, tmp_path, "one.safetensors", "two.safetensors")


def test_short_memory_is_said(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr("speccompact.training.averaging.evaluate", fail)
    with pytest.raises(LimitError, match="too small to measure 256 tokens"):
        averaged(home, tmp_path, "one.safetensors", "two.safetensors")
