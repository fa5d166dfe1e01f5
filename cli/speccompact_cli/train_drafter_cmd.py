"""``speccompact train drafter``: a small network that drafts blocks of tokens, for faster decompression."""

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


@click.command("drafter", short_help="Train a network that drafts for a tokenizer.")
@corpus_options(tokens=40_000_000, learning_rate=2e-3, batch=4096)
@click.option("--labels", metavar="FILE", help="Soft labels by `train labels`, in place of the text of the corpus.")
@click.option("--text", is_flag=True, help="Of the labels take the text alone, to compare with them.")
@click.option("--loss", default="tvp", show_default=True, metavar="NAME", help="What is trained for.")
@click.option("--weights", default="d-pace", show_default=True, metavar="NAME", help="How positions of a block count.")
@click.option("--stride", default=4, show_default=True, metavar="N", help="Tokens from one block to the next.")
@click.option("--listed", default=8192, show_default=True, metavar="N", help="Tokens that can be drafted.")
@click.option("--counted", default=2_000_000, show_default=True, metavar="N", help="Tokens counted to find these.")
@click.option("--window", default=16, show_default=True, metavar="N", help="Tokens that are read.")
@click.option("--block", default=8, show_default=True, metavar="N", help="Tokens that are drafted at once.")
@click.option("--embed", default=128, show_default=True, metavar="N", help="Numbers that are read of each token.")
@click.option("--width", default=256, show_default=True, metavar="N", help="Width of the layers.")
@click.option("--inner", default=512, show_default=True, metavar="N", help="Width inside the layers.")
@click.option("--layers", default=2, show_default=True, metavar="N", help="Layers.")
@click.option("--rank", default=96, show_default=True, metavar="N", help="Rank of the output head.")
@click.option(
    "--markov", default=64, show_default=True, metavar="N", help="Rank of the correction by what stands before."
)
@click.option("--trust", default=32, show_default=True, metavar="N", help="Width of what judges drafts.")
@running_options
@verbosity_options
def drafter_command(
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
    """Train a drafter on the text in a folder, for the tokenizer of a model.

    Ctrl-C or SIGTERM writes a checkpoint first; `--resume` goes on as if nothing had happened.
    """
    from speccompact.training.draftoptions import DraftOptions
    from speccompact.training.drafttraining import check_first, train_drafter  # loads torch: only when it runs
    from speccompact.training.trainer import Interrupted
    from speccompact.training.trainoptions import TrainOptions
    from speccompact.training.tuning import load_base

    make_options(threads, device)
    own = {name: settings.pop(name) for name in list(settings) if name in DraftOptions.__slots__}
    run = TrainOptions(rank=None, rounding_from=1.0, mix=parse_mix(mix), threads=threads, device=device, **settings)
    options = DraftOptions(run, **own)
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
            drafted = train_drafter(
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
    result = drafted.to_json()
    click.echo(json.dumps(result, indent=2) if as_json else "\n".join(result_lines(result)))
    return SUCCESS


def result_lines(result: dict[str, Any]) -> list[str]:
    """Return the table of a finished run."""
    lines = [f"{'kind':<28} {'tokens/pass':>11}  right at position 1, 2, ..., %"]
    for kind, row in result["held_out"].items():
        rates = " ".join(f"{100 * rate:3.0f}" for rate in row["acceptance"])
        lines.append(f"{shown(kind):<28} {row['tokens_per_pass']:>11.3f}  {rates}")
    lines.append(f"{'mean':<28} {result['mean_tokens_per_pass']:>11.3f}")
    return lines
