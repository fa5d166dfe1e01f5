"""Requests of every kind, as both clients make them, and what is looked at in their answers."""

import uuid
from collections.abc import Sequence
from typing import Final

import grpc

from speccompact.client.conversion import Priority, batches, from_inspection, to_options, to_priority
from speccompact.client.exchanges import Exchange, Plan, check_pair
from speccompact.client.faults import Fault, item_error
from speccompact.errors import ArgumentError, ServiceError, SpecCompactError
from speccompact.params import DEFAULT_LEVEL
from speccompact.streams.inspecting import FileInfo
from speccompact.streams.summary import Progress
from speccompact_grpc.v1 import speccompact_pb2 as pb

JOB_PAGE: Final = 500
"""Jobs that are asked for at once."""

ENDED: Final = frozenset({pb.JOB_STATE_SUCCEEDED, pb.JOB_STATE_FAILED, pb.JOB_STATE_CANCELLED})
"""States that a job does not leave."""

BROKEN_WATCH: Final = Fault(grpc.StatusCode.UNAVAILABLE, "it has stopped telling about a job that goes on")


def compress_plan(
    *,
    level: int = DEFAULT_LEVEL,
    model: str = "",
    slot_tokens: int | None = None,
    group_frames: int | None = None,
    priority: Priority = "normal",
    progress: Progress | None = None,
) -> Plan[pb.CompressRequest]:
    """Return what Compress is called with. Raises ArgumentError where a value is out of range."""
    options = to_options(level, model, slot_tokens, group_frames)
    start = pb.CompressRequest(start=pb.CompressStart(options=options, priority=to_priority(priority)))
    return Plan(start, lambda piece: pb.CompressRequest(data=piece), True, True, progress)


def decompress_plan(
    *,
    max_output: int | None = None,
    byte_range: tuple[int, int] | None = None,
    salvage: bool = False,
    priority: Priority = "normal",
    progress: Progress | None = None,
) -> Plan[pb.DecompressRequest]:
    """Return what Decompress is called with. Raises ArgumentError where a value makes no sense."""
    if max_output is not None and not 0 < max_output < 1 << 63:
        raise ArgumentError(f"max_output is {max_output}; a service takes 1 or more")
    start = pb.DecompressStart(priority=to_priority(priority), max_content_bytes=max_output or 0, salvage=salvage)
    if byte_range is not None:
        if salvage:
            raise ArgumentError("byte_range and salvage exclude each other; salvage the whole archive first")
        if not all(0 <= number < 1 << 63 for number in byte_range):
            raise ArgumentError(f"byte_range is {byte_range}; start and length must be 0 or more")
        start.byte_range.CopyFrom(pb.ByteRange(start=byte_range[0], length=byte_range[1]))
    whole = byte_range is None and not salvage
    return Plan(
        pb.DecompressRequest(start=start), lambda piece: pb.DecompressRequest(data=piece), False, whole, progress
    )


def inspect_plan() -> Plan[pb.InspectRequest]:
    """Return what Inspect is called with."""
    start = pb.InspectRequest(start=pb.InspectStart(include_frames=True))
    return Plan(start, lambda piece: pb.InspectRequest(data=piece), False, False)


def inspected(answer: pb.InspectResponse, exchange: Exchange[pb.InspectRequest]) -> FileInfo:
    """Return what Inspect answered. Raises ServiceError where it is about something else than was sent."""
    if answer.compressed_bytes != exchange.sent or answer.frame_count != len(answer.frames):
        raise ServiceError(
            f"the service describes {answer.compressed_bytes} bytes with {len(answer.frames)} of {answer.frame_count}"
            f" frames; {exchange.sent} bytes were sent"
        )
    if not answer.parts:
        raise ServiceError("the service describes an archive without parts, which cannot be")
    return from_inspection(answer)


def text_request(content: bytes, level: int, model: str, priority: Priority) -> pb.CompressTextRequest:
    """Return what CompressText is called with. Raises ArgumentError where a value is out of range."""
    options = to_options(level, model)
    return pb.CompressTextRequest(content=content, options=options, priority=to_priority(priority))


def archive_request(archive: bytes, priority: Priority) -> pb.DecompressTextRequest:
    """Return what DecompressText is called with."""
    return pb.DecompressTextRequest(archive=archive, priority=to_priority(priority))


def compressed_text(content: bytes, answer: pb.CompressTextResponse) -> bytes:
    """Return the archive that CompressText gave. Raises ServiceError where it does not hold the content."""
    check_pair(content, answer.archive, archive_is_answer=True)
    return answer.archive


def decompressed_text(archive: bytes, answer: pb.DecompressTextResponse) -> bytes:
    """Return the content that DecompressText gave. Raises ServiceError where the archive holds another."""
    check_pair(answer.content, archive, archive_is_answer=False)
    return answer.content


def many_requests(
    contents: Sequence[bytes], level: int, model: str, priority: Priority
) -> list[pb.CompressManyRequest]:
    """Return the calls of CompressMany that take all contents, in order."""
    options, urgency = to_options(level, model), to_priority(priority)
    return [pb.CompressManyRequest(contents=batch, options=options, priority=urgency) for batch in batches(contents)]


def many_compressed(
    request: pb.CompressManyRequest, answer: pb.CompressManyResponse, address: str
) -> list[bytes | SpecCompactError]:
    """Return an archive, or the error that it met, for each content of a call.

    Raises:
        ServiceError: an answer is missing.
    """
    if len(answer.results) != len(request.contents):
        raise ServiceError(f"the service gave {len(answer.results)} answers to {len(request.contents)} texts")
    results: list[bytes | SpecCompactError] = []
    for content, result in zip(request.contents, answer.results, strict=True):
        if result.WhichOneof("outcome") == "compressed":
            try:
                results.append(compressed_text(content, result.compressed))
            except ServiceError as error:
                results.append(error)
        else:
            met = result.error
            results.append(item_error(met.code, met.message, met.reason, met.number, address))
    return results


def submit_request(spec: pb.JobSpec, priority: Priority, idempotency_key: str) -> pb.SubmitJobRequest:
    """Return what SubmitJob is called with; a key of its own, where there is none, makes repetition safe."""
    return pb.SubmitJobRequest(
        spec=spec, priority=to_priority(priority), idempotency_key=idempotency_key or uuid.uuid4().hex
    )


def list_request(states: Sequence[pb.JobState.ValueType]) -> pb.ListJobsRequest:
    """Return what ListJobs is called with for the first page."""
    return pb.ListJobsRequest(page_size=JOB_PAGE, states=states)


def has_ended(answer: pb.WatchJobResponse) -> bool:
    """Whether nothing more can be told about a job."""
    return answer.job.state in ENDED
