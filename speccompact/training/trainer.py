"""The training loop: steps, evaluations and checkpoints, so that a run that is stopped goes on as if it had not been.

Invariant: parameters, moments, stream and counters change together, at the end of a step. A stop is obeyed between
passes of the network, where what the step has done so far can be dropped.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from speccompact.errors import ArgumentError, LimitError
from speccompact.modelstore.adapterfile import Adapter
from speccompact.shortage import memory_errors
from speccompact.training.batch import Batch
from speccompact.training.evaluation import evaluate, mean_change
from speccompact.training.metrics import MetricsFile
from speccompact.training.network import Network
from speccompact.training.prefetch import Prefetcher, Step
from speccompact.training.sampling import SequenceStream
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
        bits: per token of the last step, or None before the first.
        change: of the held-out bits against the untuned model, in percent, a mean over the kinds; None before any.
        tokens_per_second: of the last step.
        seconds_left: of the whole run, or None where unknown.
    """

    stage: str
    tokens: int
    total: int
    bits: float | None
    change: float | None
    tokens_per_second: float | None
    seconds_left: float | None


Watch = Callable[[Report], None]


def make_optimiser(network: nn.Module, learning_rate: float) -> torch.optim.AdamW:
    """Return AdamW without weight decay (Loshchilov and Hutter, 2019): adapters start at nothing and stay small."""
    return torch.optim.AdamW(network.parameters(), lr=learning_rate, betas=_BETAS, weight_decay=0.0)


class Trainer:
    """One run in one process."""

    def __init__(
        self,
        network: Network,
        optimiser: torch.optim.Optimizer,
        stream: SequenceStream,
        measured: Mapping[str, Sequence[Batch]],
        schedule: Schedule,
        state: RunState,
        folder: Path,
        *,
        start: Adapter | None,
        evaluation_steps: int,
        checkpoint_seconds: float,
        watch: Watch,
        stopping: Callable[[], bool],
    ) -> None:
        """Take over what a run consists of.

        Args:
            network: on its device, with the parameters of `state`.
            optimiser: of its parameters, with the moments of `state`.
            stream: where `state` says.
            measured: what each kind is measured with.
            schedule: the plan.
            state: where the run is; changed as it goes on.
            folder: for checkpoints and metrics.
            start: the adapter that a new run starts from, after the model without it was measured.
            evaluation_steps: steps between two evaluations.
            checkpoint_seconds: between two checkpoints.
            watch: told how far the run is.
            stopping: whether somebody wants the run to end.
        """
        self._network, self._optimiser = network, optimiser
        self._stream, self._measured = stream, measured
        self._schedule, self.state, self._start = schedule, state, start
        self._folder, self._metrics = folder, MetricsFile(folder / "metrics.jsonl")
        self._evaluation_steps, self._checkpoint_seconds = evaluation_steps, checkpoint_seconds
        self._watch, self._stopping = watch, stopping
        self._device = next(network.parameters()).device
        self._began, self._first_step, self._spent = time.monotonic(), state.step, state.seconds
        self._bits: float | None = None
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
                    if self._start is not None and self.state.step == 0:
                        self._network.take_factors(self._start)
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
        rounding, rate = schedule.rounding(state.step), schedule.rate(state.step)
        began = time.monotonic()
        tokens = sum(len(batch.targets) for batch in batches)
        bits = torch.zeros((), device=self._device)
        for batch in batches:
            self._pause("training")
            with torch.autocast(self._device.type, torch.bfloat16):
                loss = self._network.bits(batch.to(self._device), rounding) / tokens
            loss.backward()  # type: ignore[no-untyped-call]
            bits += loss.detach()
        gradient = float(nn.utils.clip_grad_norm_(self._network.parameters(), _CLIP))
        self._bits = float(bits)
        if not (math.isfinite(self._bits) and math.isfinite(gradient)):
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
                "bits": self._bits,
                "learning_rate": rate,
                "gradient": gradient,
                "rounding": rounding,
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
        result = evaluate(self._network, self._measured, self._device, lambda: self._pause("evaluating"))
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
        self._watch(Report(stage, step * batch, steps * batch, self._bits, change, self._rate, left))

    def _save(self, name: str) -> None:
        self.state.seconds = round(self._spent + time.monotonic() - self._began, 1)
        save_state(self._folder / name, self.state, self._network, self._optimiser)
