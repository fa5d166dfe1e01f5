"""``speccompact train average``: one adapter of several."""

import json
from pathlib import Path

import click

from speccompact.modelstore.registry import DEFAULT_MODEL
from speccompact_cli.exit_codes import SUCCESS
from speccompact_cli.naming import shown
from speccompact_cli.progress import Activity, StageProgress
from speccompact_cli.reports import held_out_lines
from speccompact_cli.shared_options import make_console, make_options, running_options, verbosity_options


class MeasuringProgress(Activity):
    """The line of a measurement."""

    def __call__(self, done: int, total: int) -> None:
        """Show how far it is."""
        self.show(f"measuring  {done / max(total, 1):4.0%}", f"{done}/{total} tokens")


@click.command("average", short_help="Average adapters, and measure the mean.")
@click.argument("adapters", metavar="ADAPTER...", nargs=-1, required=True)
@click.option("-o", "--output", required=True, metavar="DIR", help="Folder of the results.")
@click.option("--model", default=DEFAULT_MODEL, show_default=True, metavar="NAME|PATH", help="Model they are for.")
@click.option("--held-out", required=True, metavar="DIR", help="Text to measure with; its folders are kinds of text.")
@click.option("--evaluate-tokens", default=8192, show_default=True, metavar="N", help="Held-out tokens of each kind.")
@click.option("--evaluate-length", default=1024, show_default=True, metavar="N", help="Tokens of a held-out sequence.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON; its keys are a stable contract.")
@running_options
@verbosity_options
def average_command(
    adapters: tuple[str, ...],
    output: str,
    model: str,
    held_out: str,
    evaluate_tokens: int,
    evaluate_length: int,
    as_json: bool,
    threads: int,
    device: str,
    quiet: bool,
    verbose: bool,
) -> int:
    """Average adapters of runs that started from one another, and measure the mean.

    The mean is often better than each of them: it has less of what the last steps of a run happened to see.
    """
    from speccompact.training.averaging import average, check_first  # loads torch: only when it runs
    from speccompact.training.trainoptions import TrainOptions
    from speccompact.training.tuning import load_base

    make_options(threads, device)
    options = TrainOptions(
        evaluate_tokens=evaluate_tokens,
        evaluate_length=evaluate_length,
        micro_batch=max(4096, evaluate_length),
        batch=max(4096, evaluate_length),
        threads=threads,
        device=device,
    )
    console = make_console(quiet, verbose)
    files = [Path(each) for each in adapters]
    check_first(files, Path(output), Path(held_out), options)
    fetching = StageProgress(console, shown(model))
    try:
        base, name = load_base(model, fetching)
    finally:
        fetching.close()
    with MeasuringProgress(console) as progress:
        done = average(files, Path(output), base, name, Path(held_out), options, progress, console.note)
    result = done.to_json()
    click.echo(json.dumps(result, indent=2) if as_json else "\n".join(held_out_lines(result)))
    console.note(f"next: speccompact models convert {shown(model)} --adapter {shown(done.adapter)} --name NAME")
    return SUCCESS
