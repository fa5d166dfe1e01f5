"""``speccompact train labels``: what a model expects at every token of a text, for drafters that learn from that."""

import signal
from pathlib import Path

import click

from speccompact.modelstore.registry import DEFAULT_MODEL
from speccompact_cli.exit_codes import SUCCESS, Stopped
from speccompact_cli.naming import shown
from speccompact_cli.progress import StageProgress
from speccompact_cli.shared_options import make_console, make_options, running_options, verbosity_options
from speccompact_cli.train_common import StopRequest, TrainProgress, parse_mix


@click.command("labels", short_help="Keep what a model expects of a text.")
@click.option("--corpus", required=True, metavar="DIR", help="Text to label; its folders are kinds of text.")
@click.option("-o", "--output", required=True, metavar="FILE", help="File of the labels.")
@click.option("--model", default=DEFAULT_MODEL, show_default=True, metavar="NAME|PATH", help="Model that is asked.")
@click.option("--tokens", default=1_000_000, show_default=True, metavar="N", help="Tokens to label.")
@click.option("--top", default=64, show_default=True, metavar="N", help="Likeliest tokens that are kept.")
@click.option("--mix", multiple=True, metavar="KIND=WEIGHT", help="Weight of a kind (all defaults add up to 1).")
@click.option("--length", default=1024, show_default=True, metavar="N", help="Tokens of a sequence, at most.")
@click.option("--short-share", default=0.2, show_default=True, metavar="X", help="Share of text in shorter ones.")
@click.option("--batch", default=4096, show_default=True, metavar="N", help="Tokens that are drawn at once.")
@click.option("--seed", default=0, show_default=True, metavar="N", help="Of everything random.")
@running_options
@verbosity_options
def labels_command(
    corpus: str,
    output: str,
    model: str,
    tokens: int,
    top: int,
    mix: tuple[str, ...],
    length: int,
    short_share: float,
    batch: int,
    seed: int,
    threads: int,
    device: str,
    quiet: bool,
    verbose: bool,
) -> int:
    """Keep what a model expects at every token of some text, for `train drafter --labels`."""
    from speccompact.training.labelling import check_first, make_labels  # loads torch: only when it runs
    from speccompact.training.trainer import Interrupted
    from speccompact.training.trainoptions import TrainOptions
    from speccompact.training.tuning import load_base

    make_options(threads, device)
    options = TrainOptions(
        tokens=tokens,
        rank=None,
        length=length,
        short_share=short_share,
        batch=batch,
        mix=parse_mix(mix),
        seed=seed,
        threads=threads,
        device=device,
    )
    console, stop = make_console(quiet, verbose), StopRequest()
    check_first(Path(corpus), Path(output), options, top)
    fetching = StageProgress(console, shown(model))
    try:
        base, _ = load_base(model, fetching)
    finally:
        fetching.close()
    with stop.listening(), TrainProgress(console) as progress:
        try:
            count = make_labels(Path(corpus), Path(output), base, options, top, watch=progress, stopping=stop)
        except Interrupted:
            console.note("stopped: no labels were kept, for they are written when all are there")
            raise Stopped(stop.signum or signal.SIGTERM) from None
    console.note(f"{shown(output)}: {count} tokens; next: speccompact train drafter --labels {shown(output)}")
    return SUCCESS
