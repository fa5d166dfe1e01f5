"""``speccompact compress``."""

import time

import click

import speccompact
from speccompact.modelstore.registry import DEFAULT_MODEL
from speccompact.params import DEFAULT_LEVEL
from speccompact.quantities import amount, duration
from speccompact_cli.exit_codes import SUCCESS
from speccompact_cli.file_jobs import for_each, inputs
from speccompact_cli.files import open_source, open_target, remove_source
from speccompact_cli.naming import STANDARD, compressed_name, shown
from speccompact_cli.progress import Progress
from speccompact_cli.remote import Remote, open_client, remote_options
from speccompact_cli.reports import describe_work
from speccompact_cli.shared_options import (
    coding_options,
    files_argument,
    make_console,
    make_options,
    output_options,
    require_single_output,
    running_options,
    verbosity_options,
)


@click.command("compress")
@files_argument(required=False)
@coding_options
@output_options
@running_options
@remote_options
@verbosity_options
def compress_command(
    files: tuple[str, ...],
    level: int | None,
    model: str | None,
    slot_tokens: int | None,
    group: int | None,
    output: str | None,
    to_stdout: bool,
    force: bool,
    remove: bool,
    keep: bool,
    threads: int,
    device: str,
    quiet: bool,
    verbose: bool,
    remote: Remote,
) -> int:
    """Compress each FILE to FILE.spc; without FILE, or for -, standard input to standard output."""
    require_single_output(files, output, to_stdout, remove, keep)
    options = make_options(threads, device)
    paths = inputs(files)
    console = make_console(quiet, verbose, to_stdout=to_stdout or output == STANDARD or STANDARD in paths)

    def compress_one(path: str) -> int:
        name = STANDARD if to_stdout else output or (STANDARD if path == STANDARD else compressed_name(path))
        began = time.monotonic()
        with open_source(path) as source:
            with (
                open_target(name, overwrite=force, source=source, binary=True) as target,
                Progress(console, shown(path), source.size) as progress,
            ):
                if client is not None:
                    summary = client.compress_stream(
                        source.stream,
                        target,
                        level=DEFAULT_LEVEL if level is None else level,
                        model=model or "",
                        slot_tokens=slot_tokens,
                        group_frames=group,
                        priority=remote.priority,
                        timeout=remote.timeout,
                        progress=progress.update,
                    )
                else:
                    summary = speccompact.compress_stream(
                        source.stream,
                        target,
                        level=DEFAULT_LEVEL if level is None else level,
                        model=model or DEFAULT_MODEL,
                        slot_tokens=slot_tokens,
                        group_frames=group,
                        options=options,
                        progress=progress.update,
                    )
            if remove:
                remove_source(source)
        seconds = time.monotonic() - began
        console.note(
            f"{shown(path)}: {amount(summary.content_bytes)} → {amount(summary.compressed_bytes)}"
            f" ({summary.bpb:.3f} bpb) in {duration(seconds)}: {shown(name)}"
        )
        console.detail(describe_work(summary, seconds))
        return SUCCESS

    with open_client(remote, ("threads", "device")) as client:
        return for_each(paths, console, compress_one)
