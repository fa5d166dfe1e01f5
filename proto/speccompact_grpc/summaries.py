"""What the library reports, as messages of the service."""

from speccompact.streams.inspecting import FileInfo, FrameInfo, PartInfo
from speccompact.streams.summary import Summary
from speccompact_grpc.refusals import Refusal
from speccompact_grpc.v1 import speccompact_pb2 as pb


def summary_message(summary: Summary, elapsed_s: float, queue_s: float) -> pb.Summary:
    """Return the totals of a call.

    Args:
        summary: of the stream.
        elapsed_s: since the call began.
        queue_s: that its slots have waited.
    """
    drafts = [
        pb.DraftStats(drafter=name, proposed=made.proposed, reached=made.reached, right=made.right)
        for name, made in summary.effort.drafts.items()
    ]
    return pb.Summary(
        content_bytes=summary.content_bytes,
        compressed_bytes=summary.compressed_bytes,
        parts=summary.parts,
        frames=summary.frames,
        model_slots=summary.model_slots,
        zstd_slots=summary.zstd_slots,
        raw_slots=summary.raw_slots,
        tokens=summary.tokens,
        passes=summary.passes,
        ideal_bits=summary.ideal_bits,
        payload_bytes=summary.payload_bytes,
        elapsed_ms=1000 * elapsed_s,
        queue_ms=1000 * queue_s,
        drafts=drafts,
        lost=[pb.LostRange(start=lost.start, stop=lost.stop, reason=lost.reason) for lost in summary.lost],
        notes=summary.effort.notes,
    )


def error_message(refusal: Refusal) -> pb.ErrorStatus:
    """Return an error that does not end a call."""
    number: int = refusal.code.value[0]
    return pb.ErrorStatus(code=number, message=refusal.message, reason=refusal.reason, number=refusal.number)


def inspect_message(info: FileInfo, *, include_frames: bool) -> pb.InspectResponse:
    """Return what an archive says about itself."""
    return pb.InspectResponse(
        format_version=info.format_version,
        compressed_bytes=info.compressed_bytes,
        content_bytes=info.content_bytes,
        payload_bytes=info.payload_bytes,
        level=info.level if info.parts else 0,
        model_digests=info.model_digests,
        groups=info.groups,
        slots=info.slots,
        tokens=info.tokens,
        parts=[_part(part) for part in info.parts],
        frame_count=len(info.frames),
        frames=[_frame(frame) for frame in info.frames] if include_frames else [],
    )


def _part(part: PartInfo) -> pb.PartInfo:
    return pb.PartInfo(
        single_frame=part.single_frame,
        level=part.level,
        exact_version=part.exact_version,
        precision=part.precision,
        model_digest=part.model_digest,
        vocabulary_digest=part.vocabulary_digest,
        memory_version=part.memory_version,
        memory_entries=part.memory_entries,
    )


def _frame(frame: FrameInfo) -> pb.FrameInfo:
    return pb.FrameInfo(
        part=frame.part,
        ordinal=frame.ordinal,
        offset=frame.offset,
        compressed_bytes=frame.compressed_bytes,
        payload_bytes=frame.payload_bytes,
        content_start=frame.content_start,
        content_bytes=frame.content_bytes,
        model_slots=frame.model_slots,
        zstd_slots=frame.zstd_slots,
        raw_slots=frame.raw_slots,
        tokens=frame.tokens,
        charsets=frame.charsets,
        goes_on=frame.goes_on,
    )
