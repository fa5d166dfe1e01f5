"""What a job of a service looks like in words, and what its end means to the shell."""

import json
from typing import TYPE_CHECKING

import click

from speccompact import client as service
from speccompact.quantities import amount
from speccompact_cli.console import Console
from speccompact_cli.exit_codes import JOB, SUCCESS, exit_code
from speccompact_cli.naming import shown
from speccompact_cli.progress import Progress
from speccompact_cli.remote import Remote
from speccompact_cli.reports import report_failure

if TYPE_CHECKING:
    from speccompact.client import Client
    from speccompact_grpc.v1.speccompact_pb2 import Job

_MOST_TOLD = 20
"""Paths left out that are listed one by one."""


def job_line(job: "Job") -> str:
    """Return a job on one line: name, state, how far, what."""
    work, sources, output = service.job_work(job)
    first = shown(sources[0]) if sources else ""
    more = f" and {len(sources) - 1} more" if len(sources) > 1 else ""
    what = f"{work} {first}{more}" + (f" → {shown(output)}" if output else "")
    return f"{shown(job.id)}  {service.job_state(job):<9}  {_share(job):>8}  {what}"


def show(job: "Job", *, as_json: bool) -> None:
    """Print a job on standard output."""
    click.echo(json.dumps(service.job_json(job)) if as_json else job_line(job))


def follow(client: "Client", job_id: str, console: Console, remote: Remote, *, as_json: bool) -> int:
    """Wait for the end of a job, with a bar on a terminal, print it, and return its exit code."""
    job = None
    with Progress(console, shown(job_id[:8]), None) as progress:
        for job in client.jobs.watch(job_id, timeout=remote.timeout):
            progress.update(job.progress.done_bytes, job.progress.total_bytes or None)
    assert job is not None  # a watch gives the state that it ends with, or raises
    show(job, as_json=as_json)
    return told_end(job, console, remote.address)


def told_end(job: "Job", console: Console, address: str) -> int:
    """Say why a job failed or what it left out, and return the exit code of its end; SUCCESS while it goes on."""
    error = service.job_error(job, address)
    if error is not None:
        report_failure(console, error, shown(job.id[:8]))
        return exit_code(error)
    for left in job.result.left_out[:_MOST_TOLD]:
        console.error(f"{shown(left.path)}: {shown(left.reason)}")
    if job.result.left_out_count > min(len(job.result.left_out), _MOST_TOLD):
        console.error(f"{job.result.left_out_count} paths were left out in all; --json lists them")
    stopped = service.job_state(job) == "cancelled"
    return JOB if stopped or job.result.left_out_count else SUCCESS


def _share(job: "Job") -> str:
    """Return how far a job is: a share where the whole is known, else an amount."""
    done, total = job.progress.done_bytes, job.progress.total_bytes
    if service.job_state(job) == "succeeded":
        return amount(job.result.content_bytes)
    return f"{min(done / total, 1.0):.0%}" if total else amount(done) if done else "-"
