"""The service put together: models, RPCs, what stands around them, and the ports; from the first call to the last."""

import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from speccompact.errors import ArgumentError, ServiceError
from speccompact.modelstore.loading import check_device
from speccompact.options import Options
from speccompact_grpc.attendance import Attendance
from speccompact_grpc.authentication import Authentication
from speccompact_grpc.binding import check_binding, join_address
from speccompact_grpc.callers import Caller
from speccompact_grpc.calllog import LOGGER, CallLog
from speccompact_grpc.callnumbers import CallNumbers
from speccompact_grpc.calls import Call, CallEnded
from speccompact_grpc.compression import CompressionServicer, ServiceLimits
from speccompact_grpc.failures import refusal
from speccompact_grpc.interception import Stage, StageInterceptor
from speccompact_grpc.jobservice import JobService
from speccompact_grpc.liveload import LiveLoad
from speccompact_grpc.observing import Observer, Several
from speccompact_grpc.serviceconfig import ServiceConfig
from speccompact_grpc.serviceengines import ServedModels, ServiceEngines
from speccompact_grpc.servicemetrics import MetricsPort, PrometheusMetrics
from speccompact_grpc.throttling import Throttle
from speccompact_grpc.tokens import Tokens, read_tokens
from speccompact_grpc.transportsecurity import server_credentials
from speccompact_grpc.v1 import speccompact_pb2 as pb
from speccompact_grpc.v1 import speccompact_pb2_grpc as pb_grpc
from speccompact_grpc.webanalysis import Found, analyse, restore
from speccompact_grpc.webport import WebPort

COMPRESSION: Final = pb.DESCRIPTOR.services_by_name["CompressionService"].full_name
JOBS: Final = pb.DESCRIPTOR.services_by_name["JobService"].full_name

_SPARE_THREADS: Final = 16
"""Beside those of the calls that are served: what is turned away takes one for a moment."""

_SWEEP_SECONDS: Final = 1.0
_PAGE: Final = "Page"
_PAGE_BYTES: Final = 1 << 16
_PAGE_SECONDS: Final = 300.0
_METADATA_BYTES: Final = 1 << 14
_KEEPALIVE_MS: Final = 60_000
_LOG = logging.getLogger(LOGGER)


class Server:
    """A service. Use: `start`, and `drain` when it is to end.

    Attributes:
        address: "HOST:PORT" on which it listens, the real port.
        metrics_port, web_port: where they are; None where there are none.
    """

    def __init__(self, config: ServiceConfig) -> None:
        """Load the models and take the ports; nothing is answered yet.

        Raises:
            ArgumentError: a setting makes no sense, or the address cannot be listened on.
            ModelError: a model is missing or damaged.
            OSError: a file cannot be read, or a port of HTTP is taken.
        """
        self._config = config
        credentials = server_credentials(config)
        host, port = check_binding(config.listen, "listen", insecure=config.insecure_bind, tls=credentials is not None)
        tokens = read_tokens(config.tokens) if config.tokens else None
        options = Options(
            threads=config.threads, device=config.device, drafter=config.drafter, drafter_file=config.drafter_file
        )
        check_device(options)
        load, metrics = LiveLoad(), PrometheusMetrics()
        observer = Several([load, metrics])
        self._attendance = Attendance(config.idle_seconds, config.max_call_seconds)
        with contextlib.ExitStack() as undo:
            stages: list[Stage] = [CallNumbers(observer), CallLog()]
            if config.traces:
                stages.append(_tracing(config.traces, undo))
            stages += [Authentication(tokens), Throttle(config.calls), self._attendance]
            self._threads = ThreadPoolExecutor(config.calls + _SPARE_THREADS, "call")
            self._server = grpc.server(
                self._threads, interceptors=[StageInterceptor(stages)], options=_channel_options(config)
            )
            self.address = _bind(self._server, host, port, credentials)
            undo.callback(self._server.stop, None)
            self.metrics_port = _metrics_port(config, metrics, undo)
            self._models = ServedModels.load(config.models, options, config.places, config.queue_slots, observer)
            undo.callback(self._models.close)
            self._page_calls: set[Call] = set()
            self.web_port = self._web_port(load, observer, tokens, undo)
            self._add_services(observer)
            self._closing = undo.pop_all()
        self._over = threading.Event()

    def start(self) -> None:
        """Answer from now on."""
        if self._jobs is not None:
            self._jobs.start()
        threading.Thread(target=self._sweep, name="sweep", daemon=True).start()
        self._server.start()
        for service in self._health_names():
            self._health.set(service, health_pb2.HealthCheckResponse.SERVING)
        fields = {
            "address": self.address,
            "tls": bool(self._config.tls_certificate),
            "models": [model.name for model in self._models],
            "metrics_port": self.metrics_port,
            "web_port": self.web_port,
        }
        _LOG.info("listening", extra={"fields": fields})

    def drain(self) -> None:
        """Take nothing new, let running calls and jobs come to an end within `drain_seconds`, then end."""
        _LOG.info("draining", extra={"fields": {"calls": len(self._attendance)}})
        self._health.enter_graceful_shutdown()
        stopped = self._server.stop(self._config.drain_seconds)
        if self._jobs is not None:
            self._jobs.stop(self._config.drain_seconds)
        stopped.wait()
        if self._jobs is not None:
            self._jobs.close()
        self._over.set()
        self._closing.close()
        self._threads.shutdown(wait=False)
        _LOG.info("stopped")

    def _add_services(self, observer: Observer) -> None:
        config, models = self._config, self._models
        limits = ServiceLimits(config.max_text_bytes, config.max_call_bytes)
        pb_grpc.add_CompressionServiceServicer_to_server(CompressionServicer(models, limits), self._server)
        self._jobs: JobService | None = None
        if config.jobs:
            self._jobs = JobService(
                config.jobs,
                config.jobs_roots,
                engines=lambda call: ServiceEngines(models, call),
                default_model=models.default.name,
                refusal=refusal,
                observer=observer,
                workers=config.jobs_workers,
            )
            pb_grpc.add_JobServiceServicer_to_server(self._jobs, self._server)
        self._health = health.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        if config.reflection:
            served = [COMPRESSION, *([JOBS] if self._jobs else []), health.SERVICE_NAME, reflection.SERVICE_NAME]
            reflection.enable_server_reflection(served, self._server)

    def _health_names(self) -> list[str]:
        """Return what can be asked after: the process, each service, each model."""
        models = [f"{COMPRESSION}/{model.name}" for model in self._models]
        return ["", COMPRESSION, *([JOBS] if self._jobs else []), *models]

    def _web_port(
        self, load: LiveLoad, observer: Observer, tokens: Tokens | None, undo: contextlib.ExitStack
    ) -> int | None:
        config, models = self._config, self._models
        if not config.web:
            return None
        host, port = check_binding(config.web, "web", insecure=config.insecure_bind, tls=False)
        most = min(_PAGE_BYTES, config.max_text_bytes)

        def analysed(content: bytes, level: int, caller: Caller) -> Found:
            with _page_call(observer, caller, self._page_calls) as call:
                return analyse(content, level, models.default.name, ServiceEngines(models, call))

        def restored(archive: bytes, caller: Caller) -> Found:
            with _page_call(observer, caller, self._page_calls) as call:
                return restore(archive, most, ServiceEngines(models, call))

        def give_up() -> None:
            for call in self._page_calls.copy():
                call.cancel()

        web = WebPort(host, port, analysed, restored, load, tokens, most)
        undo.callback(give_up)  # the models would else be kept until the last of them is done
        undo.callback(web.close)
        return web.port

    def _sweep(self) -> None:
        while not self._over.wait(_SWEEP_SECONDS):
            if cut := self._attendance.sweep():
                _LOG.warning("callers were silent for too long", extra={"fields": {"calls": cut}})


