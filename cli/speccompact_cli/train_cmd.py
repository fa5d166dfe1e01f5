"""``speccompact train``: tune a model on text of one's own."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from speccompact.errors import ArgumentError
from speccompact.modelstore.registry import DEFAULT_MODEL
from speccompact_cli.exit_codes import SUCCESS, Stopped
from speccompact_cli.naming import shown
from speccompact_cli.progress import Activity, StageProgress, duration
from speccompact_cli.reports import held_out_lines
from speccompact_cli.shared_options import make_console, make_options, running_options, verbosity_options
from speccompact_cli.train_average_cmd import average_command

if TYPE_CHECKING:
    from speccompact.training.trainer import Report

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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
            self._console.note(f"{report.tokens} tokens: held-out text {report.change:+.2f} % (mean over the kinds)")
        self.show(*progress_fields(report))


def progress_fields(report: "Report") -> list[str]:
    """Return the line that is redrawn while a run goes on, in the order of importance."""
    fields = [f"{report.stage}  {report.tokens / max(report.total, 1):4.0%}"]
    if report.seconds_left is not None:
        fields.append(f"{duration(report.seconds_left)} left")
    if report.change is not None:
        fields.append(f"held-out {report.change:+.2f} %")
    if report.bits is not None:
        fields.append(f"{report.bits:.3f} bits/token")
    if report.tokens_per_second is not None:
        fields.append(f"{report.tokens_per_second:.0f} tokens/s")
    return [*fields, f"{report.tokens}/{report.total} tokens"]


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


@click.group("train")
def train_command() -> None:
    """Tune models on text of your own."""


train_command.add_command(average_command)


@train_command.command("adapter", short_help="Train an adapter on the text in a folder.")
@click.option("--corpus", required=True, metavar="DIR", help="Text to train on; its folders are kinds of text.")
@click.option("-o", "--output", required=True, metavar="DIR", help="Folder of the results and checkpoints.")
@click.option("--model", default=DEFAULT_MODEL, show_default=True, metavar="NAME|PATH", help="Model to start from.")
@click.option("--held-out", metavar="DIR", help="Text to measure with [default: the end of each file].")
@click.option("--start", metavar="FILE", help="Adapter to start from, of the same rank and model.")
@click.option("--resume", is_flag=True, help="Go on with the run in the output folder.")
@click.option("--tokens", default=4_000_000, show_default=True, metavar="N", help="Tokens of the whole run.")
@click.option("--learning-rate", default=1e-3, show_default=True, metavar="RATE", help="Its peak.")
@click.option("--warm-up", type=int, metavar="N", help="Tokens until the peak [default: 8 steps].")
@click.option("--rank", type=int, metavar="N", help="Width of the adapters [default: 16].")
@click.option("--alpha", type=float, metavar="A", help="Adapters count A / rank times [default: rank].")
@click.option("--full", is_flag=True, help="Train every weight: for studies, there is no adapter then.")
@click.option("--mix", multiple=True, metavar="KIND=WEIGHT", help="Weight of a kind (all default ones add up to 1).")
@click.option("--length", default=1024, show_default=True, metavar="N", help="Tokens of a sequence, at most.")
@click.option("--short-share", default=0.2, show_default=True, metavar="X", help="Share of text in shorter sequences.")
@click.option("--batch", default=16384, show_default=True, metavar="N", help="Tokens of a step.")
@click.option("--micro-batch", type=int, metavar="N", help="Tokens in memory at once [default: 4096].")
@click.option("--rounding-from", default=0.8, show_default=True, metavar="X", help="Share of the run without rounding.")
@click.option("--evaluate-every", type=int, metavar="N", help="Tokens between evaluations [default: a twentieth].")
@click.option("--evaluate-tokens", default=8192, show_default=True, metavar="N", help="Held-out tokens of each kind.")
@click.option("--evaluate-length", type=int, metavar="N", help="Tokens of a held-out sequence [default: length].")
@click.option("--checkpoint-minutes", default=5.0, show_default=True, metavar="M", help="Between two checkpoints.")
@click.option("--compile", is_flag=True, help="Fuse loops first: faster after a minute, needs a C++ compiler.")
@click.option("--seed", default=0, show_default=True, metavar="N", help="Of everything random.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON; its keys are a stable contract.")
@running_options
@verbosity_options
def adapter_command(
    corpus: str,
    output: str,
    model: str,
    held_out: str | None,
    start: str | None,
    resume: bool,
    full: bool,
    rank: int | None,
    mix: tuple[str, ...],
    as_json: bool,
    threads: int,
    device: str,
    quiet: bool,
    verbose: bool,
    **settings: Any,
) -> int:
    """Train an adapter on the text in a folder, for `models convert --adapter`.

    Ctrl-C or SIGTERM writes a checkpoint first; `--resume` goes on as if nothing had happened.
    """
    from speccompact.training.trainer import Interrupted  # loads torch: only when it runs
    from speccompact.training.trainoptions import TrainOptions
    from speccompact.training.tuning import check_first, load_base, tune

    make_options(threads, device)
    if full and rank is not None:
        raise ArgumentError("rank is for adapters; leave it out or train one, without --full")
    if full or rank is not None:
        settings["rank"] = rank
    options = TrainOptions(mix=parse_mix(mix), threads=threads, device=device, **settings)
    console, stop = make_console(quiet, verbose), StopRequest()
    held = Path(held_out) if held_out is not None else None
    began_from = Path(start) if start is not None else None
    check_first(Path(corpus), Path(output), options, held_out=held, start=began_from, resume=resume)
    fetching = StageProgress(console, shown(model))
    try:
        base, name = load_base(model, fetching)
    finally:
        fetching.close()
    with stop.listening(), TrainProgress(console) as progress:
        try:
            tuned = tune(
                Path(corpus),
                Path(output),
                base,
                name,
                options,
                held_out=held,
                start=began_from,
                resume=resume,
                watch=progress,
                stopping=stop,
                remark=console.note,
            )
        except Interrupted:
            console.note(f"{shown(output)}: checkpoint written; go on with --resume")
            raise Stopped(stop.signum or signal.SIGTERM) from None
    result = tuned.to_json()
    click.echo(json.dumps(result, indent=2) if as_json else "\n".join(held_out_lines(result)))
    if tuned.adapter is not None:
        console.note(f"next: speccompact models convert {shown(model)} --adapter {shown(tuned.adapter)} --name NAME")
    return SUCCESS
