"""Jobs on archives: an archive goes on from its ledger, an extraction passes over what is there."""

import os
from collections.abc import Callable
from typing import Final

from speccompact.archive.appending import append
from speccompact.archive.archivefile import ArchiveFile
from speccompact.archive.checking import verify
from speccompact.archive.creating import create
from speccompact.archive.events import Event, JobSummary
from speccompact.archive.extracting import extract
from speccompact.archive.groupexecutors import LocalExecutor
from speccompact.archive.readoptions import RestoreOptions
from speccompact.errors import DamagedError
from speccompact.options import Options
from speccompact.streams.engine import Engines
from speccompact_grpc.jobcontrol import JobControl
from speccompact_grpc.joboutput import identity
from speccompact_grpc.jobrecords import JobRecord
from speccompact_grpc.jobrequests import JobRequest
from speccompact_grpc.v1 import speccompact_pb2 as pb

_OPTIONS: Final = Options()
_MOST_LEFT_OUT: Final = 1000
_LEFT_OUT_BYTES: Final = 1 << 17
_REASON_CHARACTERS: Final = 200
_COMMIT_POINTS: Final = frozenset(("planned", "group-noted", "folder-made", "file-written", "other-made"))


def archive_create(record: JobRecord, request: JobRequest, control: JobControl, engines: Engines) -> pb.JobResult:
    """Make an archive. Raises what `speccompact.archive.create` does, and JobInterrupted."""
    output = request.target

    def step(name: str) -> None:
        if name == "renamed":  # without the ledger, the next run would take the archive for another one's
            control.mark(identity(os.stat(output)), b"")
        _step(control, name)

    summary = create(
        output,
        request.archive_request(),
        force=request.force,
        executor=LocalExecutor(_OPTIONS, engines),
        listener=_Listener(control),
        step=step,
    )
    return _result(summary)


def archive_append(record: JobRecord, request: JobRequest, control: JobControl, engines: Engines) -> pb.JobResult:
    """Add to an archive. Raises what `speccompact.archive.append` does, and JobInterrupted."""
    summary = append(
        request.target,
        request.archive_request(),
        executor=LocalExecutor(_OPTIONS, engines),
        listener=_Listener(control),
        step=lambda name: _step(control, name),
    )
    return _result(summary)


def archive_extract(record: JobRecord, request: JobRequest, control: JobControl, engines: Engines) -> pb.JobResult:
    """Take files out of an archive. Raises what `speccompact.archive.extract` does, and JobInterrupted."""
    with ArchiveFile(request.sources[0].path, engines=engines) as archive:
        control.advance(total_groups=len(archive.catalogue.groups))
        summary = extract(
            archive,
            request.target,
            [os.fsencode(path) for path in request.paths],
            selection=request.selection,
            restore=RestoreOptions(force=request.force),
            resume=record.attempts > 1,
            listener=_Listener(control),
            step=lambda name: _step(control, name),
        )
    return _result(summary)


def archive_verify(record: JobRecord, request: JobRequest, control: JobControl, engines: Engines) -> pb.JobResult:
    """Check an archive.

    Raises:
        DamagedError: not everything could be restored from it.
        JobInterrupted: the job has to stop.
    """
    with ArchiveFile(request.sources[0].path, engines=engines) as archive:
        control.advance(total_groups=len(archive.catalogue.groups))
        summary = verify(archive, decode=not request.quick, listener=_Listener(control))
    if summary.left_out:
        path, reason = summary.left_out[0]
        raise DamagedError(
            f"{len(summary.left_out)} entries cannot be restored; the first is {os.fsdecode(path)!r}: {reason}"
        )
    return _result(summary)


class _Listener:
    """Tells a job how far its archive is, and ends it where it has to stop."""

    def __init__(self, control: JobControl) -> None:
        self._control, self._groups = control, 0

    def __call__(self, event: Event) -> None:
        values = event.values
        self._groups += event.name == "group"
        total = values.get("total", values.get("bytes") if event.name == "planned" else None)
        done = values.get("done")
        self._control.advance(
            done if isinstance(done, int) else None, total if isinstance(total, int) else None, self._groups
        )


def _step(control: JobControl, name: str) -> None:
    if name in _COMMIT_POINTS:
        control.commit_point()


def _result(summary: JobSummary) -> pb.JobResult:
    result = pb.JobResult(
        content_bytes=summary.content_bytes,
        compressed_bytes=summary.archive_bytes,
        entries=summary.entries,
        left_out_count=len(summary.left_out),
    )
    room = _LEFT_OUT_BYTES
    for path, reason in summary.left_out[:_MOST_LEFT_OUT]:
        room -= len(path)
        if room < 0:
            break
        result.left_out.append(pb.LeftOut(path=path, reason=_clean(reason)))
    return result


def _clean(reason: str) -> str:
    """Return a reason as a message can hold it: names of files may have bytes that are no UTF-8."""
    return reason.encode("utf-8", "backslashreplace").decode()[:_REASON_CHARACTERS]


ARCHIVE_WORK: Final[dict[str, Callable[[JobRecord, JobRequest, JobControl, Engines], pb.JobResult]]] = {
    function.__name__: function for function in (archive_create, archive_append, archive_extract, archive_verify)
}
