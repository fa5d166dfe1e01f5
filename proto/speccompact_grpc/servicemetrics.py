"""Numbers for Prometheus, and the port on which it fetches them."""

from collections.abc import Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from speccompact_grpc.observing import Pass

_CALL_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_PASS_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
_SHARES: Final = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1)
_TOKENS: Final = (1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8)


class PrometheusMetrics:
    """An observer that counts for Prometheus, in a registry of its own.

    Tokens per second are `rate(speccompact_tokens_total[1m])`; tokens per pass of a slot while decompressing are
    `rate(speccompact_tokens_total{way="decompress"}[1m]) / rate(speccompact_slot_passes_total{way="decompress"}[1m])`.
    """

    def __init__(self) -> None:
        """Make all metrics, so that they are there from the first fetch on."""
        self.registry = registry = CollectorRegistry()
        self._calls = Counter("speccompact_calls", "Calls that are over.", ("rpc", "code"), registry=registry)
        self._running = Gauge("speccompact_calls_running", "Calls under way.", ("rpc",), registry=registry)
        self._seconds = Histogram(
            "speccompact_call_seconds", "Time of calls.", ("rpc",), buckets=_CALL_SECONDS, registry=registry
        )
        self._in = Counter("speccompact_received_bytes", "Bytes of requests.", ("rpc",), registry=registry)
        self._out = Counter("speccompact_sent_bytes", "Bytes of responses.", ("rpc",), registry=registry)
        self._waiting = Gauge("speccompact_queue_slots", "Slots that wait for a place.", ("model",), registry=registry)
        self._places = Gauge("speccompact_batch_places", "Places of the batch.", ("model",), registry=registry)
        self._slots = Gauge("speccompact_batch_slots", "Slots in the last pass.", ("model",), registry=registry)
        self._fill = Histogram(
            "speccompact_batch_fill", "Share of the places that a pass used.", ("model",), buckets=_SHARES,
            registry=registry,
        )  # fmt: skip
        self._pass_seconds = Histogram(
            "speccompact_pass_seconds", "Time of target passes.", ("model",), buckets=_PASS_SECONDS, registry=registry
        )
        self._tokens = Counter("speccompact_tokens", "Tokens coded.", ("model", "way"), registry=registry)
        self._slot_passes = Counter(
            "speccompact_slot_passes", "Passes, once for each slot in them.", ("model", "way"), registry=registry
        )
        self._per_pass = Histogram(
            "speccompact_tokens_per_pass", "Tokens of a slot in a pass while decompressing.", ("model",),
            buckets=_TOKENS, registry=registry,
        )  # fmt: skip
        self._drafted = Counter("speccompact_drafted_tokens", "Tokens proposed.", ("model",), registry=registry)
        self._accepted = Counter("speccompact_accepted_tokens", "Proposed and right.", ("model",), registry=registry)
        self._jobs = Gauge("speccompact_jobs", "Jobs on disk.", ("state",), registry=registry)

    def began(self, method: str) -> None:
        """See `Observer`."""
        self._running.labels(method).inc()

    def ended(self, method: str, code: str, seconds: float) -> None:
        """See `Observer`."""
        self._running.labels(method).dec()
        self._calls.labels(method, code).inc()
        self._seconds.labels(method).observe(seconds)

    def received(self, method: str, count: int) -> None:
        """See `Observer`."""
        self._in.labels(method).inc(count)

    def sent(self, method: str, count: int) -> None:
        """See `Observer`."""
        self._out.labels(method).inc(count)

    def waiting(self, model: str, slots: int) -> None:
        """See `Observer`."""
        self._waiting.labels(model).set(slots)

    def passed(self, done: Pass) -> None:
        """See `Observer`."""
        model = done.model
        self._places.labels(model).set(done.places)
        self._slots.labels(model).set(done.slots)
        self._fill.labels(model).observe(done.slots / done.places)
        self._pass_seconds.labels(model).observe(done.seconds)
        self._tokens.labels(model, "compress").inc(done.encoded)
        self._tokens.labels(model, "decompress").inc(done.decoded)
        self._slot_passes.labels(model, "compress").inc(done.slots - done.decoding)
        self._slot_passes.labels(model, "decompress").inc(done.decoding)
        if done.decoding:
            self._per_pass.labels(model).observe(done.decoded / done.decoding)
        self._drafted.labels(model).inc(done.drafted)
        self._accepted.labels(model).inc(done.accepted)

    def jobs(self, states: Mapping[str, int]) -> None:
        """See `Observer`."""
        for state, count in states.items():
            self._jobs.labels(state).set(count)


class MetricsPort:
    """The port on which the numbers are fetched."""

    def __init__(self, metrics: PrometheusMetrics, host: str, port: int) -> None:
        """Listen, and answer in a thread. Raises OSError where the address is taken."""
        self._server, self._thread = start_http_server(port, host, metrics.registry)
        self.port: int = self._server.server_port

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
