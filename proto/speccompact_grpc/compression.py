"""CompressionService: from messages to the streams of the library and back. The engines of a call do the work."""

import contextlib
import io
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import BinaryIO, Final, cast

import grpc

from speccompact.api import compress_stream, decompress_stream, inspect
from speccompact.container.limits import Limits
from speccompact.errors import ArgumentError, LimitError
from speccompact.params import DEFAULT_LEVEL
from speccompact.streams.summary import Summary
from speccompact_grpc.callers import current_caller
from speccompact_grpc.calls import Call, CallEnded, time_left
from speccompact_grpc.failures import known
from speccompact_grpc.refusals import Refusal
from speccompact_grpc.serviceengines import ServedModels, ServiceEngines
from speccompact_grpc.streaming import RequestStream, run_streamed
from speccompact_grpc.summaries import error_message, inspect_message, summary_message
from speccompact_grpc.v1 import speccompact_pb2 as pb
from speccompact_grpc.v1.speccompact_pb2_grpc import CompressionServiceServicer

_MOST_ITEMS: Final = 256
"""Items of CompressMany, as the proto file says."""

_MANY_THREADS: Final = 32
"""Items of one CompressMany that are on the way at once."""


_MOST_FRAMES: Final = 1 << 15
"""Frames and parts that Inspect describes: they are held until the end, and the answer is one message."""


@dataclass(frozen=True, slots=True)
class ServiceLimits:
    """What a call may be.

    Attributes:
        text_bytes: content, and archive, of a call in one message; of CompressMany in sum no more than a message.
        call_bytes: content, and archive, of a stream; 0 for any number.
    """

    text_bytes: int = 1 << 20
    call_bytes: int = 1 << 30


