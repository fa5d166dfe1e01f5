"""Where a run goes on: from its newest checkpoint, or, when its length changes, from one that lies before the decay.

A run may also be made shorter: up to where the learning rate would have begun to fall, the shorter run is the same.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from speccompact.errors import ArgumentError
from speccompact.training.schedule import Schedule
from speccompact.training.trainer import BRANCH, LAST
from speccompact.training.trainoptions import refuse_changes
from speccompact.training.trainstate import peek_state


def choose_checkpoint(folder: Path, schedule: Schedule, settings: Mapping[str, Any], *, fixed: bool = False) -> Path:
    """Return the checkpoint from which a run with this plan goes on.

    Args:
        folder: of the run.
        schedule: the plan.
        settings: what must not have changed.
        fixed: whether every step depends on how long the run is, so that it cannot be made longer or shorter.

    Raises:
        ArgumentError: there is none, a setting differs, or the run cannot have that many tokens.
        ModelError: a checkpoint is damaged.
    """
    require_run(folder)
    last = folder / LAST
    state = peek_state(last)
    refuse_changes(state.settings, settings)
    if state.total == schedule.tokens:
        return last
    if fixed:
        raise ArgumentError(
            f"tokens is {schedule.tokens}, but the run was planned for {state.total}, and its loss goes by where in "
            f"the run a step is; start anew in another folder, or go on with what it was"
        )
    same_until = min(schedule.branch, replace(schedule, tokens=state.total).branch)
    if state.step <= same_until:
        return last
    earlier = folder / BRANCH
    if earlier.exists():
        state_before = peek_state(earlier)
        refuse_changes(state_before.settings, settings)
        if state_before.step <= same_until:
            return earlier
    raise ArgumentError(
        f"tokens is {schedule.tokens}, but the run was planned for {state.total} and keeps no checkpoint from before "
        f"the learning rate would fall in either; start anew in another folder"
    )


def require_run(folder: Path) -> None:
    """Refuse to go on where there is no run.

    Raises:
        ArgumentError: the folder has no checkpoint.
    """
    if not (folder / LAST).exists():
        raise ArgumentError(f"resume finds no checkpoint in {folder}; start without it")


def refuse_occupied(folder: Path) -> None:
    """Refuse to start a run where there is one.

    Raises:
        ArgumentError: the folder has a checkpoint.
    """
    if (folder / LAST).exists():
        raise ArgumentError(f"output {folder} holds a run already; go on with it by --resume, or name another folder")
