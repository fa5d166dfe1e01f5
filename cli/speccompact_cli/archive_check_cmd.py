"""``speccompact archive verify`` and ``repair``."""

import errno
import time

import click

from speccompact.quantities import amount, duration
from speccompact_cli.archive_common import (
    archive_argument,
    entries_option,
    event_option,
    make_archive_limits,
    parse_size,
    report_job,
    watching,
)
from speccompact_cli.exit_codes import FORMAT, SUCCESS
from speccompact_cli.naming import shown
from speccompact_cli.shared_options import make_console, make_options, running_options, verbosity_options


@click.command("verify")
@archive_argument
@click.option("--quick", is_flag=True, help="Compare the checks of what is stored, without decoding it.")
@entries_option
@event_option
@running_options
@verbosity_options
def verify_command(
    archive: str,
    quick: bool,
    max_entries: int | None,
    events: str | None,
    threads: int,
    device: str,
    quiet: bool,
    verbose: bool,
) -> int:
    """Check everything in ARCHIVE, writing nothing."""
    from speccompact.archive.archivefile import ArchiveFile  # loads NumPy: only when it runs
    from speccompact.archive.checking import verify

    console = make_console(quiet, verbose)
    began = time.monotonic()
    with (
        ArchiveFile(archive, limits=make_archive_limits(max_entries), options=make_options(threads, device)) as file,
        watching(console, shown(archive), events) as listener,
    ):
        summary = verify(file, decode=not quick, listener=listener)
    for path, reason in summary.left_out:
        console.error(f"{shown(archive)}: {shown(path)}: {reason}")
    if summary.left_out:
        return FORMAT
    seconds = duration(time.monotonic() - began)
    console.note(f"{shown(archive)}: sound, {summary.entries} entries, {amount(summary.content_bytes)} in {seconds}")
    if file.file_bytes > summary.archive_bytes:
        console.note(
            f"{shown(archive)}: an append that did not end follows; it is ignored, and the next one goes over it"
        )
    return SUCCESS


@click.command("repair")
@archive_argument
@click.argument("output", metavar="OUTPUT")
@click.option("--volume-size", metavar="SIZE", callback=parse_size, help="Split into OUTPUT.001 … of SIZE (700m, 4g).")
@click.option("-f", "--force", is_flag=True, help="Replace OUTPUT.")
@entries_option
@event_option
@verbosity_options
def repair_command(
    archive: str,
    output: str,
    volume_size: int | None,
    force: bool,
    max_entries: int | None,
    events: str | None,
    quiet: bool,
    verbose: bool,
) -> int:
    """Write what is left of a damaged ARCHIVE to OUTPUT. Nothing is decoded, and ARCHIVE stays as it is."""
    from speccompact.archive.outputs import exists  # loads NumPy: only when it runs
    from speccompact.archive.repairing import repair

    if exists(output) and not force:
        raise FileExistsError(errno.EEXIST, "already exists; -f overwrites it", output)
    console = make_console(quiet, verbose)
    began = time.monotonic()
    with watching(console, shown(archive), events) as listener:
        limits = make_archive_limits(max_entries)
        summary = repair(archive, output, volume_bytes=volume_size, limits=limits, listener=listener)
    for path, reason in summary.left_out:
        console.error(f"{shown(path)}: {reason}")
    return report_job(console, output, "holds", summary, time.monotonic() - began)
