"""The RPCs of jobs.

A caller sees its own jobs alone: those of others are not found.
"""

import hashlib
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import grpc

from speccompact.errors import ArgumentError, JobError, SpecCompactError
from speccompact.streams.engine import Engines
from speccompact_grpc.callers import current_caller
from speccompact_grpc.calls import Call
from speccompact_grpc.jobboard import JobBoard
from speccompact_grpc.jobpaths import PathRefused, Roots
from speccompact_grpc.jobrecords import JobRecord, JobState
from speccompact_grpc.jobrequests import wrong
from speccompact_grpc.jobrunner import JobRunner
from speccompact_grpc.jobstore import JobStore, KeyTaken, TooManyJobs
from speccompact_grpc.jobwork import JobWork
from speccompact_grpc.observing import Observer
from speccompact_grpc.refusals import Refusal
from speccompact_grpc.v1 import speccompact_pb2 as pb
from speccompact_grpc.v1 import speccompact_pb2_grpc as pb_grpc

_LOG = logging.getLogger(__name__)
_MOST_ON_A_PAGE: Final = 1000
_PAGE: Final = 100
_PAGE_BYTES: Final = 1 << 20
_SPEC_BYTES: Final = 1 << 18
_KEY_CHARACTERS: Final = 128
_RETRY_SECONDS: Final = 5.0
_REST: Final = 0.1  # seconds between two messages of a watch
_TOKEN: Final = re.compile(r"([1-9][0-9]{0,17})-([0-9a-f]{16})")
_ID: Final = re.compile("[0-9a-f]{32}")


