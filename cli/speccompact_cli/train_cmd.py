"""``speccompact train``: tune a model on text of one's own."""

import json
import signal
from pathlib import Path
from typing import Any

import click

from speccompact.errors import ArgumentError
from speccompact_cli.exit_codes import SUCCESS, Stopped
from speccompact_cli.naming import shown
from speccompact_cli.progress import StageProgress
from speccompact_cli.reports import held_out_lines
from speccompact_cli.shared_options import make_console, make_options, running_options, verbosity_options
from speccompact_cli.train_average_cmd import average_command
from speccompact_cli.train_common import StopRequest, TrainProgress, corpus_options, parse_mix
from speccompact_cli.train_drafter_cmd import drafter_command
from speccompact_cli.train_labels_cmd import labels_command
from speccompact_cli.train_model_cmd import model_command


@click.group("train")
def train_command() -> None:
    """Tune models, and train drafters, on text of your own."""


train_command.add_command(average_command)
train_command.add_command(drafter_command)
train_command.add_command(labels_command)
train_command.add_command(model_command)


@train_command.command("adapter", short_help="Train an adapter on the text in a folder.")
@corpus_options(tokens=4_000_000, learning_rate=1e-3, batch=16384)
@click.option("--start", metavar="FILE", help="Adapter to start from, of the same rank and model.")
@click.option("--rank", type=int, metavar="N", help="Width of the adapters [default: 16].")
@click.option("--alpha", type=float, metavar="A", help="Adapters count A / rank times [default: rank].")
@click.option("--full", is_flag=True, help="Train every weight: for studies, there is no adapter then.")
@click.option("--rounding-from", default=0.8, show_default=True, metavar="X", help="Share of the run without rounding.")
@click.option("--compile", is_flag=True, help="Fuse loops first: faster after a minute, needs a C++ compiler.")
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
