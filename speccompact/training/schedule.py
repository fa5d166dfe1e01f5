"""What a run does when: learning rate and rounding, by tokens seen.

Warm-up, constant, and a linear decay to nothing over the last part ("WSD"; Hu et al., 2024). Up to the decay nothing
depends on where a run ends, so a run can be made longer from a checkpoint that lies before.
"""

from dataclasses import dataclass

DECAY_SHARE = 0.3
"""Share of a run in which the learning rate falls."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The plan of a run.

    Attributes:
        tokens: of the whole run.
        batch: tokens of a step.
        learning_rate: its peak.
        warm_up: tokens until the peak.
        rounding_from: share of the run after which integers are simulated.
    """

    tokens: int
    batch: int
    learning_rate: float
    warm_up: int
    rounding_from: float

    @property
    def steps(self) -> int:
        """Steps of the run: the last one may go a little beyond its tokens."""
        return -(-self.tokens // self.batch)

    def rate(self, step: int) -> float:
        """Return the learning rate of a step (from 0)."""
        end = self.steps * self.batch
        seen = step * self.batch
        rise = (seen + self.batch) / self.warm_up if self.warm_up else 1.0
        fall = (end - seen) / (end * DECAY_SHARE)
        return self.learning_rate * min(1.0, rise, fall)

    def rounding(self, step: int) -> bool:
        """Whether a step (from 0) simulates the integers of the exact target."""
        return step >= self.rounding_from * self.steps

    def remarks(self) -> list[str]:
        """Return what a run of this plan will not come to, each with what to change; mostly it is too short."""
        said = []
        peak = max(0, -(-self.warm_up // self.batch) - 1)  # the first step that warm-up leaves at the full rate
        if peak >= self.steps or self.rate(peak) < self.learning_rate:
            said.append(
                f"the learning rate will not reach its peak: warm-up takes {peak + 1} steps, and the run has "
                f"{self.steps}, with a decay over the last {DECAY_SHARE:.0%}; choose more --tokens, or a smaller "
                "--warm-up or --batch"
            )
        if self.rounding_from < 1 and not self.rounding(self.steps - 1):
            said.append(
                f"the integers of the exact model will not be simulated: the run has only {self.steps} steps; choose "
                "more --tokens, or a smaller --batch or --rounding-from"
            )
        return said

    @property
    def branch(self) -> int:
        """The last number of steps after which a longer run would be the same so far."""
        step = min(self.steps, int(self.steps * (1 - DECAY_SHARE)))
        if self.rounding_from > 0:
            step = min(step, int(self.rounding_from * self.steps))
        return step
