"""Adding to an archive behind its end.

Nothing before that end is touched: until the new trailer is on disk, readers find the old one.
"""

import errno
import os
from contextlib import nullcontext

from speccompact.archive.archivefile import ArchiveFile
from speccompact.archive.events import Event, JobSummary, Listener, silent
from speccompact.archive.groupbuilding import Coder
from speccompact.archive.groupexecutors import Executor, LocalExecutor
from speccompact.archive.jobrunning import JobRun, Step, no_step
from speccompact.archive.ledger import SUFFIX, Ledger
from speccompact.archive.outputs import Output, exists
from speccompact.archive.planning import plan_groups
from speccompact.archive.preparing import prepare
from speccompact.archive.request import Request
from speccompact.archive.storage import is_remote, volumes, without_protocol
from speccompact.archive.treewalk import Avoided
from speccompact.errors import ArgumentError, JobError
from speccompact.options import Options

_OPTIONS = Options()


def append(
    output: str,
    request: Request,
    *,
    executor: Executor | None = None,
    options: Options = _OPTIONS,
    listener: Listener = silent,
    step: Step = no_step,
) -> JobSummary:
    """Add to an archive what it does not have yet, or go on with an append that the same request has begun.

    A path that the archive has with other bytes, time or mode gets a new entry, which replaces the old one; the old
    bytes stay where they are. Where there is nothing to add, nothing is written.

    Args:
        output: local path of the archive, or of its first volume.
        request: what to add; its level and model need not be those of before.
        executor, options, listener, step: as for `create`.

    Returns:
        Totals of what was added.

    Raises:
        ArgumentError: the archive is at a URL, where nothing can be appended.
        FormatError: it is damaged.
        JobError: a ledger of another job is in the way, or another process works on it.
        OSError: a source is not there, or the archive cannot be written. The job can be continued.
    """
    output = without_protocol(output)
    if is_remote(output):
        raise ArgumentError(f"{output}: objects cannot grow; append to a local archive and upload that")
    names = volumes(output) if not os.path.exists(output) or output.endswith(".001") else []
    base_name = names[0].removesuffix(".001") if names else output
    volume_bytes = _volume_bytes(names, request.volume_bytes)
    if not exists(base_name):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), output)
    with Ledger(base_name + SUFFIX) as ledger:
        job = ledger.job
        with ledger.beginning() if job is None else nullcontext(), ArchiveFile(output, options=options) as archive:
            before, trailer = archive.catalogue, archive.trailer  # under the lock: nobody adds to it any more
        if job is not None and job.generation == trailer.generation and job.archive_id == trailer.archive_id:
            if job.request == request.fingerprint():
                summary = _finished(ledger, job.base, trailer.archive_bytes, listener)
                step("ledger-removed")
                return summary
            ledger.clear()  # that job is done, and this is another one
            job = None
        if job is None:
            avoid = Avoided([base_name, base_name + SUFFIX, base_name + SUFFIX + "-journal", *names])
            with ledger.beginning():
                prepared, lost = prepare(request, avoid, before.entries, listener)
                groups = plan_groups(prepared, max(before.groups, default=-1) + 1)
                generation, base = trailer.generation + 1, trailer.archive_bytes
                job = ledger.save_plan(request.fingerprint(), base, generation, trailer.archive_id, groups, lost)
            if not prepared:
                ledger.remove()
                return JobSummary(0, 0, 0, 0, 0, left_out=tuple(lost))
            step("planned")
        elif (job.request, job.base, job.archive_id) != (
            request.fingerprint(),
            trailer.archive_bytes,
            trailer.archive_id,
        ):
            raise JobError(
                f"{base_name + SUFFIX} is of a job with another archive, other sources or options; repeat those to go "
                "on with it, or delete it to begin anew"
            )
        listener(Event("planned", {"bytes": ledger.content_bytes()[1]}))
        with Output(base_name, volume_bytes, suffix="") as file:
            run = JobRun(ledger, job, file, before, listener, step)
            coder = Coder(request.level, request.model, request.slot_tokens, request.group_frames)
            run.write_groups(executor or LocalExecutor(options), coder)
            summary = run.finish()
        ledger.remove()
        step("ledger-removed")
    listener(Event("done", {"entries": summary.entries, "archive_bytes": summary.archive_bytes}))
    return summary


def _finished(ledger: Ledger, base: int, archive_bytes: int, listener: Listener) -> JobSummary:
    """Return the totals of an append whose trailer is on disk, and remove its ledger."""
    entries, size = ledger.planned()
    lost = (*(ledger.job.left_out if ledger.job else ()), *ledger.losses())
    groups = len(ledger.written())
    ledger.remove()
    listener(Event("done", {"entries": entries, "archive_bytes": archive_bytes - base}))
    return JobSummary(entries, size, size, archive_bytes - base, groups, left_out=lost)


def _volume_bytes(names: list[str], wanted: int | None) -> int | None:
    """Return the size of the volumes of an archive: that of all but the last one."""
    if not names:
        if wanted is not None:
            raise ArgumentError("volume_bytes splits new archives; this one is in one file")
        return None
    if len(names) > 1:
        return os.path.getsize(names[0])
    return wanted if wanted is not None else max(os.path.getsize(names[0]), 1)
