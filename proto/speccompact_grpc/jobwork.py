"""The work of all jobs: whether their files are as they have to be, who does it, and what an error is to the caller."""

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

import grpc

from speccompact.archive.outputs import exists
from speccompact.archive.storage import volumes
from speccompact.errors import JobError
from speccompact.streams.engine import Engines
from speccompact_grpc.calls import Call
from speccompact_grpc.jobarchives import ARCHIVE_WORK
from speccompact_grpc.jobcontrol import JobControl
from speccompact_grpc.jobfiles import compress_file, decompress_file
from speccompact_grpc.joboutput import identity, remove_temporary
from speccompact_grpc.jobpaths import Claim, PathRefused, Place, Roots
from speccompact_grpc.jobrecords import JobRecord
from speccompact_grpc.jobrequests import JobRequest, read_spec
from speccompact_grpc.refusals import Refusal
from speccompact_grpc.v1 import speccompact_pb2 as pb

_WORK: Final = {"compress_file": compress_file, "decompress_file": decompress_file} | ARCHIVE_WORK
_ARCHIVES_WRITTEN: Final = ("archive_create", "archive_append")


class JobWork:
    """See `jobrunner.Work`.

    Args:
        roots: folders that jobs may use.
        engines: gives the models for a call.
        default_model: what an empty name means.
        refusal: of errors of the library.
    """

    def __init__(
        self,
        roots: Roots,
        engines: Callable[[Call], Engines],
        default_model: str,
        refusal: Callable[[Exception], Refusal],
    ) -> None:
        self._roots, self._engines, self._default_model, self._refusal = roots, engines, default_model, refusal

    def request(self, spec: pb.JobSpec) -> JobRequest:
        """Return what a message asks for. Raises Refusal or PathRefused."""
        return read_spec(spec, self._roots, self._default_model)

    def check(self, request: JobRequest, *, begun: bool = False) -> None:
        """Look at the files of a job.

        Args:
            begun: whether the job has been under way before, so that what is beside its output is its own.

        Raises:
            PathRefused: a link or something else that is no file is where one has to be.
            FileNotFoundError: a source, an archive or the folder of an output is not there.
            FileExistsError: the output is, and is not to be replaced.
        """
        for place in request.sources:
            self._check_source(request, place)
        output = request.output
        if output is None:
            return
        if request.kind in _ARCHIVES_WRITTEN:
            output.check_family()
        if request.kind == "archive_append":
            self._archive(output)
        elif request.kind == "archive_extract":
            _folder(output)
        elif not request.force and not (begun and output.leftovers()) and _taken(request, output):
            raise FileExistsError(errno.EEXIST, "already exists", output.name)

    def claim(self, record: JobRecord) -> Claim:
        """Return what a job works on; nothing if its folders are no longer open to jobs, which will end it."""
        try:
            return self._read(record).claim
        except (PathRefused, Refusal):
            return Claim()

    def run(self, record: JobRecord, control: JobControl) -> bytes:
        """Do a job, or go on with it, and return a serialized `JobResult`."""
        request = self._read(record)
        if record.mark and request.output is not None:  # an earlier run got as far as giving the output its name
            status = request.output.status()
            if status is not None and identity(status) == record.mark:
                if record.result:
                    remove_temporary(request.output, record.id)
                    return record.result
                request = replace(request, force=True)
        begun = record.attempts > 1
        self.check(request, begun=begun)
        if not begun and request.kind in _ARCHIVES_WRITTEN:
            _clear(request)
        result = _WORK[request.kind](record, request, control, self._engines(control.call))
        return result.SerializeToString()

    def clean(self, record: JobRecord) -> None:
        """Remove what an unfinished job has left beside its output; files that were extracted stay."""
        with suppress(OSError, PathRefused, Refusal):
            request = self._read(record)
            if request.output is None or request.kind == "archive_extract":
                return
            if request.kind not in _ARCHIVES_WRITTEN:
                remove_temporary(request.output, record.id)
                return
            request.output.check_family()
            for path in request.output.leftovers():
                os.unlink(path)

    def explain(self, error: Exception) -> bytes:
        """Return an error as a serialized `ErrorStatus`."""
        refusal = self.refuse(error)
        code: int = refusal.code.value[0]
        status = pb.ErrorStatus(code=code, message=refusal.message, reason=refusal.reason, number=refusal.number)
        return status.SerializeToString()

    def refuse(self, error: Exception) -> Refusal:
        """Return an error as the status of a call, with the names of folders in place of their paths."""
        match error:
            case Refusal():
                return error
            case PathRefused():
                refusal = Refusal(grpc.StatusCode.PERMISSION_DENIED, "PATH", str(error))
            case OSError():
                refusal = _of_system(error)
            case _:
                refusal = self._refusal(error)
        refusal.message = self._roots.hidden(refusal.message).encode("utf-8", "backslashreplace").decode()
        return refusal

    def _read(self, record: JobRecord) -> JobRequest:
        return self.request(pb.JobSpec.FromString(record.spec))

    def _check_source(self, request: JobRequest, place: Place) -> None:
        if request.kind in ("archive_extract", "archive_verify"):
            self._archive(place)
            return
        status = place.status()
        if status is None:
            raise FileNotFoundError(errno.ENOENT, "is not there", place.name)
        single = request.kind not in _ARCHIVES_WRITTEN
        if (single and not stat.S_ISREG(status.st_mode)) or (place.inside and not stat.S_ISDIR(status.st_mode)):
            raise PathRefused(f"{place.name} is no {'regular file' if single else 'folder'}")

    def _archive(self, place: Place) -> None:
        place.check_family()
        if place.status() is None and not volumes(place.path):
            raise FileNotFoundError(errno.ENOENT, "is not there", place.name)


def _clear(request: JobRequest) -> None:
    """Let nothing be beside the output of a new job: a ledger that somebody has put there would be gone on with."""
    assert request.output is not None
    left = request.output.leftovers()
    if left and not request.force:
        raise JobError(f"an unfinished archive job is beside {request.output.name}; finish or remove it first")
    for path in left:
        os.unlink(path)


def _taken(request: JobRequest, output: Place) -> bool:
    return exists(output.path) if request.kind == "archive_create" else output.status() is not None


def _folder(place: Place) -> None:
    status = place.status()
    if status is not None and not stat.S_ISDIR(status.st_mode):
        raise PathRefused(f"{place.name} is no folder")


def _of_system(error: OSError) -> Refusal:
    name = error.filename if isinstance(error.filename, str) else ""
    if isinstance(error.filename, bytes):
        name = os.fsdecode(error.filename)
    message = f"{name}: {error.strerror or error}" if name else str(error.strerror or error)
    if isinstance(error, FileNotFoundError):
        return Refusal(grpc.StatusCode.NOT_FOUND, "FILE", message)
    if isinstance(error, FileExistsError):
        return Refusal(grpc.StatusCode.ALREADY_EXISTS, "EXISTS", message.partition("; -f ")[0])
    return Refusal(grpc.StatusCode.FAILED_PRECONDITION, "SYSTEM", message)
