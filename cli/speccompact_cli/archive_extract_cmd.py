"""``speccompact archive extract`` and ``cat``."""

import os
import time

import click

from speccompact_cli.archive_common import (
    archive_argument,
    entries_option,
    event_option,
    make_archive_limits,
    report_job,
    selection_options,
    watching,
)
from speccompact_cli.console import standard_output
from speccompact_cli.exit_codes import SUCCESS
from speccompact_cli.naming import shown
from speccompact_cli.shared_options import (
    limit_options,
    make_console,
    make_options,
    running_options,
    verbosity_options,
)


@click.command("extract")
@archive_argument
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option("-C", "--directory", default=os.curdir, metavar="TARGET", help="Folder or URL to write below.")
@click.option("-f", "--force", is_flag=True, help="Replace files that are there.")
@click.option("--resume", is_flag=True, help="Pass over files that are there with right size, time and digest.")
@click.option("--owner", is_flag=True, help="Restore owners and groups, by name where known.")
@click.option("--numeric-owner", is_flag=True, help="Restore owners and groups, by number.")
@click.option("--xattrs", is_flag=True, help="Restore extended attributes of users.")
@click.option("--special", is_flag=True, help="Restore set-uid bits, devices and all attributes: only if you trust it.")
@selection_options
@limit_options
@entries_option
@event_option
@running_options
@verbosity_options
def extract_command(
    archive: str,
    paths: tuple[str, ...],
    directory: str,
    force: bool,
    resume: bool,
    owner: bool,
    numeric_owner: bool,
    xattrs: bool,
    special: bool,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    max_output: int | None,
    max_entries: int | None,
    events: str | None,
    threads: int,
    device: str,
    quiet: bool,
    verbose: bool,
) -> int:
    """Write what is in ARCHIVE to the current folder or TARGET.

    With PATHs, those alone and all below them. Nothing is written outside of it, whatever the archive says.
    """
    from speccompact.archive.archivefile import ArchiveFile  # loads NumPy: only when it runs
    from speccompact.archive.extracting import extract
    from speccompact.archive.readoptions import RestoreOptions
    from speccompact.archive.selection import Selection

    limits = make_archive_limits(max_entries, max_output)
    restore = RestoreOptions(force, owner or numeric_owner, special, xattrs, numeric_owner)
    console = make_console(quiet, verbose)
    began = time.monotonic()
    with (
        ArchiveFile(archive, limits=limits, options=make_options(threads, device)) as file,
        watching(console, shown(archive), events) as listener,
    ):
        summary = extract(
            file,
            directory,
            [os.fsencode(path) for path in paths],
            selection=Selection(include, exclude),
            restore=restore,
            resume=resume,
            limits=limits,
            listener=listener,
        )
    return report_job(console, archive, "gave", summary, time.monotonic() - began)


@click.command("cat")
@archive_argument
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@entries_option
@running_options
@verbosity_options
def cat_command(
    archive: str,
    paths: tuple[str, ...],
    max_entries: int | None,
    threads: int,
    device: str,
    quiet: bool,
    verbose: bool,
) -> int:
    """Write each file PATH of ARCHIVE to standard output.

    With -v it also says what had to be decoded for it.
    """
    from speccompact.archive.archivefile import ArchiveFile  # loads NumPy: only when it runs
    from speccompact.archive.pathreading import read_file

    console, target = make_console(quiet, verbose, to_stdout=True), standard_output()
    limits, options = make_archive_limits(max_entries), make_options(threads, device)
    with ArchiveFile(archive, limits=limits, options=options) as file:
        for path in paths:
            groups: list[int] = []
            for chunk in read_file(file, os.fsencode(path), groups.append):
                target.write(chunk)
            numbers = ", ".join(map(str, groups)) or "none"
            console.detail(f"{shown(path)}: {len(groups)} of {len(file.catalogue.groups)} groups decoded ({numbers})")
    target.flush()
    return SUCCESS
