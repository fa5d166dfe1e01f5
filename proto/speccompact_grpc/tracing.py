"""Traces by OpenTelemetry, through the extra `otel`: one span for each call, part of the caller's trace where it sends
one in `traceparent`.
"""

from typing import Final

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from speccompact_grpc.interception import PassiveStage, ServedCall

_SERVICE: Final = "speccompact.v1"


class Tracing(PassiveStage):
    """Makes a span of every call, and sends it away in batches."""

    def __init__(self, processor: SpanProcessor) -> None:
        """Bind what takes the spans."""
        self._provider = TracerProvider(resource=Resource.create({"service.name": "speccompact"}))
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("speccompact")
        self._propagator = TraceContextTextMapPropagator()
        self._spans: dict[ServedCall, trace.Span] = {}

    def begin(self, call: ServedCall) -> None:
        """Start the span."""
        parent = self._propagator.extract(dict(call.metadata))
        self._spans[call] = self._tracer.start_span(
            f"{_SERVICE}/{call.method}",
            parent,
            trace.SpanKind.SERVER,
            {
                "rpc.system": "grpc",
                "rpc.service": _SERVICE,
                "rpc.method": call.method,
                "speccompact.request_id": call.request_id,
            },
        )

    def end(self, call: ServedCall) -> None:
        """End the span, with what has become of the call."""
        span = self._spans.pop(call)
        span.set_attributes(
            {
                "speccompact.caller": call.caller.name,
                "speccompact.bytes_in": call.received,
                "speccompact.bytes_out": call.sent,
                "rpc.grpc.status_code": call.code,
            }
        )
        if call.code != "OK":
            span.set_status(trace.StatusCode.ERROR, call.code)
        span.end()

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()


def tracing_to(url: str) -> Tracing:
    """Return tracing to an OTLP/HTTP collector."""
    return Tracing(BatchSpanProcessor(OTLPSpanExporter(endpoint=url)))
