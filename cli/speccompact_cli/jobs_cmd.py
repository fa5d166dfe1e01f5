"""``speccompact jobs``: work on files of a server, submitted, listed, followed and cancelled."""

import click

from speccompact import client as service
from speccompact_cli.console import Console
from speccompact_cli.exit_codes import SUCCESS
from speccompact_cli.job_reports import follow, show, told_end
from speccompact_cli.jobs_submit_cmd import submit_command
from speccompact_cli.remote import Remote, connect, remote_job_options

_JSON = click.option("--json", "as_json", is_flag=True, help="Print each job as one JSON object on a line.")
_ID = click.argument("job_id", metavar="JOB")
_STATES = ("queued", "running", "succeeded", "failed", "cancelled")


@click.group("jobs")
def jobs_command() -> None:
    """Let a service compress, decompress and archive files of its own machine.

    Jobs survive a restart of the service, and go on where they were. A service tells a caller about its own jobs only.
    """


@jobs_command.command("list")
@click.option("--state", "states", multiple=True, type=click.Choice(_STATES), help="Only these; repeatable.")
@_JSON
@remote_job_options
def list_command(states: tuple[str, ...], as_json: bool, remote: Remote) -> int:
    """List your jobs, newest first."""
    with connect(remote) as client:
        wanted = [service.JOB_STATES[word] for word in states]
        for job in client.jobs.list(wanted, timeout=remote.timeout):
            show(job, as_json=as_json)
    return SUCCESS


@jobs_command.command("get")
@_ID
@_JSON
@remote_job_options
def get_command(job_id: str, as_json: bool, remote: Remote) -> int:
    """Show a job; if it has ended, exit with the code of its work."""
    with connect(remote) as client:
        job = client.jobs.get(job_id, timeout=remote.timeout)
    show(job, as_json=as_json)
    return told_end(job, Console(), remote.address)


@jobs_command.command("watch")
@_ID
@_JSON
@remote_job_options
def watch_command(job_id: str, as_json: bool, remote: Remote) -> int:
    """Wait for the end of a job; the exit code is that of its work."""
    with connect(remote) as client:
        return follow(client, job_id, Console(), remote, as_json=as_json)


@jobs_command.command("cancel")
@_ID
@_JSON
@remote_job_options
def cancel_command(job_id: str, as_json: bool, remote: Remote) -> int:
    """Ask a job to stop, and show it as it is now."""
    with connect(remote) as client:
        show(client.jobs.cancel(job_id, timeout=remote.timeout), as_json=as_json)
    return SUCCESS


jobs_command.add_command(submit_command)
