"""``speccompact verify``."""

import time

import click

import speccompact
from speccompact.options import DrafterName
from speccompact.quantities import amount, duration
from speccompact_cli.exit_codes import SUCCESS
from speccompact_cli.file_jobs import content_size, for_each, inputs
from speccompact_cli.files import open_source
from speccompact_cli.naming import shown
from speccompact_cli.progress import Progress
from speccompact_cli.reports import describe_work, naming_the_need
from speccompact_cli.shared_options import (
    drafter_options,
    files_argument,
    limit_options,
    make_console,
    make_limits,
    make_options,
    parallel_option,
    running_options,
    verbosity_options,
)


@click.command("verify")
@files_argument(required=False)
@limit_options
@running_options
@parallel_option
@drafter_options
@verbosity_options
def verify_command(
    files: tuple[str, ...],
    max_output: int | None,
    threads: int,
    device: str,
    parallel: int,
    drafter: DrafterName,
    drafter_file: str,
    quiet: bool,
    verbose: bool,
) -> int:
    """Decode each FILE and check everything in it, writing nothing."""
    options, limits = make_options(threads, device, parallel, drafter, drafter_file), make_limits(max_output)
    console = make_console(quiet, verbose)

    def verify_one(path: str) -> int:
        began = time.monotonic()
        with (
            naming_the_need(parallel),
            open_source(path) as source,
            Progress(console, shown(path), source.size, content=content_size(console, source)) as progress,
        ):
            summary = speccompact.verify_stream(source.stream, options=options, limits=limits, progress=progress.update)
        seconds = time.monotonic() - began
        console.note(f"{shown(path)}: sound, {amount(summary.content_bytes)} in {duration(seconds)}")
        console.detail(describe_work(summary, seconds))
        return SUCCESS

    return for_each(inputs(files), console, verify_one)
