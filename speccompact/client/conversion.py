"""Between messages of the service and what the library uses."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from speccompact.client.faults import one_line
from speccompact.errors import ArgumentError
from speccompact.params import level_params
from speccompact.speculative.effort import Acceptance, Effort
from speccompact.streams.inspecting import FileInfo, FrameInfo, PartInfo
from speccompact.streams.summary import LostRange, Summary
from speccompact_grpc.v1 import speccompact_pb2 as pb

Priority = Literal["low", "normal", "high"]
"""How urgent a call is."""

_PRIORITIES: Final[Mapping[str, pb.Priority.ValueType]] = {
    "low": pb.PRIORITY_LOW,
    "normal": pb.PRIORITY_NORMAL,
    "high": pb.PRIORITY_HIGH,
}


def to_priority(priority: str) -> pb.Priority.ValueType:
    """Return the service's word.

    Raises:
        ArgumentError: there is no such priority.
    """
    if priority not in _PRIORITIES:
        raise ArgumentError(f'priority is "{priority}"; choose {", ".join(_PRIORITIES)}')
    return _PRIORITIES[priority]


def to_options(
    level: int, model: str, slot_tokens: int | None = None, group_frames: int | None = None
) -> pb.CompressOptions:
    """Return what changes the bytes of an archive; an empty model is the service's default.

    Raises:
        ArgumentError: a value is out of range.
    """
    level_params(level, slot_tokens, group_frames)
    return pb.CompressOptions(level=level, model=model, slot_tokens=slot_tokens, group_frames=group_frames)


def from_summary(summary: pb.Summary) -> Summary:
    """Return the totals of a call. Times of passes are those of the whole call: others shared them."""
    drafts = {
        one_line(made.drafter): Acceptance(tuple(made.proposed), tuple(made.reached), tuple(made.right))
        for made in summary.drafts
    }
    lost = tuple(
        LostRange(gap.start, gap.stop if gap.HasField("stop") else None, one_line(gap.reason)) for gap in summary.lost
    )
    return Summary(
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
        effort=Effort(summary.passes, summary.elapsed_ms / 1000, 0.0, drafts, tuple(map(one_line, summary.notes))),
        lost=lost,
    )


def from_inspection(answer: pb.InspectResponse) -> FileInfo:
    """Return what an archive says about itself; the frames are there if they were asked for."""
    return FileInfo(
        answer.format_version,
        answer.compressed_bytes,
        answer.content_bytes,
        tuple(_part(part) for part in answer.parts),
        tuple(_frame(frame) for frame in answer.frames),
    )


def batches(contents: Sequence[bytes], most_items: int = 256, most_bytes: int = 1 << 20) -> list[Sequence[bytes]]:
    """Return texts in runs that fit into calls of CompressMany, in their order."""
    runs: list[list[bytes]] = []
    size = 0
    for content in contents:
        if not runs or len(runs[-1]) == most_items or size + len(content) > most_bytes:
            runs.append([])
            size = 0
        runs[-1].append(content)
        size += len(content)
    return list(runs)


def _part(part: pb.PartInfo) -> PartInfo:
    return PartInfo(
        single_frame=part.single_frame,
        level=part.level,
        exact_version=part.exact_version if part.HasField("exact_version") else None,
        precision=part.precision if part.HasField("precision") else None,
        model_digest=one_line(part.model_digest) if part.HasField("model_digest") else None,
        vocabulary_digest=one_line(part.vocabulary_digest) if part.HasField("vocabulary_digest") else None,
        memory_version=part.memory_version if part.HasField("memory_version") else None,
        memory_entries=part.memory_entries if part.HasField("memory_entries") else None,
    )


def _frame(frame: pb.FrameInfo) -> FrameInfo:
    values = {field.name: getattr(frame, field.name) for field in dataclasses.fields(FrameInfo)}
    return FrameInfo(**values | {"charsets": tuple(frame.charsets)})
