"""Checkpoints of a run: parameters, moments of the optimiser, and everything else as JSON, in one safetensors file.

Commit point: the rename of the finished file. Before it, the checkpoint that was there before is intact.
"""

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from speccompact.errors import ModelError
from speccompact.modelstore.adapterfile import CHECKPOINT_KEY
from speccompact.modelstore.safetensors import SafetensorsFile
from speccompact.modelstore.storefiles import write_whole

_MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass
class RunState:
    """Where a run is.

    Attributes:
        step: steps done.
        total: tokens that the run was to have when this was written.
        settings: what must not change from one part of a run to the next: name of the option -> value.
        stream: state of the stream of batches.
        tokens_by_kind: trained on so far.
        evaluations: [step, {kind: bits per byte}], rising; the first is of the untuned model.
        seconds: spent so far.
    """

    step: int
    total: int
    settings: dict[str, Any]
    stream: dict[str, Any]
    tokens_by_kind: dict[str, int]
    evaluations: list[tuple[int, dict[str, float]]]
    seconds: float


def save_state(path: Path, state: RunState, network: nn.Module, optimiser: torch.optim.Optimizer) -> None:
    """Write a checkpoint; whatever has that name is replaced by a complete new file or left alone.

    Raises:
        OSError: it cannot be written.
    """
    tensors = {}
    for name, parameter in network.named_parameters():
        tensors[f"parameter.{name}"] = parameter.detach().float().cpu().contiguous()
        for moment in _MOMENTS:
            if moment in optimiser.state[parameter]:
                tensors[f"{moment}.{name}"] = optimiser.state[parameter][moment].float().cpu().contiguous()
    write_whole(path, partial(save_file, tensors, metadata={CHECKPOINT_KEY: json.dumps(vars(state))}))


def peek_state(path: Path) -> RunState:
    """Read a checkpoint's state without its tensors.

    Raises:
        ModelError: it is damaged, or no checkpoint of a run.
    """
    return _state(SafetensorsFile(path))


def load_state(path: Path, network: nn.Module, optimiser: torch.optim.Optimizer) -> RunState:
    """Read a checkpoint into a network and its optimiser.

    Raises:
        ModelError: it is damaged, or of another network.
    """
    file = SafetensorsFile(path)
    state = _state(file)
    for name, parameter in network.named_parameters():
        values = _read(file, f"parameter.{name}", parameter)
        if state.step:
            kept: dict[str, Any] = {
                moment: _read(file, f"{moment}.{name}", parameter).to(parameter.device) for moment in _MOMENTS
            }
            optimiser.state[parameter] = kept | {"step": torch.tensor(float(state.step))}
        with torch.no_grad():
            parameter.copy_(values)
    return state


def _state(file: SafetensorsFile) -> RunState:
    try:
        values = json.loads(file.metadata[CHECKPOINT_KEY])
        values["evaluations"] = [(step, measured) for step, measured in values["evaluations"]]
        state = RunState(**values)
    except (KeyError, TypeError, ValueError, RecursionError):
        raise ModelError(f"{file.path}: not a checkpoint of a training run of this release") from None
    for name, kind in {"step": int, "total": int, "settings": dict, "stream": dict, "tokens_by_kind": dict}.items():
        if type(getattr(state, name)) is not kind:
            raise ModelError(f"{file.path}: damaged checkpoint: {name} is of the wrong type")
    return state


def _read(file: SafetensorsFile, name: str, parameter: nn.Parameter) -> torch.Tensor:
    place = file.tensors.get(name)
    if place is None or place.shape != tuple(parameter.shape):
        raise ModelError(f"{file.path}: the checkpoint is of another network: {name!r} does not fit")
    values = torch.from_numpy(file.floats(name))
    if not values.isfinite().all():
        raise ModelError(f"{file.path}: damaged checkpoint: {name!r} holds values that are not finite")
    return values
