"""``speccompact archive create`` and ``append``."""

import os
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from speccompact.archive.events import JobSummary
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

F = TypeVar("F", bound=Callable[..., Any])


def _job_options(function: F) -> F:
    """ARCHIVE, SOURCE… and all that says how groups are made; `_request` and `_run` take their values."""
    function = verbosity_options(parallel_making_option(running_options(event_option(function))))
    engine = click.option(
        "--engine", default="local", show_default=True, metavar="NAME", help="local, ray or ray://HOST:PORT."
    )
    return archive_argument(source_options(coding_options(engine(function))))


@click.command("create")
@click.option("--volume-size", metavar="SIZE", callback=parse_size, help="Split into ARCHIVE.001 … of SIZE (700m, 4g).")
@click.option("-f", "--force", is_flag=True, help="Replace ARCHIVE.")
@click.option("--work", default=os.curdir, metavar="FOLDER", help="Where the file grows before it goes to a URL.")
@_job_options
def create_command(
    archive: str, volume_size: int | None, force: bool, work: str, group: int | None, **values: Any
) -> int:
    """Pack each SOURCE, a folder, a file or a URL, into ARCHIVE.

    A job that was stopped goes on when the same command is given again.
    """
    from speccompact.archive.creating import create  # loads NumPy: only when it runs

    run = _take_running(values)
    request = make_request(values | {"group_frames": group, "volume_bytes": volume_size})
    return _run(archive, "holds", partial(create, archive, request, force=force, work=work), **run)


@click.command("append")
@click.option("--all", "unchanged", is_flag=True, help="Also what ARCHIVE has with the same size, time and mode.")
@_job_options
def append_command(archive: str, group: int | None, **values: Any) -> int:
    """Add what is new or has changed in each SOURCE.

    What ARCHIVE holds stays as it is.
    A job that was stopped goes on when the same command is given again.
    """
    from speccompact.archive.appending import append  # loads NumPy: only when it runs

    run = _take_running(values)
    return _run(archive, "got", partial(append, archive, make_request(values | {"group_frames": group})), **run)


def _take_running(values: dict[str, Any]) -> dict[str, Any]:
    """Take from the values of all options those of `_run`: they change nothing in the archive."""
    names = ("engine", "events", "threads", "device", "parallel", "quiet", "verbose")
    return {name: values.pop(name) for name in names}


def _run(
    archive: str,
    verb: str,
    job: Callable[..., JobSummary],
    *,
    engine: str,
    events: str | None,
    threads: int,
    device: str,
    parallel: int,
    quiet: bool,
    verbose: bool,
) -> int:
    """Run a job with the executor that was asked for, tell of it, and return its exit code."""
    options, console = make_options(threads, device, parallel), make_console(quiet, verbose)
    began = time.monotonic()
    with watching(console, shown(archive), events) as listener:
        summary = job(executor=_executor(engine, options), options=options, listener=listener)
    return report_job(console, archive, verb, summary, time.monotonic() - began)


def _executor(engine: str, options: Options) -> "Executor":
    from speccompact.archive.groupexecutors import make_executor  # loads NumPy: only when it runs

    if options.groups > 1 and engine != "local":
        raise ArgumentError(f"--parallel is for the local engine; {engine} uses all of its workers")
    return make_executor(engine, options)
