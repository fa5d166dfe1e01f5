"""Making an archive, from sources to the renamed file, and going on where an earlier run was stopped.

Commit points, in order: the plan in the ledger; each group (record on disk, then its row in the ledger); the trailer
on disk; the rename; for a URL, the end of the upload. ARCHIVE.md section 7.
"""

import errno
import os
from contextlib import suppress

from speccompact.archive.archivefile import ArchiveFile
from speccompact.archive.catalogue import Catalogue
from speccompact.archive.events import Event, JobSummary, Listener, silent
from speccompact.archive.groupbuilding import Coder
from speccompact.archive.groupexecutors import Executor, LocalExecutor
from speccompact.archive.jobrunning import JobRun, Step, no_step, summarise
from speccompact.archive.ledger import SUFFIX, Job, Ledger
from speccompact.archive.outputs import PARTIAL, Output, drop_other_shape, exists, take_back
from speccompact.archive.planning import plan_groups
from speccompact.archive.preparing import prepare
from speccompact.archive.request import Request
from speccompact.archive.storage import is_remote, volume_name, without_protocol
from speccompact.archive.stores import filesystem, reaching
from speccompact.archive.treewalk import Avoided
from speccompact.errors import ArgumentError, FormatError, JobError
from speccompact.options import Options

_OPTIONS = Options()

_UPLOAD = ".upload"
"""Ends the name of the local file that is to go to a URL: it must not be that of an archive that is to stay."""


def create(
    output: str,
    request: Request,
    *,
    force: bool = False,
    work: str = os.curdir,
    executor: Executor | None = None,
    options: Options = _OPTIONS,
    listener: Listener = silent,
    step: Step = no_step,
) -> JobSummary:
    """Make an archive, or go on with one that the same request has begun.

    Args:
        output: local path or URL. A URL is written to a local file first, and uploaded when that is complete.
        request: what to archive, and how.
        force: replace an archive of that name.
        work: local folder for the file and the ledger of a URL.
        executor: where groups are made; in this process if None.
        options: how to run, where the executor is None.
        listener: told what happens.
        step: see `Step`.

    Returns:
        Totals; `left_out` names every file that did not make it.

    Raises:
        ArgumentError: something is out of range, or two sources want the same name.
        IsADirectoryError: the output is a folder.
        FileExistsError: the name is taken and `force` is off.
        JobError: a ledger of another job is in the way, or another process works on it.
        ModelError: the model is needed and missing or damaged.
        OSError: a source is not there, or the output cannot be written. The job can be continued.
    """
    output = without_protocol(output)
    request.params  # noqa: B018 - refuses what is out of range before anything is written
    if request.volume_bytes is not None and is_remote(output):
        raise ArgumentError("volume_bytes is for local archives; what is uploaded is one object")
    local = os.path.join(work, output.rstrip("/").rpartition("/")[2] + _UPLOAD) if is_remote(output) else output
    _refuse_folder(output)
    if not os.path.exists(local + SUFFIX) and not force:
        _refuse_taken(output)
    with Ledger(local + SUFFIX) as ledger:
        job = ledger.job
        if job is None:
            with ledger.beginning():
                if not force:
                    _refuse_taken(output)
                job = _plan(local, output, request, ledger, listener)
            step("planned")
        elif job.request != request.fingerprint() or job.base:
            raise JobError(
                f"{local + SUFFIX} is of a job with other sources or options; repeat those to go on with it, or delete "
                f"it and {local + PARTIAL} to begin anew"
            )
        summary = _renamed(local, job, ledger)
        if summary is None:
            if request.volume_bytes:
                take_back(local)
            with Output(local, request.volume_bytes) as file:
                run = JobRun(ledger, job, file, Catalogue(), listener, step)
                coder = Coder(request.level, request.model, request.slot_tokens, request.group_frames)
                run.write_groups(executor or LocalExecutor(options), coder)
                summary = run.finish()
                if not force and not is_remote(output):
                    _refuse_taken(output)
                drop_other_shape(local, request.volume_bytes)
                file.commit()
                step("renamed")
        if is_remote(output):
            _upload(local, output)
            step("uploaded")
        ledger.remove()
        step("ledger-removed")
    if is_remote(output):
        os.unlink(local)
    listener(Event("done", {"entries": summary.entries, "archive_bytes": summary.archive_bytes}))
    return summary


def _plan(local: str, output: str, request: Request, ledger: Ledger, listener: Listener) -> Job:
    names = [local, local + SUFFIX, local + SUFFIX + "-journal", local + PARTIAL]
    for number in range(1000 if request.volume_bytes else 0):
        names += [volume_name(local, number), volume_name(local, number) + PARTIAL]
    prepared, lost = prepare(request, Avoided([*names, output]), {}, listener)
    job = ledger.save_plan(request.fingerprint(), 0, 0, b"", plan_groups(prepared, 0), lost)
    listener(Event("planned", {"entries": len(prepared), "bytes": ledger.content_bytes()[1]}))
    return job


def _renamed(local: str, job: Job, ledger: Ledger) -> JobSummary | None:
    """Return the totals if an earlier run got as far as the rename, else None.

    An archive that is to be replaced can have the same id: what the ledger says decides.
    """
    if not ledger.all_written:
        return None
    if os.path.exists(local + PARTIAL) or os.path.exists(volume_name(local, 0) + PARTIAL) or not exists(local):
        return None
    with suppress(FormatError, OSError), ArchiveFile(local) as archive:
        if archive.archive_id == job.archive_id and not archive.trailer.generation:
            groups = archive.catalogue.groups.values()
            lost = (*job.left_out, *ledger.losses())
            return summarise(archive.entries, groups, archive.trailer.archive_bytes, lost, {})
    return None


def _refuse_folder(output: str) -> None:
    if not is_remote(output) and (output.endswith("/") or os.path.isdir(output)):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), output)


def _refuse_taken(output: str) -> None:
    if is_remote(output):
        system, path = filesystem(output)
        with reaching(output):
            system.invalidate_cache()
            taken = system.exists(path)
    else:
        taken = exists(output)
    if taken:
        raise FileExistsError(errno.EEXIST, "already exists; -f overwrites it", output)


def _upload(local: str, output: str) -> None:
    """Send the file; object stores show it only when the last byte has arrived."""
    system, path = filesystem(output)
    with reaching(output):
        system.put_file(local, path)
