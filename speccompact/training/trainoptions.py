"""What a user decides about a run, checked, and what of it must not change while it goes on."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from speccompact.errors import ArgumentError
from speccompact.params import MIN_SLOT_TOKENS
from speccompact.training.sampling import SHORTEST, STREAM_VERSION, Sampling
from speccompact.training.schedule import Schedule

_WARM_UP_STEPS = 8
_EVALUATIONS = 20
_MOST = 10**15  # tokens; beyond it floats do not count any more
_SEEDS = 1 << 64


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """How to train.

    Attributes:
        tokens: of the whole run.
        rank: of the adapters; None trains every weight, as a study's upper bound.
        alpha: strength of the adapters, whose effect is multiplied by alpha / rank; None means the rank.
        learning_rate: its peak.
        warm_up: tokens until the peak; None means 8 steps.
        rounding_from: share of the run after which the integers of the exact target are simulated.
        length: tokens of a sequence, at most.
        short_share: share of the text that is cut into shorter sequences, since small files make short slots.
        batch: tokens of a step.
        micro_batch: tokens that pass the network at once; None means 4096, or the batch where that is smaller.
        mix: weights of kinds; see `corpus.mixture`.
        seed: of everything random.
        evaluate_every: tokens between two evaluations; None means a twentieth of the run.
        evaluate_tokens: tokens that a kind is measured with, at most.
        evaluate_length: tokens of a measured sequence, at most; None means those of a trained one.
        checkpoint_minutes: between two checkpoints.
        compile: fuse the network's loops first; needs a C++ compiler.
        threads: CPU threads; 0 leaves torch's own choice.
        device: "cpu", "cuda" or "cuda:N".
    """

    tokens: int = 4_000_000
    rank: int | None = 16
    alpha: float | None = None
    learning_rate: float = 1e-3
    warm_up: int | None = None
    rounding_from: float = 0.8
    length: int = 1024
    short_share: float = 0.2
    batch: int = 16384
    micro_batch: int | None = None
    mix: Mapping[str, float] = field(default_factory=dict)
    seed: int = 0
    evaluate_every: int | None = None
    evaluate_tokens: int = 8192
    evaluate_length: int | None = None
    checkpoint_minutes: float = 5.0
    compile: bool = False
    threads: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        for holds, complaint in self._rules():
            if not holds:
                raise ArgumentError(complaint)

    def _rules(self) -> Iterator[tuple[bool, str]]:
        """Yield what must hold, and what is said where it does not. A rule may rely on those before it."""
        yield self.tokens >= 1, f"tokens is {self.tokens}; choose 1 or more"
        yield self.tokens <= _MOST, f"tokens is {self.tokens}; no run can have so many"
        yield self.rank is None or 1 <= self.rank <= _MOST, f"rank is {self.rank}; choose 1 or more"
        yield self.rank is not None or self.alpha is None, "alpha is for adapters; leave it out or train one"
        yield 0 < self.strength < math.inf, f"alpha is {self.alpha}; choose more than 0"
        yield 0 < self.learning_rate < math.inf, f"learning_rate is {self.learning_rate}; choose more than 0"
        yield self.warm_up is None or self.warm_up >= 0, f"warm_up is {self.warm_up}; choose 0 or more"
        yield 0 <= self.rounding_from <= 1, f"rounding_from is {self.rounding_from}; choose 0 to 1"
        yield self.length >= MIN_SLOT_TOKENS, f"length is {self.length}; choose {MIN_SLOT_TOKENS} or more"
        yield 0 <= self.short_share <= 1, f"short_share is {self.short_share}; choose 0 to 1"
        name, held = ("batch", self.batch) if self.micro_batch is None else ("micro_batch", self.micro_batch)
        yield held >= self.length, f"{name} is {held}; it must hold a sequence of {self.length} tokens"
        micro = self.passed_at_once
        yield self.batch >= micro, f"batch is {self.batch}; choose {micro}, which pass the network at once, or more"
        yield self.batch <= _MOST, f"batch is {self.batch}; no step can have so many tokens"
        measured = self.measured_length
        choice = f"choose {MIN_SLOT_TOKENS} to {micro}, which pass the network at once"
        yield MIN_SLOT_TOKENS <= measured <= micro, f"evaluate_length is {measured}; {choice}"
        yield self.batch % micro == 0, f"batch is {self.batch}; choose a multiple of {micro}"
        yield 0 <= self.seed < _SEEDS, f"seed is {self.seed}; choose 0 to 2**64 - 1"
        yield self.evaluate_every is None or self.evaluate_every >= 1, "evaluate_every must be 1 or more"
        yield self.evaluate_tokens >= SHORTEST, f"evaluate_tokens must be {SHORTEST} or more"
        yield self.checkpoint_minutes >= 0, "checkpoint_minutes must be 0 or more"

    @property
    def strength(self) -> float:
        """Alpha, or what stands for it."""
        return self.alpha if self.alpha is not None else float(self.rank or 1)

    @property
    def passed_at_once(self) -> int:
        """Tokens that pass the network at once."""
        return self.micro_batch if self.micro_batch is not None else min(4096, self.batch)

    @property
    def measured_length(self) -> int:
        """Tokens of a measured sequence, at most."""
        return self.length if self.evaluate_length is None else self.evaluate_length

    @property
    def evaluation_steps(self) -> int:
        """Steps between two evaluations."""
        every = self.evaluate_every if self.evaluate_every is not None else self.tokens // _EVALUATIONS
        return max(1, every // self.batch)

    def sampling(self) -> Sampling:
        """Return what of the options the stream of batches needs."""
        return Sampling(self.length, self.short_share, self.batch, self.passed_at_once, self.seed)

    def schedule(self) -> Schedule:
        """Return the plan of the run."""
        warm_up = _WARM_UP_STEPS * self.batch if self.warm_up is None else self.warm_up
        return Schedule(self.tokens, self.batch, self.learning_rate, warm_up, self.rounding_from)

    def settings(self) -> dict[str, Any]:
        """Return, as JSON, what has to stay the same for a run to go on."""
        return {
            "rank": self.rank,
            "alpha": self.strength,
            "learning_rate": self.learning_rate,
            "warm_up": self.schedule().warm_up,
            "rounding_from": self.rounding_from,
            "length": self.length,
            "short_share": self.short_share,
            "batch": self.batch,
            "micro_batch": self.passed_at_once,
            "mix": dict(self.mix),
            "seed": self.seed,
            "evaluate_tokens": self.evaluate_tokens,
            "evaluate_length": self.measured_length,
            "stream_version": STREAM_VERSION,
        }


def refuse_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to go on with a run under other settings.

    Raises:
        ArgumentError: naming the first setting that differs.
    """
    for name, value in now.items():
        if before.get(name) != value:
            if name == "stream_version":
                what = f"is {value} in this release, and the run began with {before.get(name)}"
            elif name in ("corpus", "held_out", "model", "start", "labels"):
                what = "has changed since the run began"
            else:
                what = f"is {value}, but the run began with {before.get(name)}"
            raise ArgumentError(f"{name} {what}; start anew in another folder, or go on with what it was")