class JobService(pb_grpc.JobServiceServicer):
    """Serves JobService, and runs the jobs from `start` until `stop`.

    Args:
        path: file of the jobs.
        roots: folders that jobs may use, as in `Roots`.
        engines: gives the models for a call.
        default_model: what an empty name means.
        refusal: returns the status that an error of the library is.
        observer: told how many jobs are in each state.
        workers: jobs at once.

    Raises:
        ArgumentError: a root makes no sense, or the file of the jobs is below one.
        JobError: the file is none of jobs, or in use by another process.
        OSError: it cannot be written.
    """

    def __init__(
        self,
        path: str,
        roots: Sequence[str],
        *,
        engines: Callable[[Call], Engines],
        default_model: str,
        refusal: Callable[[Exception], Refusal],
        observer: Observer,
        workers: int = 1,
    ) -> None:
        """Open the file of the jobs."""
        folders = Roots(roots)
        if folders.holds(path):
            raise ArgumentError(f"jobs: {path} is where jobs may write; keep the file outside of jobs_roots")
        self._work = JobWork(folders, engines, default_model, refusal)
        self._store = JobStore(path)
        self._board = JobBoard(self._store, observer)
        self._runner = JobRunner(self._board, self._work, workers)

    def start(self) -> None:
        """Begin to run jobs; those that an earlier run of the service has left go on."""
        self._runner.start()

    def stop(self, grace: float) -> None:
        """Let running jobs come to a commit point and keep them for the next start; end all watches.

        Args:
            grace: seconds after which jobs that have not come to one are stopped where they are.
        """
        self._runner.stop(grace)

    def close(self) -> None:
        """Let go of the file of the jobs; no call may be running any more."""
        self._store.close()

    def SubmitJob(self, request: pb.SubmitJobRequest, context: grpc.ServicerContext) -> pb.SubmitJobResponse:
        """See the proto file."""
        if len(request.idempotency_key) > _KEY_CHARACTERS:
            raise wrong("idempotency_key", f"is longer than {_KEY_CHARACTERS} characters")
        if request.priority not in pb.Priority.values():
            raise wrong("priority", "is none that there is")
        caller = current_caller()
        spec = request.spec.SerializeToString(deterministic=True)
        if len(spec) > _SPEC_BYTES:
            raise Refusal(
                grpc.StatusCode.RESOURCE_EXHAUSTED, "SIZE", f"spec has {len(spec)} bytes; {_SPEC_BYTES} are taken"
            )
        priority = caller.granted(request.priority)
        with _store_in_use():
            known = self._store.keyed(caller.name, request.idempotency_key)
        if known is None:
            self._check(request.spec)
        try:
            with _store_in_use():
                record, new = self._store.submit(caller.name, request.idempotency_key, priority, spec)
        except KeyTaken:
            raise Refusal(
                grpc.StatusCode.ALREADY_EXISTS, "EXISTS", "another request has used this idempotency key"
            ) from None
        except TooManyJobs:
            raise Refusal(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                "QUEUE_FULL",
                "too many jobs are waiting; try again later",
                retry_seconds=_RETRY_SECONDS,
            ) from None
        if new:
            with _store_in_use():
                self._board.change(record)
            self._runner.wake()
        return pb.SubmitJobResponse(job=_message(self._board.current(record)))

    def GetJob(self, request: pb.GetJobRequest, context: grpc.ServicerContext) -> pb.GetJobResponse:
        """See the proto file."""
        return pb.GetJobResponse(job=_message(self._own(request.id)))

    def ListJobs(self, request: pb.ListJobsRequest, context: grpc.ServicerContext) -> pb.ListJobsResponse:
        """See the proto file."""
        if request.page_size > _MOST_ON_A_PAGE:
            raise wrong("page_size", f"is {request.page_size}; {_MOST_ON_A_PAGE} is the most")
        numbers = set(request.states)
        if not numbers <= set(JobState):
            raise wrong("states", "names a state that no job has")
        owner, states = current_caller().name, [JobState(number) for number in sorted(numbers)]
        mark = hashlib.sha256(repr((owner, sorted(numbers))).encode()).hexdigest()[:16]
        before = None
        if request.page_token:
            found = _TOKEN.fullmatch(request.page_token)
            if not found or found[2] != mark:
                raise wrong("page_token", "is none of this list")
            before = int(found[1])
        size = request.page_size or _PAGE
        answer = pb.ListJobsResponse()
        room = _PAGE_BYTES
        with _store_in_use():
            records = self._store.page(owner, states, before, size + 1)
        for record in records:
            job = _message(self._board.current(record))
            room -= job.ByteSize()
            if len(answer.jobs) == size or (answer.jobs and room < 0):
                answer.next_page_token = f"{before}-{mark}"
                break
            answer.jobs.append(job)
            before = record.number
        return answer

    def WatchJob(self, request: pb.WatchJobRequest, context: grpc.ServicerContext) -> Iterator[pb.WatchJobResponse]:
        """See the proto file."""
        own = self._own(request.id)
        with self._board.watching(own.id) as watch:
            if not context.add_callback(watch.close):  # the caller has gone already
                return
            told = None
            while True:
                record = self._own(request.id, own.owner)
                if record != told:
                    yield pb.WatchJobResponse(job=_message(record))
                    told = record
                if record.state.ended:
                    return
                watch.rest(_REST)
                watch.wait()
                if not context.is_active():
                    return
                if watch.over:
                    raise Refusal(
                        grpc.StatusCode.UNAVAILABLE, "DRAINING", "the service is about to end; watch again later"
                    )

    def CancelJob(self, request: pb.CancelJobRequest, context: grpc.ServicerContext) -> pb.CancelJobResponse:
        """See the proto file."""
        own = self._own(request.id)
        with _store_in_use():
            record = self._runner.cancel(own.id)
        return pb.CancelJobResponse(job=_message(self._board.current(record)))

    def _check(self, spec: pb.JobSpec) -> None:
        """Look at what a job is to do, before it is taken on."""
        try:
            self._work.check(self._work.request(spec))
        except (PathRefused, SpecCompactError, OSError) as error:
            raise self._work.refuse(error) from None

    def _own(self, id: str, owner: str | None = None) -> JobRecord:
        """Return a job of the caller's."""
        with _store_in_use():
            record = self._board.record(id) if _ID.fullmatch(id) else None
        if record is None or record.owner != (current_caller().name if owner is None else owner):
            raise Refusal(grpc.StatusCode.NOT_FOUND, "JOB", "there is no such job")
        return record


@contextmanager
def _store_in_use() -> Iterator[None]:
    """Tell the log alone what is wrong with the file of the jobs: where it is, is nobody's business."""
    try:
        yield
    except (JobError, OSError) as error:
        _LOG.error("the file of the jobs cannot be used: %s", error)
        why = error.strerror if isinstance(error, OSError) else None
        raise Refusal(
            grpc.StatusCode.FAILED_PRECONDITION,
            "SYSTEM",
            f"the service cannot use its file of jobs: {why or 'its log says more'}",
        ) from None


def _message(record: JobRecord) -> pb.Job:
    """Return a job as the proto file has it."""
    done = record.progress
    job = pb.Job(
        id=record.id,
        spec=pb.JobSpec.FromString(record.spec),
        priority=pb.Priority.ValueType(record.priority),
        state=pb.JobState.ValueType(record.state),
        progress=pb.JobProgress(
            done_bytes=done.done_bytes,
            total_bytes=done.total_bytes,
            done_groups=done.done_groups,
            total_groups=done.total_groups,
        ),
        created_ms=record.created_ms,
        started_ms=record.started_ms,
        ended_ms=record.ended_ms,
        attempts=record.attempts,
        cancel_requested=record.cancel_requested,
    )
    if record.state == JobState.FAILED:
        job.error.ParseFromString(record.error)
    elif record.state == JobState.SUCCEEDED:
        job.result.ParseFromString(record.result)
    return job