@contextlib.contextmanager
def _page_call(observer: Observer, caller: Caller, running: set[Call]) -> Iterator[Call]:
    """Yield a call for the pool that is among those running, and tell of it as of an RPC named "Page"."""
    began, code = time.monotonic(), "OK"
    call = Call(caller.name, caller.granted(0), began + _PAGE_SECONDS)
    running.add(call)
    observer.began(_PAGE)
    try:
        yield call
    except Exception as error:
        code = refusal(error).code.name
        if isinstance(error, CallEnded):
            raise ServiceError(str(error)) from error
        raise
    finally:
        running.discard(call)
        observer.ended(_PAGE, code, time.monotonic() - began)


def _channel_options(config: ServiceConfig) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", config.max_message_bytes),
        ("grpc.max_send_message_length", config.max_message_bytes),
        ("grpc.max_metadata_size", _METADATA_BYTES),
        ("grpc.so_reuseport", 0),  # a second service on the same port is a mistake, not a share of the load
        ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", _KEEPALIVE_MS // 3),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", _KEEPALIVE_MS // 6),
    ]


def _bind(server: grpc.Server, host: str, port: int, credentials: grpc.ServerCredentials | None) -> str:
    """Take the port, and return the address with its real number."""
    address = join_address(host, port)
    try:
        if credentials is None:
            bound = server.add_insecure_port(address)
        else:
            bound = server.add_secure_port(address, credentials)
    except RuntimeError:
        bound = 0
    if not bound:
        hint = "is it in use?" if credentials is None else "is it in use, or does the key not fit the certificate?"
        raise ArgumentError(f'listen is "{address}", which cannot be listened on; {hint}')
    return join_address(host, bound)


def _metrics_port(config: ServiceConfig, metrics: PrometheusMetrics, undo: contextlib.ExitStack) -> int | None:
    if not config.metrics:
        return None
    host, port = check_binding(config.metrics, "metrics", insecure=config.insecure_bind, tls=False)
    opened = MetricsPort(metrics, host, port)
    undo.callback(opened.close)
    return opened.port


def _tracing(url: str, undo: contextlib.ExitStack) -> Stage:
    try:
        from speccompact_grpc.tracing import tracing_to  # OpenTelemetry is optional
    except ImportError:
        raise ArgumentError('traces need OpenTelemetry; run: pip install "speccompact[otel]"') from None
    tracing = tracing_to(url)
    undo.callback(tracing.close)
    return tracing
