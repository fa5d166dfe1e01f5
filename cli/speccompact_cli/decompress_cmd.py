"""``speccompact decompress``: whole files, byte ranges, and what is left of damaged ones."""

import time

import click

import speccompact
from speccompact.errors import ArgumentError, DamagedError
from speccompact.options import DrafterName
from speccompact.quantities import amount, duration
from speccompact_cli.exit_codes import FORMAT, SUCCESS
from speccompact_cli.file_jobs import content_size, for_each, inputs
from speccompact_cli.files import open_source, open_target, remove_source
from speccompact_cli.naming import STANDARD, restored_name, shown
from speccompact_cli.progress import Progress
from speccompact_cli.remote import Remote, open_client, remote_options
from speccompact_cli.reports import (
    describe_drafts,
    describe_loss,
    describe_salvage,
    describe_work,
    naming_the_need,
)
from speccompact_cli.shared_options import (
    drafter_options,
    files_argument,
    limit_options,
    make_console,
    make_limits,
    make_options,
    output_options,
    parallel_option,
    require_single_output,
    running_options,
    verbosity_options,
)

_MOST_DIGITS = 18
"""Of a byte position: more than any file system holds, and less than what Python refuses to read."""


def parse_range(_context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, int] | None:
    """Return (start, length) of START:LEN, both in content bytes.

    Raises:
        BadParameter: it is something else.
    """
    if value is None:
        return None
    start, colon, length = value.partition(":")
    if not (colon and all(part.isascii() and part.isdecimal() for part in (start, length))):
        raise click.BadParameter(f"{value[:40]!r} is not START:LEN, two whole numbers of bytes", param=parameter)
    if max(len(start), len(length)) > _MOST_DIGITS:
        raise click.BadParameter(f"START and LEN have at most {_MOST_DIGITS} digits", param=parameter)
    return int(start), int(length)


@click.command("decompress")
@files_argument(required=False)
@click.option(
    "--range",
    "byte_range",
    metavar="START:LEN",
    callback=parse_range,
    help="Only LEN bytes from START on, to standard output or -o.",
)
@click.option("--salvage", is_flag=True, help="Leave damaged frames out, write the rest, list what is lost.")
@click.option("--stats", is_flag=True, help="Say what drafts came to, on standard error.")
@limit_options
@output_options
@running_options
@parallel_option
@drafter_options
@remote_options
@verbosity_options
def decompress_command(
    files: tuple[str, ...],
    byte_range: tuple[int, int] | None,
    salvage: bool,
    stats: bool,
    max_output: int | None,
    output: str | None,
    to_stdout: bool,
    force: bool,
    remove: bool,
    keep: bool,
    threads: int,
    device: str,
    parallel: int,
    drafter: DrafterName,
    drafter_file: str,
    quiet: bool,
    verbose: bool,
    remote: Remote,
) -> int:
    """Decompress each FILE.spc to FILE; without FILE, or for -, standard input to standard output."""
    to_stdout = to_stdout or (byte_range is not None and output is None)
    require_single_output(files, output, to_stdout, remove, keep)
    if salvage and byte_range is not None:
        raise ArgumentError("--range and --salvage exclude each other; salvage the whole archive first")
    if parallel > 1 and (salvage or byte_range is not None):
        raise ArgumentError("--parallel is for whole archives; leave it out with --range or --salvage")
    if remove and (salvage or byte_range is not None):
        raise ArgumentError("--rm would lose what --salvage or --range leave out")
    options, limits = make_options(threads, device, parallel, drafter, drafter_file), make_limits(max_output)
    paths = inputs(files)
    console = make_console(quiet, verbose, to_stdout=to_stdout or output == STANDARD or STANDARD in paths)

    def decompress_one(path: str) -> int:
        name = STANDARD if to_stdout else output or (STANDARD if path == STANDARD else restored_name(path))
        began = time.monotonic()
        with naming_the_need(parallel), open_source(path) as source:
            with (
                open_target(name, overwrite=force, source=source, binary=False) as target,
                Progress(console, shown(path), source.size, content=content_size(console, source)) as progress,
            ):
                if client is not None:
                    summary = client.decompress_stream(
                        source.stream,
                        target,
                        max_output=max_output,
                        salvage=salvage,
                        byte_range=byte_range,
                        priority=remote.priority,
                        timeout=remote.timeout,
                        progress=progress.update,
                    )
                else:
                    summary = speccompact.decompress_stream(
                        source.stream,
                        target,
                        options=options,
                        limits=limits,
                        salvage=salvage,
                        byte_range=byte_range,
                        progress=progress.update,
                    )
                if summary.lost and not summary.content_bytes:  # before the output appears under its name
                    raise DamagedError(f"nothing could be saved; {summary.lost[0].reason}")
            if remove:
                remove_source(source)
        seconds = time.monotonic() - began
        done = describe_salvage(summary) if salvage else amount(summary.content_bytes)
        console.note(f"{shown(path)}: {done} in {duration(seconds)}: {shown(name)}")
        console.detail(describe_work(summary, seconds))
        if stats:
            console.report(describe_drafts(summary))
        for lost in summary.lost:
            console.error(f"{shown(path)}: {describe_loss(lost)}")
        return FORMAT if summary.lost else SUCCESS

    with open_client(remote, ("threads", "device", "parallel", "drafter", "drafter_file")) as client:
        return for_each(paths, console, decompress_one)
