"""``speccompact train model``: a small model, to be a target or to draft for one."""

import json
import signal
from pathlib import Path
from typing import Any

import click

from speccompact_cli.exit_codes import SUCCESS, Stopped
from speccompact_cli.naming import shown
from speccompact_cli.progress import StageProgress
from speccompact_cli.shared_options import make_console, make_options, running_options, verbosity_options
from speccompact_cli.train_common import StopRequest, TrainProgress, corpus_options, parse_mix


@click.command("model", short_help="Train a small model on the text in a folder.")
@corpus_options(tokens=2_000_000, learning_rate=1e-3, batch=4096)
@click.option("--layers", default="", metavar="LIST", help="Layers to begin with, such as 0-3,8 [default: all].")
@click.option("--new", default="", metavar="LAYERS,HIDDEN,HEADS,FFN", help="Begin with random numbers instead.")
@click.option("--labels", metavar="FILE", help="Soft labels by `train labels`, in place of the text of the corpus.")
@click.option("--text", is_flag=True, help="Of the labels take the text alone, to compare with them.")
@click.option("--loss", default="cross-entropy", show_default=True, metavar="NAME", help="What is trained for.")
@click.option("--listed", default=0, show_default=True, metavar="N", help="First tokens to learn to tell; 0: all.")
@running_options
@verbosity_options
def model_command(
    corpus: str,
    output: str,
    model: str,
    held_out: str | None,
    labels: str | None,
    resume: bool,
    mix: tuple[str, ...],
    as_json: bool,
    threads: int,
    device: str,
    quiet: bool,
    verbose: bool,
    **settings: Any,
) -> int:
    """Train every weight of a small model on the text in a folder, with the tokenizer of a model.

    Ctrl-C or SIGTERM writes a checkpoint first; `--resume` goes on as if nothing had happened.
    """
    from speccompact.training.modeltraining import ModelOptions, check_first, train_model
    from speccompact.training.trainer import Interrupted  # loads torch: only when it runs
    from speccompact.training.trainoptions import TrainOptions
    from speccompact.training.tuning import load_base

    make_options(threads, device)
    own = {name: settings.pop(name) for name in list(settings) if name in ModelOptions.__slots__}
    run = TrainOptions(rank=None, rounding_from=1.0, mix=parse_mix(mix), threads=threads, device=device, **settings)
    options = ModelOptions(run, **own)
    console, stop = make_console(quiet, verbose), StopRequest()
    held = Path(held_out) if held_out is not None else None
    learned_from = Path(labels) if labels is not None else None
    check_first(Path(corpus), Path(output), options, held_out=held, labels=learned_from, resume=resume)
    fetching = StageProgress(console, shown(model))
    try:
        base, name = load_base(model, fetching)
    finally:
        fetching.close()
    with stop.listening(), TrainProgress(console) as progress:
        try:
            made = train_model(
                Path(corpus),
                Path(output),
                base,
                name,
                options,
                held_out=held,
                labels=learned_from,
                resume=resume,
                watch=progress,
                stopping=stop,
                remark=console.note,
            )
        except Interrupted:
            console.note(f"{shown(output)}: checkpoint written; go on with --resume")
            raise Stopped(stop.signum or signal.SIGTERM) from None
    result = made.to_json()
    click.echo(json.dumps(result, indent=2) if as_json else "\n".join(result_lines(result)))
    console.note(f"next: speccompact models convert {shown(str(made.model))} --name NAME")
    return SUCCESS


def result_lines(result: dict[str, Any]) -> list[str]:
    """Return the table of a finished run."""
    lines = [f"{'kind':<28} {'bpb':>8} {'tokens/pass':>11}"]
    for kind, row in result["held_out"].items():
        lines.append(f"{shown(kind):<28} {row['bpb']:>8.4f} {row['tokens_per_pass']:>11.3f}")
    lines.append(f"{'mean':<28} {result['mean_bpb']:>8.4f} {result['mean_tokens_per_pass']:>11.3f}")
    return lines