class CompressionServicer(CompressionServiceServicer):
    """Serves calls from many threads at once."""

    def __init__(self, models: ServedModels, limits: ServiceLimits | None = None) -> None:
        """Bind what calls use."""
        self._models, self._limits = models, limits or ServiceLimits()

    def Compress(
        self, request_iterator: Iterator[pb.CompressRequest], context: grpc.ServicerContext
    ) -> Iterator[pb.CompressResponse]:
        """See the proto file."""
        with _serving(context) as began:
            source = RequestStream(request_iterator, _kind, self._limits.call_bytes)
            call = _call(context, source.start.priority)

            def work(target: BinaryIO) -> Summary:
                return self._compress(cast(BinaryIO, source), target, source.start.options, call)

            for made in run_streamed(call, work, "compress"):
                if isinstance(made, bytes):
                    yield pb.CompressResponse(data=made)
                else:
                    yield pb.CompressResponse(summary=_summary(made, call, began))

    def Decompress(
        self, request_iterator: Iterator[pb.DecompressRequest], context: grpc.ServicerContext
    ) -> Iterator[pb.DecompressResponse]:
        """See the proto file."""
        with _serving(context) as began:
            source = RequestStream(request_iterator, _kind, self._limits.call_bytes)
            start = source.start
            call = _call(context, start.priority)
            bounds = [bound for bound in (self._limits.call_bytes, start.max_content_bytes) if bound]
            limits = Limits(output_bytes=min(bounds, default=None))
            wanted = (start.byte_range.start, start.byte_range.length) if start.HasField("byte_range") else None

            def work(target: BinaryIO) -> Summary:
                return decompress_stream(
                    cast(BinaryIO, source),
                    target,
                    limits=limits,
                    engines=ServiceEngines(self._models, call),
                    salvage=start.salvage,
                    byte_range=wanted,
                )

            for made in run_streamed(call, work, "decompress"):
                if isinstance(made, bytes):
                    yield pb.DecompressResponse(data=made)
                else:
                    yield pb.DecompressResponse(summary=_summary(made, call, began))

    def CompressText(self, request: pb.CompressTextRequest, context: grpc.ServicerContext) -> pb.CompressTextResponse:
        """See the proto file."""
        with _serving(context) as began:
            self._check_size("content", len(request.content))
            return self._compress_text(request.content, request.options, _call(context, request.priority), began)

    def DecompressText(
        self, request: pb.DecompressTextRequest, context: grpc.ServicerContext
    ) -> pb.DecompressTextResponse:
        """See the proto file."""
        with _serving(context) as began:
            self._check_size("archive", len(request.archive))
            call, target = _call(context, request.priority), io.BytesIO()
            limits = Limits(output_bytes=self._limits.text_bytes)
            engines = ServiceEngines(self._models, call)
            summary = decompress_stream(io.BytesIO(request.archive), target, limits=limits, engines=engines)
            return pb.DecompressTextResponse(content=target.getvalue(), summary=_summary(summary, call, began))

    def CompressMany(self, request: pb.CompressManyRequest, context: grpc.ServicerContext) -> pb.CompressManyResponse:
        """See the proto file."""
        with _serving(context) as began:
            if not 1 <= len(request.contents) <= _MOST_ITEMS:
                raise Refusal(
                    grpc.StatusCode.INVALID_ARGUMENT,
                    "ARGUMENT",
                    f"contents has {len(request.contents)} items; 1 to {_MOST_ITEMS} are possible",
                    field="contents",
                )
            call = _call(context, request.priority)
            with ThreadPoolExecutor(min(_MANY_THREADS, len(request.contents)), "many") as threads:
                made = threads.map(lambda content: self._item(content, request.options, call, began), request.contents)
                return pb.CompressManyResponse(results=_all(made, call))

    def Inspect(
        self, request_iterator: Iterator[pb.InspectRequest], context: grpc.ServicerContext
    ) -> pb.InspectResponse:
        """See the proto file."""
        with _serving(context):
            source = RequestStream(request_iterator, _kind, self._limits.call_bytes)
            info = inspect(cast(BinaryIO, source), limits=Limits(frames=_MOST_FRAMES))
            return inspect_message(info, include_frames=source.start.include_frames)

    def ListModels(self, request: pb.ListModelsRequest, context: grpc.ServicerContext) -> pb.ListModelsResponse:
        """See the proto file."""
        models = [
            pb.Model(
                name=model.name,
                digest=model.pool.target.digest.hex(),
                is_default=model is self._models.default,
                loaded=True,
                positions=model.pool.target.positions,
                vocabulary=model.pool.target.vocabulary.size,
            )
            for model in self._models
        ]
        return pb.ListModelsResponse(models=sorted(models, key=lambda model: model.name))

    def _compress(self, source: BinaryIO, target: BinaryIO, options: pb.CompressOptions, call: Call) -> Summary:
        return compress_stream(
            source,
            target,
            level=options.level or DEFAULT_LEVEL,
            model=self._models.named(options.model).name,
            slot_tokens=options.slot_tokens if options.HasField("slot_tokens") else None,
            group_frames=options.group_frames if options.HasField("group_frames") else None,
            engines=ServiceEngines(self._models, call),
        )

    def _compress_text(
        self, content: bytes, options: pb.CompressOptions, call: Call, began: float
    ) -> pb.CompressTextResponse:
        target = io.BytesIO()
        summary = self._compress(io.BytesIO(content), target, options, call)
        return pb.CompressTextResponse(archive=target.getvalue(), summary=_summary(summary, call, began))

    def _item(self, content: bytes, options: pb.CompressOptions, call: Call, began: float) -> pb.CompressResult:
        """Return what becomes of an item of CompressMany; what ends a call ends all of them."""
        try:
            call.check()
            self._check_size("an item", len(content))
            return pb.CompressResult(compressed=self._compress_text(content, options, call, began))
        except (CallEnded, ArgumentError):
            raise
        except Exception as error:
            refused = known(error)
            if refused is None:
                raise
            return pb.CompressResult(error=error_message(refused))

    def _check_size(self, name: str, size: int) -> None:
        if size > self._limits.text_bytes:
            raise LimitError(
                f"{name} has {size} bytes; the service takes {self._limits.text_bytes} in one message, more as a stream"
            )


def _all(made: Iterator[pb.CompressResult], call: Call) -> Sequence[pb.CompressResult]:
    """Return all results; when one raises, the others are let go of at once."""
    try:
        return list(made)
    except BaseException:
        call.cancel()
        raise


@contextlib.contextmanager
def _serving(context: grpc.ServicerContext) -> Iterator[float]:
    """Yield the time at which a call begins; errors of the library become refusals."""
    try:
        yield time.monotonic()
    except Refusal:
        raise
    except Exception as error:
        refused = known(error)
        if refused is None:
            raise
        raise refused from error


def _call(context: grpc.ServicerContext, priority: int) -> Call:
    """Return a call for the pool, that ends with the one of gRPC."""
    caller, left = current_caller(), time_left(context)
    deadline = None if left is None else time.monotonic() + left
    call = Call(caller.name, caller.granted(priority), deadline)
    if not context.add_callback(call.cancel):
        call.cancel()
    return call


def _summary(summary: Summary, call: Call, began: float) -> pb.Summary:
    return summary_message(summary, time.monotonic() - began, call.queue_s)


def _kind(message: object) -> str | None:
    """Return which payload a message of a stream holds."""
    assert isinstance(message, pb.CompressRequest | pb.DecompressRequest | pb.InspectRequest)
    return message.WhichOneof("payload")
