"""A service that compresses with the model that is none, and fails on demand: the other end for tests of clients.

What a call is to meet is queued as `faults`, one for each call; without one it is served.
"""

import io
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NoReturn

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

import speccompact
from speccompact.errors import SpecCompactError
from speccompact.streams.summary import Summary
from speccompact_grpc.v1 import speccompact_pb2 as pb
from speccompact_grpc.v1 import speccompact_pb2_grpc as pb_grpc
from tests.fakes import FakeEngines

_PIECE = 1 << 16

Fault = Callable[[grpc.ServicerContext], object]
"""Called with a call's context before anything of it is read. It raises, by `refuse`, or returns how the answer is to
be spoiled: "cut", "break", "swap", "double", "count" or "wait"."""


def refuse(
    code: grpc.StatusCode, message: str, reason: str = "", number: int = 0, retry_s: float | None = None
) -> Fault:
    """Return the fault of a call that is refused with details as the service gives them."""

    def refusing(context: grpc.ServicerContext) -> NoReturn:
        details = []
        if reason:
            metadata = {"number": str(number)} if number else {}
            details.append(error_details_pb2.ErrorInfo(reason=reason, domain="speccompact", metadata=metadata))
        if retry_s is not None:
            delay = duration_pb2.Duration(seconds=int(retry_s), nanos=int(retry_s % 1 * 1e9))
            details.append(error_details_pb2.RetryInfo(retry_delay=delay))
        packed = []
        for detail in details:
            packed.append(any_pb2.Any())
            packed[-1].Pack(detail)
        status = status_pb2.Status(code=code.value[0], message=message, details=packed)
        context.abort_with_status(rpc_status.to_status(status))
        raise AssertionError("abort raises")

    return refusing


def spoil(how: str) -> Fault:
    """Return the fault of an answer that is not what it should be."""
    return lambda _context: how


