"""``speccompact archive report``."""

import os

import click

from speccompact_cli.archive_common import archive_argument, entries_option, make_archive_limits, parse_size, watching
from speccompact_cli.exit_codes import SUCCESS
from speccompact_cli.files import AtomicFile
from speccompact_cli.naming import shown
from speccompact_cli.shared_options import make_console, make_options, running_options, verbosity_options


@click.command("report")
@archive_argument
@click.argument("output", metavar="OUT.html")
@click.option("-f", "--force", is_flag=True, help="Replace OUT.html.")
@click.option("--log", "log_file", metavar="FILE", help="What --events of the job has written, to show how it went.")
@click.option(
    "--sample",
    metavar="SIZE",
    default="2m",
    show_default=True,
    callback=parse_size,
    help="Content to decode and pack with xz and zstd (700k, 2m).",
)
@click.option("--no-sample", is_flag=True, help="Compare with nothing, and decode nothing.")
@entries_option
@running_options
@verbosity_options
def report_command(
    archive: str,
    output: str,
    force: bool,
    log_file: str | None,
    sample: int,
    no_sample: bool,
    max_entries: int | None,
    threads: int,
    device: str,
    quiet: bool,
    verbose: bool,
) -> int:
    """Write a page of pictures about ARCHIVE.

    It shows what ARCHIVE holds, how well that is compressed and how the job went: one file for any browser, which loads
    nothing and runs nothing.
    """
    from speccompact.archive.archivefile import ArchiveFile  # loads NumPy: only when it runs
    from speccompact.archive.comparing import compare
    from speccompact.archive.joblog import read_log
    from speccompact.archive.reporting import report

    console = make_console(quiet, verbose)
    log = None if log_file is None else read_log(log_file)
    with (
        AtomicFile(output, overwrite=force, like=None) as target,
        ArchiveFile(archive, limits=make_archive_limits(max_entries), options=make_options(threads, device)) as file,
    ):
        with watching(console, shown(archive), None) as listener:
            comparison = None if no_sample else compare(file, sample, listener)
        name = os.path.basename(archive.rstrip("/"))
        target.stream.write(report(file, name, comparison=comparison, log=log).encode())
        target.commit()
    console.note(f"{shown(archive)}: described in {shown(output)}")
    return SUCCESS
