"""``speccompact archive create`` and ``append``."""

import os
import time
from typing import TYPE_CHECKING, Any

import click

from speccompact.errors import ArgumentError
from speccompact.options import Options
from speccompact_cli.archive_common import (
    archive_argument,
    event_option,
    make_request,
    parse_size,
    report_job,
    source_options,
    watching,
)
from speccompact_cli.naming import shown
from speccompact_cli.shared_options import (
    coding_options,
    make_console,
    make_options,
    parallel_making_option,
    running_options,
    verbosity_options,
)

if TYPE_CHECKING:
    from speccompact.archive.groupexecutors import Executor

_ENGINE = click.option(
    "--engine", default="local", show_default=True, metavar="NAME", help="local, ray or ray://HOST:PORT."
)


def _executor(engine: str, options: Options) -> "Executor":
    from speccompact.archive.groupexecutors import make_executor  # loads NumPy: only when it runs

    if options.groups > 1 and engine != "local":
        raise ArgumentError(f"--parallel is for the local engine; {engine} uses all of its workers")
    return make_executor(engine, options)


@click.command("create")
@archive_argument
@source_options
@coding_options
@click.option("--volume-size", metavar="SIZE", callback=parse_size, help="Split into ARCHIVE.001 … of SIZE (700m, 4g).")
@click.option("-f", "--force", is_flag=True, help="Replace ARCHIVE.")
@click.option("--work", default=os.curdir, metavar="FOLDER", help="Where the file grows before it goes to a URL.")
@_ENGINE
@event_option
@running_options
@parallel_making_option
@verbosity_options
def create_command(
    archive: str,
    sources: tuple[str, ...],
    files_from: str | None,
    by_null: bool,
    volume_size: int | None,
    force: bool,
    work: str,
    engine: str,
    events: str | None,
    threads: int,
    device: str,
    parallel: int,
    quiet: bool,
    verbose: bool,
    group: int | None,
    **values: Any,
) -> int:
    """Pack each SOURCE, a folder, a file or a URL, into ARCHIVE.

    A job that was stopped goes on when the same command is given again.
    """
    from speccompact.archive.creating import create  # loads NumPy: only when it runs

    request = make_request(sources, files_from, by_null, values | {"group_frames": group, "volume_bytes": volume_size})
    options, console = make_options(threads, device, parallel), make_console(quiet, verbose)
    began = time.monotonic()
    with watching(console, shown(archive), events) as listener:
        summary = create(
            archive, request, force=force, work=work, executor=_executor(engine, options), listener=listener
        )
    return report_job(console, archive, "holds", summary, time.monotonic() - began)


@click.command("append")
@archive_argument
@source_options
@coding_options
@click.option("--all", "unchanged", is_flag=True, help="Also what ARCHIVE has with the same size, time and mode.")
@_ENGINE
@event_option
@running_options
@parallel_making_option
@verbosity_options
def append_command(
    archive: str,
    sources: tuple[str, ...],
    files_from: str | None,
    by_null: bool,
    engine: str,
    events: str | None,
    threads: int,
    device: str,
    parallel: int,
    quiet: bool,
    verbose: bool,
    group: int | None,
    **values: Any,
) -> int:
    """Add what is new or has changed in each SOURCE.

    What ARCHIVE holds stays as it is.
    A job that was stopped goes on when the same command is given again.
    """
    from speccompact.archive.appending import append  # loads NumPy: only when it runs

    request = make_request(sources, files_from, by_null, values | {"group_frames": group})
    options, console = make_options(threads, device, parallel), make_console(quiet, verbose)
    began = time.monotonic()
    with watching(console, shown(archive), events) as listener:
        summary = append(archive, request, executor=_executor(engine, options), listener=listener)
    return report_job(console, archive, "got", summary, time.monotonic() - began)
