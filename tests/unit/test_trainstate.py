import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from speccompact.errors import ModelError
from speccompact.modelstore.safetensors import SafetensorsFile
from speccompact.training import trainstate
from speccompact.training.trainer import make_optimiser
from speccompact.training.trainstate import RunState, load_state, peek_state, save_state
from tests.tiny_gguf import write_safetensors


def trained(steps: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(steps)
    network = nn.Linear(5, 3)
    optimiser = make_optimiser(network, 0.1)
    for _ in range(steps):
        step(network, optimiser)
    return network, optimiser


def step(network: nn.Module, optimiser: torch.optim.Optimizer) -> None:
    optimiser.zero_grad()
    network(torch.arange(5.0)).square().sum().backward()
    optimiser.step()


def state(number: int) -> RunState:
    return RunState(number, 9, {"rank": None}, {"draws": {"a": 1}}, {"a": 7}, [(0, {"a": 0.1 + 0.2})], 1.5)


@pytest.mark.parametrize("steps", [0, 3])
def test_inverse(tmp_path: Path, steps: int) -> None:
    network, optimiser = trained(steps)
    save_state(tmp_path / "x", state(steps), network, optimiser)
    assert peek_state(tmp_path / "x") == state(steps)
    other, its_optimiser = trained(0)
    assert load_state(tmp_path / "x", other, its_optimiser) == state(steps)
    for _ in range(3):
        step(network, optimiser)
        step(other, its_optimiser)
    assert all(torch.equal(a, b) for a, b in zip(network.parameters(), other.parameters(), strict=True))


def test_a_write_that_breaks_off_leaves_the_old_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network, optimiser = trained(1)
    save_state(tmp_path / "x", state(1), network, optimiser)
    before = (tmp_path / "x").read_bytes()

    def torn(_tensors: object, path: Path, *, metadata: object) -> None:
        path.write_bytes(before[:100])
        raise OSError("disk full")

    monkeypatch.setattr(trainstate, "save_file", torn)
    with pytest.raises(OSError, match="disk full"):
        save_state(tmp_path / "x", state(2), network, optimiser)
    assert (tmp_path / "x").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_other_files_and_networks_are_refused(tmp_path: Path) -> None:
    network, optimiser = trained(1)
    save_state(tmp_path / "x", state(1), network, optimiser)
    wider = nn.Linear(6, 3)
    with pytest.raises(ModelError, match="another network"):
        load_state(tmp_path / "x", wider, make_optimiser(wider, 0.1))
    data = (tmp_path / "x").read_bytes()
    (tmp_path / "x").write_bytes(data[:-1])
    with pytest.raises(ModelError, match="damaged"):
        peek_state(tmp_path / "x")
    (tmp_path / "x").write_bytes(data.replace(b"speccompact.training", b"speccompact.something"))
    with pytest.raises(ModelError):
        peek_state(tmp_path / "x")


@pytest.mark.parametrize("name", ["parameter.weight", "exp_avg.bias", "exp_avg_sq.weight"])
def test_tensors_that_do_not_fit_or_are_not_finite(tmp_path: Path, name: str) -> None:
    network, optimiser = trained(1)
    save_state(tmp_path / "x", state(1), network, optimiser)
    file = SafetensorsFile(tmp_path / "x")
    whole = {each: file.floats(each) for each in file.tensors}
    for wrong, words in (
        (np.zeros((2, 2), np.float32), "does not fit"),
        (np.full(whole[name].shape, np.nan, np.float32), "holds values that are not finite"),
        (None, "does not fit"),
    ):
        changed = {each: values for each, values in whole.items() if each != name}
        write_safetensors(tmp_path / "y", changed if wrong is None else changed | {name: wrong}, file.metadata)
        other, its_optimiser = trained(0)
        with pytest.raises(ModelError, match=f"y: .*{name}' {words}"):
            load_state(tmp_path / "y", other, its_optimiser)


@pytest.mark.parametrize(
    "changed",
    [
        {"step": "1"},
        {"step": None},
        {"total": 1.5},
        {"settings": []},
        {"stream": 3},
        {"tokens_by_kind": None},
        {"evaluations": 7},
        {"evaluations": [[1]]},
        {"more": 1},
    ],
)
def test_a_state_of_other_types(tmp_path: Path, changed: dict[str, Any]) -> None:
    text = json.dumps(vars(state(1)) | changed)
    write_safetensors(tmp_path / "x", {"a": np.zeros(1, np.float32)}, {"speccompact.training": text})
    with pytest.raises(ModelError, match="x: "):
        peek_state(tmp_path / "x")
