"""What all commands of ``speccompact train`` share: options, progress, and signals that ask for a checkpoint."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

import click

from speccompact.errors import ArgumentError
from speccompact.modelstore.registry import DEFAULT_MODEL
from speccompact.quantities import duration
from speccompact_cli.progress import Activity

if TYPE_CHECKING:
    from speccompact.training.trainer import Report

_F = TypeVar("_F", bound=Callable[..., Any])

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def corpus_options(tokens: int, learning_rate: float, batch: int) -> Callable[[_F], _F]:
    """Give a command what every run of training takes.

    Args:
        tokens, learning_rate, batch: defaults.
    """
    options = (
        click.option("--corpus", required=True, metavar="DIR", help="Text to train on; its folders are kinds of text."),
        click.option("-o", "--output", required=True, metavar="DIR", help="Folder of the results and checkpoints."),
        click.option(
            "--model", default=DEFAULT_MODEL, show_default=True, metavar="NAME|PATH", help="Model to start from."
        ),
        click.option("--held-out", metavar="DIR", help="Text to measure with [default: the end of each file]."),
        click.option("--resume", is_flag=True, help="Go on with the run in the output folder."),
        click.option("--tokens", default=tokens, show_default=True, metavar="N", help="Tokens of the whole run."),
        click.option("--learning-rate", default=learning_rate, show_default=True, metavar="RATE", help="Its peak."),
        click.option("--warm-up", type=int, metavar="N", help="Tokens until the peak [default: 8 steps]."),
        click.option(
            "--mix", multiple=True, metavar="KIND=WEIGHT", help="Weight of a kind (all defaults add up to 1)."
        ),
        click.option("--length", default=1024, show_default=True, metavar="N", help="Tokens of a sequence, at most."),
        click.option(
            "--short-share", default=0.2, show_default=True, metavar="X", help="Share of text in shorter ones."
        ),
        click.option("--batch", default=batch, show_default=True, metavar="N", help="Tokens of a step."),
        click.option("--micro-batch", type=int, metavar="N", help="Tokens in memory at once [default: 4096]."),
        click.option(
            "--evaluate-every", type=int, metavar="N", help="Tokens between evaluations [default: a twentieth]."
        ),
        click.option(
            "--evaluate-tokens", default=8192, show_default=True, metavar="N", help="Held-out tokens of a kind."
        ),
        click.option(
            "--evaluate-length", type=int, metavar="N", help="Tokens of a held-out sequence [default: length]."
        ),
        click.option(
            "--checkpoint-minutes", default=5.0, show_default=True, metavar="M", help="Between two checkpoints."
        ),
        click.option("--seed", default=0, show_default=True, metavar="N", help="Of everything random."),
        click.option(
            "--json", "as_json", is_flag=True, help="Print the result as JSON; its keys are a stable contract."
        ),
    )

    def give(command: _F) -> _F:
        for option in reversed(options):
            command = option(command)
        return command

    return give


def parse_mix(values: tuple[str, ...]) -> dict[str, float]:
    """Return kind -> weight from texts of the form KIND=WEIGHT.

    Raises:
        ArgumentError: a text has another form.
    """
    mix: dict[str, float] = {}
    for value in values:
        kind, _, weight = value.rpartition("=")
        try:
            number = float(weight)
        except ValueError:
            kind = ""
        if not kind:
            raise ArgumentError(f'mix is "{value}"; write it as KIND=WEIGHT')
        if kind in mix:
            raise ArgumentError(f'mix gives "{kind}" two weights')
        mix[kind] = number
    return mix


class StopRequest:
    """Whether a signal asked the run to end, which then writes a checkpoint first. A second signal ends it at once."""

    def __init__(self) -> None:
        self.signum: int | None = None

    def __call__(self) -> bool:
        """Whether the run shall end."""
        return self.signum is not None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take signals until the block ends."""
        before = {number: signal.getsignal(number) for number in _SIGNALS}

        def restore() -> None:
            for number, handler in before.items():
                signal.signal(number, handler)

        def note(signum: int, _frame: FrameType | None) -> None:
            self.signum = signum
            restore()

        for number, handler in before.items():
            if handler is not signal.SIG_IGN:  # nohup and shells have their reasons
                signal.signal(number, note)
        try:
            yield
        finally:
            restore()


class TrainProgress(Activity):
    """The line of a run, and remarks that stay."""

    def __call__(self, report: "Report") -> None:
        """Show how far a run is; an evaluation is also said in a line of its own."""
        if report.stage == "evaluated" and report.tokens:
            figure = report.figure
            what, better = (figure.name, f"; {figure.better} is better") if figure is not None else ("text", "")
            self._console.note(
                f"{report.tokens} tokens: held-out {what} {report.change:+.2f} % (mean over the kinds{better})"
            )
        self.show(*progress_fields(report))


def progress_fields(report: "Report") -> list[str]:
    """Return the line that is redrawn while a run goes on, in the order of importance."""
    fields = [f"{report.stage}  {report.tokens / max(report.total, 1):4.0%}"]
    if report.seconds_left is not None:
        fields.append(f"{duration(report.seconds_left)} left")
    if report.change is not None:
        what = f" {report.figure.name}" if report.figure is not None else ""
        fields.append(f"held-out{what} {report.change:+.2f} %")
    if report.loss is not None:
        fields.append(f"loss {report.loss:.3f}")
    if report.tokens_per_second is not None:
        fields.append(f"{report.tokens_per_second:.0f} tokens/s")
    return [*fields, f"{report.tokens}/{report.total} tokens"]
