"""Jobs on files of the server, for asyncio."""

from collections.abc import AsyncIterator, Sequence

from speccompact.client import plans
from speccompact.client.asynccalls import AsyncCalls
from speccompact.client.conversion import Priority
from speccompact_grpc.v1 import speccompact_pb2 as pb
from speccompact_grpc.v1.speccompact_pb2_grpc import JobServiceStub


class AsyncJobs:
    """Submits, lists, watches and cancels jobs. `timeout` and errors as in `AsyncClient`."""

    def __init__(self, calls: AsyncCalls) -> None:
        self._calls = calls
        self._stub = JobServiceStub(calls.channel)

    async def submit(
        self,
        spec: pb.JobSpec,
        *,
        priority: Priority = "normal",
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> pb.Job:
        """Start a job, once: repetitions have the same key. With the key of an earlier one, that one is returned.

        Raises:
            JobError: a file is missing, in the way, or outside the folders that jobs may use.
        """
        request = plans.submit_request(spec, priority, idempotency_key)
        return (await self._calls.unary(self._stub.SubmitJob, request, timeout)).job

    async def get(self, job_id: str, *, timeout: float | None = None) -> pb.Job:
        """Return a job. Raises JobError where there is none of that name."""
        return (await self._calls.unary(self._stub.GetJob, pb.GetJobRequest(id=job_id), timeout)).job

    async def list(
        self, states: Sequence[pb.JobState.ValueType] = (), *, timeout: float | None = None
    ) -> AsyncIterator[pb.Job]:
        """Yield the caller's jobs, newest first; only those in `states`, if any are named. `timeout` is of a page."""
        request = plans.list_request(states)
        while True:
            page = await self._calls.unary(self._stub.ListJobs, request, timeout)
            for job in page.jobs:
                yield job
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def watch(self, job_id: str, *, timeout: float | None = None) -> AsyncIterator[pb.Job]:
        """Yield a job as it is now, and whenever it has changed, until it has ended; across restarts of the service."""
        request = pb.WatchJobRequest(id=job_id)
        watched = self._calls.watch(self._stub.WatchJob, request, timeout, plans.has_ended, plans.BROKEN_WATCH)
        async for answer in watched:
            yield answer.job

    async def cancel(self, job_id: str, *, timeout: float | None = None) -> pb.Job:
        """Ask a job to stop, and return it as it is now. Raises JobError where there is none of that name."""
        return (await self._calls.unary(self._stub.CancelJob, pb.CancelJobRequest(id=job_id), timeout)).job
