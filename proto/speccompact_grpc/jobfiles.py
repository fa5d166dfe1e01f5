"""Jobs that make one file of another: begun again if they were killed, and never half there."""

import os
from collections.abc import Callable
from typing import BinaryIO

from speccompact.api import compress_stream, decompress_stream
from speccompact.streams.engine import Engines
from speccompact.streams.summary import Progress, Summary
from speccompact_grpc.jobcontrol import JobControl
from speccompact_grpc.joboutput import JobOutput
from speccompact_grpc.jobrecords import JobRecord
from speccompact_grpc.jobrequests import JobRequest
from speccompact_grpc.v1 import speccompact_pb2 as pb

Code = Callable[[BinaryIO, BinaryIO, Progress], Summary]


def compress_file(record: JobRecord, request: JobRequest, control: JobControl, engines: Engines) -> pb.JobResult:
    """Compress a file. Raises what `speccompact.compress_stream` does, and JobInterrupted."""
    coding = request.coding
    assert coding is not None

    def code(source: BinaryIO, target: BinaryIO, tick: Progress) -> Summary:
        return compress_stream(
            source,
            target,
            level=coding.level,
            model=coding.model,
            slot_tokens=coding.slot_tokens,
            group_frames=coding.group_frames,
            engines=engines,
            progress=tick,
        )

    return _make(record, request, control, code)


def decompress_file(record: JobRecord, request: JobRequest, control: JobControl, engines: Engines) -> pb.JobResult:
    """Decompress a file. Raises what `speccompact.decompress_stream` does, and JobInterrupted."""

    def code(source: BinaryIO, target: BinaryIO, tick: Progress) -> Summary:
        return decompress_stream(source, target, engines=engines, progress=tick)

    return _make(record, request, control, code)


def _make(record: JobRecord, request: JobRequest, control: JobControl, code: Code) -> pb.JobResult:
    assert request.output is not None
    with os.fdopen(request.sources[0].open_file(), "rb") as source:
        status = os.fstat(source.fileno())
        control.advance(total_bytes=status.st_size)
        with JobOutput(request.output, record.id, force=request.force, like=status) as output:
            summary = code(source, output.stream, control.advance)
            result = pb.JobResult(content_bytes=summary.content_bytes, compressed_bytes=summary.compressed_bytes)
            control.mark(output.seal(), result.SerializeToString())
            output.commit()
    return result