class FakeService(pb_grpc.CompressionServiceServicer, pb_grpc.JobServiceServicer):
    """Serves both services.

    Attributes:
        faults: what the next calls meet.
        calls: names of the methods called so far, refused calls included.
        metadata: of each call.
        jobs: what is told about jobs, by name: one state after the other, of which the last stays.
        waiting: set once a call with the fault "wait" was reached.
        cancelled: set once such a call was cancelled.
    """

    def __init__(self) -> None:
        self.engines = FakeEngines()
        self.faults: deque[Fault] = deque()
        self.calls: list[str] = []
        self.metadata: list[dict[str, str]] = []
        self.jobs: dict[str, list[pb.Job]] = {}
        self.submitted: dict[str, pb.Job] = {}
        self.waiting, self.cancelled = threading.Event(), threading.Event()

    def Compress(self, request_iterator: Any, context: grpc.ServicerContext) -> Iterator[pb.CompressResponse]:
        spoiled = self._begin("Compress", context)
        start, source = _received(request_iterator)
        target = io.BytesIO()
        with _refusing(context):
            summary = speccompact.compress_stream(source, target, **_options(start.options), engines=self.engines)
        for piece in self._pieces(target.getvalue(), spoiled, context):
            yield pb.CompressResponse(data=piece)
        if spoiled != "cut":
            yield pb.CompressResponse(summary=_summary(summary, spoiled))
        if spoiled == "double":
            yield pb.CompressResponse(data=b"more")

    def Decompress(self, request_iterator: Any, context: grpc.ServicerContext) -> Iterator[pb.DecompressResponse]:
        spoiled = self._begin("Decompress", context)
        start, source = _received(request_iterator)
        target = io.BytesIO()
        limits = speccompact.Limits(output_bytes=start.max_content_bytes or None)
        wanted = (start.byte_range.start, start.byte_range.length) if start.HasField("byte_range") else None
        with _refusing(context):
            summary = speccompact.decompress_stream(
                source, target, limits=limits, salvage=start.salvage, byte_range=wanted, engines=self.engines
            )
        for piece in self._pieces(target.getvalue(), spoiled, context):
            yield pb.DecompressResponse(data=piece)
        if spoiled != "cut":
            yield pb.DecompressResponse(summary=_summary(summary, spoiled))

    def CompressText(self, request: pb.CompressTextRequest, context: Any) -> pb.CompressTextResponse:
        spoiled = self._begin("CompressText", context)
        return self._text(request.content[: -1 if spoiled else None], request.options)

    def DecompressText(self, request: pb.DecompressTextRequest, context: Any) -> pb.DecompressTextResponse:
        spoiled = self._begin("DecompressText", context)
        content = speccompact.decompress(request.archive, engines=self.engines)
        return pb.DecompressTextResponse(content=content.swapcase() if spoiled else content)

    def CompressMany(self, request: pb.CompressManyRequest, context: Any) -> pb.CompressManyResponse:
        spoiled = self._begin("CompressMany", context)
        error = pb.ErrorStatus(code=8, message="too long", reason="LIMIT", number=40)
        results = [
            pb.CompressResult(error=error)
            if content == b"bad"
            else pb.CompressResult(compressed=self._text(content, request.options))
            for content in request.contents
        ]
        return pb.CompressManyResponse(results=results[: -1 if spoiled else None])

    def Inspect(self, request_iterator: Any, context: grpc.ServicerContext) -> pb.InspectResponse:
        spoiled = self._begin("Inspect", context)
        _, source = _received(request_iterator)
        with _refusing(context):
            info = speccompact.inspect(source).to_json()
        del info["bpb"]
        answer = pb.InspectResponse(**info, frame_count=len(info["frames"]))
        if spoiled:
            answer.compressed_bytes += 1
        return answer

    def ListModels(self, request: pb.ListModelsRequest, context: Any) -> pb.ListModelsResponse:
        self._begin("ListModels", context)
        digest = self.engines.codec.target.digest.hex()
        return pb.ListModelsResponse(models=[pb.Model(name="fake", digest=digest, is_default=True)])

    def SubmitJob(self, request: pb.SubmitJobRequest, context: Any) -> pb.SubmitJobResponse:
        key = request.idempotency_key
        known = self.submitted.get(key)
        job = known or pb.Job(id=f"{len(self.submitted):032x}", spec=request.spec, priority=request.priority)
        job.state = pb.JOB_STATE_QUEUED
        self.submitted[key] = job
        self.jobs.setdefault(job.id, [job])
        self._begin("SubmitJob", context)  # the answer can be lost after the job was written down
        return pb.SubmitJobResponse(job=job)

    def GetJob(self, request: pb.GetJobRequest, context: Any) -> pb.GetJobResponse:
        self._begin("GetJob", context)
        return pb.GetJobResponse(job=self._states(request.id, context)[-1])

    def ListJobs(self, request: pb.ListJobsRequest, context: Any) -> pb.ListJobsResponse:
        self._begin("ListJobs", context)
        all_jobs = [states[-1] for states in self.jobs.values()]
        found = [job for job in all_jobs if not request.states or job.state in request.states]
        at = int(request.page_token or 0)
        return pb.ListJobsResponse(jobs=found[at : at + 2], next_page_token=str(at + 2) * (at + 2 < len(found)))

    def WatchJob(self, request: pb.WatchJobRequest, context: Any) -> Iterator[pb.WatchJobResponse]:
        spoiled = self._begin("WatchJob", context)
        states = self._states(request.id, context)
        while len(states) > 1:
            yield pb.WatchJobResponse(job=states.pop(0))
            if spoiled:
                return
        yield pb.WatchJobResponse(job=states[-1])

    def CancelJob(self, request: pb.CancelJobRequest, context: Any) -> pb.CancelJobResponse:
        self._begin("CancelJob", context)
        job = self._states(request.id, context)[-1]
        job.cancel_requested, job.state = True, pb.JOB_STATE_CANCELLED
        return pb.CancelJobResponse(job=job)

    def _begin(self, name: str, context: grpc.ServicerContext) -> object:
        """Note a call and let it meet its fault."""
        self.calls.append(name)
        self.metadata.append({key: str(value) for key, value in context.invocation_metadata() or ()})
        fault = self.faults.popleft() if self.faults else spoil("")
        spoiled = fault(context)
        if spoiled == "wait":
            context.add_callback(self.cancelled.set)
            self.waiting.set()
            assert self.cancelled.wait(60)
        return spoiled

    def _states(self, name: str, context: grpc.ServicerContext) -> list[pb.Job]:
        if name not in self.jobs:
            refuse(grpc.StatusCode.NOT_FOUND, f"there is no job {name}", "JOB")(context)
        return self.jobs[name]

    def _text(self, content: bytes, options: pb.CompressOptions) -> pb.CompressTextResponse:
        archive = speccompact.compress(content, **_options(options), engines=self.engines)
        return pb.CompressTextResponse(archive=archive, summary=pb.Summary(content_bytes=len(content)))

    def _pieces(self, data: bytes, spoiled: object, context: grpc.ServicerContext) -> Iterator[bytes]:
        if spoiled == "swap":  # what another caller should have had, just as long
            data = data[:-20] + data[-19:-18] + data[-20:-19] + data[-18:]
        if spoiled in ("cut", "break"):
            data = data[: len(data) // 2]
        for at in range(0, len(data), _PIECE):
            yield data[at : at + _PIECE]
        if spoiled == "break":
            refuse(grpc.StatusCode.UNAVAILABLE, "the service ends", "DRAINING", retry_s=0.01)(context)


@contextmanager
def serving(service: FakeService, port: int = 0) -> Iterator[str]:
    """Serve on loopback and give the address."""
    with ThreadPoolExecutor(8) as pool:
        server = grpc.server(pool, options=[("grpc.so_reuseport", 0)])
        pb_grpc.add_CompressionServiceServicer_to_server(service, server)
        pb_grpc.add_JobServiceServicer_to_server(service, server)
        bound = server.add_insecure_port(f"127.0.0.1:{port}")
        server.start()
        try:
            yield f"127.0.0.1:{bound}"
        finally:
            service.cancelled.set()
            server.stop(0).wait()


def _received(requests: Iterator[Any]) -> tuple[Any, io.BytesIO]:
    """Return the first message and everything behind it."""
    start = next(requests)
    assert start.WhichOneof("payload") == "start"
    source = io.BytesIO()
    for request in requests:
        assert request.WhichOneof("payload") == "data"
        source.write(request.data)
    source.seek(0)
    return start.start, source


def _options(options: pb.CompressOptions) -> dict[str, Any]:
    return {
        "level": options.level or 5,
        "model": options.model or "fake",
        "slot_tokens": options.slot_tokens if options.HasField("slot_tokens") else None,
        "group_frames": options.group_frames if options.HasField("group_frames") else None,
    }


def _summary(summary: Summary, spoiled: object) -> pb.Summary:
    lost = [pb.LostRange(start=gap.start, stop=gap.stop, reason=gap.reason) for gap in summary.lost]
    drafts = [pb.DraftStats(drafter="suffix", proposed=[3, 1], reached=[3, 1], right=[1, 1])]
    return pb.Summary(
        content_bytes=summary.content_bytes + (spoiled == "count"),
        compressed_bytes=summary.compressed_bytes,
        parts=summary.parts,
        frames=summary.frames,
        model_slots=summary.model_slots,
        tokens=summary.tokens,
        passes=summary.passes,
        elapsed_ms=1500.0,
        drafts=drafts,
        lost=lost,
    )


@contextmanager
def _refusing(context: grpc.ServicerContext) -> Iterator[None]:
    """Refuse a call for an error of the library."""
    try:
        yield
    except SpecCompactError as error:
        refuse(grpc.StatusCode.DATA_LOSS, str(error), type(error).__name__, error.number)(context)
