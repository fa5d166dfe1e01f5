"""``speccompact archive``: whole trees in one file."""

import click

from speccompact_cli.archive_check_cmd import repair_command, verify_command
from speccompact_cli.archive_create_cmd import append_command, create_command
from speccompact_cli.archive_extract_cmd import cat_command, extract_command
from speccompact_cli.archive_list_cmd import diff_command, list_command
from speccompact_cli.archive_report_cmd import report_command


@click.group("archive")
def archive_command() -> None:
    """Pack trees of files into one archive, and get back any of them without decoding the rest.

    ARCHIVE is a path, the first of several volumes, or a URL such as s3://bucket/key. Exit code 6 says that a file did
    not make it, or that a job is in the way of another.
    """


for command in (
    append_command,
    cat_command,
    create_command,
    diff_command,
    extract_command,
    list_command,
    repair_command,
    report_command,
    verify_command,
):
    archive_command.add_command(command)
