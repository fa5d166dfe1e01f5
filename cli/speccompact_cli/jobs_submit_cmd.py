"""``speccompact jobs submit``: one command for each kind of job."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from speccompact import client as service
from speccompact_cli.archive_common import selection_options
from speccompact_cli.console import Console
from speccompact_cli.exit_codes import SUCCESS
from speccompact_cli.job_reports import follow, show
from speccompact_cli.remote import Remote, connect, remote_job_options
from speccompact_cli.shared_options import coding_options

F = TypeVar("F", bound=Callable[..., Any])
Work = tuple[str, dict[str, Any]]
"""A field of JobSpec, and the fields of its message."""

_FORCE = click.option("-f", "--force", is_flag=True, help="Replace what is there.")


@click.group("submit")
def submit_command() -> None:
    """Start a job on files of the server, and print its name and state.

    Paths are ROOT/relative/path, where ROOT is the name of a folder in the service's configuration.
    """


def _submitting(function: Callable[..., Work]) -> Callable[..., int]:
    """Make a command of a function that says what to do: it is submitted, and followed with --wait."""

    @functools.wraps(function)
    def command(remote: Remote, key: str, wait: bool, as_json: bool, **fields: Any) -> int:
        work, values = function(**fields)
        with connect(remote) as client:
            spec = service.job_spec(work, values)
            job = client.jobs.submit(spec, priority=remote.priority, idempotency_key=key, timeout=remote.timeout)
            if wait:
                return follow(client, job.id, Console(), remote, as_json=as_json)
        show(job, as_json=as_json)
        return SUCCESS

    named: Any = remote_job_options(command)
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print the job as JSON."),
        click.option("--wait", is_flag=True, help="Wait for its end; the exit code is that of its work."),
        click.option("--key", default="", metavar="TEXT", help="Submitting twice with the same key makes one job."),
    ):
        named = option(named)
    return named  # type: ignore[no-any-return]


def _options(fields: dict[str, Any]) -> dict[str, Any]:
    """Take the options that change the bytes of an archive out of a command's, as the service names them."""
    named = {"level": "level", "model": "model", "slot_tokens": "slot_tokens", "group": "group_frames"}
    return {theirs: fields.pop(ours) for ours, theirs in named.items()}


@submit_command.command("compress")
@click.argument("source")
@click.argument("output")
@_FORCE
@coding_options
@_submitting
def compress_job(**fields: Any) -> Work:
    """Compress the file SOURCE to OUTPUT."""
    return "compress_file", {"options": _options(fields), **fields}


@submit_command.command("decompress")
@click.argument("source")
@click.argument("output")
@_FORCE
@_submitting
def decompress_job(**fields: Any) -> Work:
    """Decompress the file SOURCE to OUTPUT."""
    return "decompress_file", fields


@submit_command.command("create")
@click.argument("output", metavar="ARCHIVE")
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@selection_options
@_FORCE
@coding_options
@_submitting
def create_job(**fields: Any) -> Work:
    """Pack trees into ARCHIVE."""
    return "archive_create", {"options": _options(fields), **fields}


@submit_command.command("append")
@click.argument("archive")
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@selection_options
@coding_options
@_submitting
def append_job(**fields: Any) -> Work:
    """Add to ARCHIVE what it does not have yet."""
    return "archive_append", {"options": _options(fields), **fields}


@submit_command.command("extract")
@click.argument("archive")
@click.argument("target")
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@selection_options
@_FORCE
@_submitting
def extract_job(**fields: Any) -> Work:
    """Give files of ARCHIVE, or all, back below the folder TARGET."""
    return "archive_extract", fields


@submit_command.command("verify")
@click.argument("archive")
@click.option("--quick", is_flag=True, help="Compare checks without decoding.")
@_submitting
def verify_job(**fields: Any) -> Work:
    """Decode and check ARCHIVE."""
    return "archive_verify", fields
