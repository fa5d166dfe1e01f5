"""The training loop: steps, evaluations and checkpoints, so that a run that is stopped goes on as if it had not been.

Invariant: parameters, moments, stream and counters change together, at the end of a step. A stop is obeyed between
passes of the network, where what the step has done so far can be dropped.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor, nn

from speccompact.errors import ArgumentError, LimitError
from speccompact.shortage import memory_errors
from speccompact.training.batch import Batch
from speccompact.training.evaluation import Figure, mean_change
from speccompact.training.metrics import Line, MetricsFile
from speccompact.training.prefetch import Prefetcher, Step, Stream
from speccompact.training.schedule import Schedule
from speccompact.training.trainstate import RunState, save_state

LAST, BRANCH = "last.safetensors", "before-decay.safetensors"
"""Names of checkpoints: the newest, and the newest from which a longer run can be made."""

_BETAS = (0.9, 0.95)
_CLIP = 1.0


class Interrupted(Exception):
    """The run was asked to stop; its checkpoint is written."""


@dataclass(frozen=True, slots=True)
class Report:
    """How far a run is.

    Attributes:
        stage: "reading", "evaluating", "evaluated" (once each time) or "training".
        tokens: seen so far.
        total: of the whole run.
        loss: per token of the last step, or None before the first.
        change: of what is measured on held-out text, against the start, in percent, a mean over the kinds; None before
            any.
        tokens_per_second: of the last step.
        seconds_left: of the whole run, or None where unknown.
        figure: what is measured on held-out text; None where nothing is.
    """

    stage: str
    tokens: int
    total: int
    loss: float | None
    change: float | None
    tokens_per_second: float | None
    seconds_left: float | None
    figure: Figure | None = None


Watch = Callable[[Report], None]


def pausing(stopping: Callable[[], bool]) -> Callable[[], None]:
    """Return what is called between the passes of a network behind the last step, whose checkpoint is written.

    Args:
        stopping: whether somebody wants the run to end; then `Interrupted` is raised.
    """

    def pause() -> None:
        if stopping():
            raise Interrupted

    return pause


class Subject(Protocol):
    """What is trained, and how it is measured."""

    @property
    def network(self) -> nn.Module:
        """What holds the trainable parameters, on their device."""
        ...

    @property
    def loss_name(self) -> str:
        """What the loss is called in the metrics."""
        ...

    @property
    def figure(self) -> Figure:
        """What is measured."""
        ...

    def begin(self) -> None:
        """Go from what is measured first to what is trained; called once, in a new run."""
        ...

    def loss(self, batch: Batch, step: int) -> Tensor:
        """Return the loss at a step (from 0), summed over the tokens of a batch: a scalar."""
        ...

    def conditions(self, step: int) -> Line:
        """Return what else the metrics say of a step (from 0)."""
        ...

    def measure(self, pause: Callable[[], None]) -> dict[str, float]:
        """Return a figure for each kind of held-out text; `pause` is called before every batch, and may raise."""
        ...


def make_optimiser(network: nn.Module, learning_rate: float) -> torch.optim.AdamW:
    """Return AdamW without weight decay (Loshchilov and Hutter, 2019): adapters start at nothing and stay small."""
    return torch.optim.AdamW(network.parameters(), lr=learning_rate, betas=_BETAS, weight_decay=0.0)


class Trainer:
    """One run in one process."""

    def __init__(
        self,
        subject: Subject,
        optimiser: torch.optim.Optimizer,
        stream: Stream,
        schedule: Schedule,
        state: RunState,
        folder: Path,
        *,
        evaluation_steps: int,
        checkpoint_seconds: float,
        watch: Watch,
        stopping: Callable[[], bool],
    ) -> None:
        """Take over what a run consists of.

        Args:
            subject: its network with the parameters of `state`.
            optimiser: of these parameters, with the moments of `state`.
            stream: where `state` says.
            schedule: the plan.
            state: where the run is; changed as it goes on.
            folder: for checkpoints and metrics.
            evaluation_steps: steps between two evaluations.
            checkpoint_seconds: between two checkpoints.
            watch: told how far the run is.
            stopping: whether somebody wants the run to end.
        """
        self._subject, self._optimiser, self._stream = subject, optimiser, stream
        self._network = subject.network
        self._schedule, self.state = schedule, state
        self._folder, self._metrics = folder, MetricsFile(folder / "metrics.jsonl")
        self._evaluation_steps, self._checkpoint_seconds = evaluation_steps, checkpoint_seconds
        self._watch, self._stopping = watch, stopping
        self._device = next(self._network.parameters()).device
        self._began, self._first_step, self._spent = time.monotonic(), state.step, state.seconds
        self._loss: float | None = None
        self._rate: float | None = None

    def run(self) -> None:
        """Train to the end.

        Raises:
            Interrupted: it was asked to stop, after writing a checkpoint.
            ArgumentError: the loss is no longer finite. The last checkpoint stays as it is.
            LimitError: the device has too little memory. The last checkpoint stays as it is.
            OSError: a file cannot be read or written.
        """
        try:
            with memory_errors():
                self._run()
        except Interrupted:
            self._optimiser.zero_grad(set_to_none=True)
            self._save(LAST)
            raise
        except MemoryError:
            raise LimitError("--micro-batch is too large for the memory here; choose a smaller one") from None
        self._save(LAST)

    def _run(self) -> None:
        saved = time.monotonic()
        with Prefetcher(self._stream) as batches:
            while True:
                if self._is_due():
                    self._evaluate()
                    if self.state.step == 0:
                        self._subject.begin()
                if self.state.step == self._schedule.branch:
                    self._save(BRANCH)
                if self.state.step >= self._schedule.steps:
                    break
                if self.state.step == 0 or time.monotonic() - saved >= self._checkpoint_seconds:
                    self._save(LAST)
                    saved = time.monotonic()
                self._advance(batches.next_step())

    def _advance(self, step: Step) -> None:
        """Do one step."""
        state, schedule = self.state, self._schedule
        batches, stream, tokens_by_kind = step
        rate = schedule.rate(state.step)
        began = time.monotonic()
        tokens = sum(len(batch.targets) for batch in batches)
        total = torch.zeros((), device=self._device)
        for batch in batches:
            self._pause("training")
            with torch.autocast(self._device.type, torch.bfloat16):
                loss = self._subject.loss(batch.to(self._device), state.step) / tokens
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        gradient = float(nn.utils.clip_grad_norm_(self._network.parameters(), _CLIP))
        self._loss = float(total)
        if not (math.isfinite(self._loss) and math.isfinite(gradient)):
            raise ArgumentError(
                f"learning_rate is {schedule.learning_rate}, and with it the loss is not finite any more at step "
                f"{state.step}; the last checkpoint is kept; start anew with a lower one"
            )
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        self._optimiser.step()
        self._optimiser.zero_grad(set_to_none=True)
        state.step += 1
        state.stream, state.tokens_by_kind = stream, tokens_by_kind
        self._rate = tokens / (time.monotonic() - began)
        self._metrics.append(
            {
                "step": state.step,
                "tokens": state.step * schedule.batch,
                self._subject.loss_name: self._loss,
                "learning_rate": rate,
                "gradient": gradient,
                **self._subject.conditions(state.step - 1),
                "tokens_per_second": round(self._rate, 1),
            }
        )
        self._report("training")

    def _is_due(self) -> bool:
        step, done = self.state.step, self.state.evaluations
        if done and done[-1][0] == step:
            return False
        return step % self._evaluation_steps == 0 or step >= self._schedule.steps

    def _evaluate(self) -> None:
        result = self._subject.measure(lambda: self._pause("evaluating"))
        self.state.evaluations.append((self.state.step, result))
        tokens = self.state.step * self._schedule.batch
        self._metrics.append({"step": self.state.step, "tokens": tokens, "held_out": result})
        self._report("evaluated")

    def _pause(self, stage: str) -> None:
        self._report(stage)
        if self._stopping():
            raise Interrupted

    def _report(self, stage: str) -> None:
        step, steps, evaluations = self.state.step, self._schedule.steps, self.state.evaluations
        done = step - self._first_step
        left = (time.monotonic() - self._began) / done * (steps - step) if done else None
        change = mean_change(evaluations[0][1], evaluations[-1][1]) if evaluations else None
        batch = self._schedule.batch
        self._watch(
            Report(stage, step * batch, steps * batch, self._loss, change, self._rate, left, self._subject.figure)
        )

    def _save(self, name: str) -> None:
        self.state.seconds = round(self._spent + time.monotonic() - self._began, 1)
        save_state(self._folder / name, self.state, self._network, self._optimiser)
