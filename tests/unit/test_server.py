"""The service put together: health, reflection, tokens, TLS, limits, ports, and an orderly end."""

import contextlib
import gzip
import hashlib
import http.server
import json
import queue
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from speccompact.api import compress
from speccompact.errors import ArgumentError, ModelMissingError
from speccompact_grpc.server import COMPRESSION, JOBS, Server
from speccompact_grpc.serviceconfig import ServiceConfig
from speccompact_grpc.serviceengines import ServiceEngines
from speccompact_grpc.v1 import speccompact_pb2 as pb
from speccompact_grpc.v1.speccompact_pb2_grpc import CompressionServiceStub, JobServiceStub
from tests.certificates import Authority
from tests.tiny_model import TINY_EXACT, babble

SECONDS = 60.0
SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING


def config(**settings: Any) -> ServiceConfig:
    common: dict[str, Any] = {"listen": "127.0.0.1:0", "models": (str(TINY_EXACT),), "threads": 1, "drafter": "suffix"}
    return ServiceConfig(**common | settings)


@contextlib.contextmanager
def running(**settings: Any) -> Iterator[Server]:
    server = Server(config(**settings))
    server.start()
    try:
        yield server
    finally:
        server.drain()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("service")
    (folder / "data").mkdir()
    with running(
        jobs=str(folder / "jobs.sqlite"),
        jobs_roots=(f"data={folder / 'data'}",),
        metrics="127.0.0.1:0",
        web="127.0.0.1:0",
        max_message_bytes=1 << 17,
        max_text_bytes=5000,
    ) as made:
        yield made


@pytest.fixture(scope="module")
def channel(server: Server) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.address) as made:
        yield made


def checked(channel: grpc.Channel, service: str) -> int:
    stub: Any = health_pb2_grpc.HealthStub(channel)  # its methods are not in the typed stubs
    status: int = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=SECONDS).status
    return status


def code_of(action: Any) -> grpc.StatusCode:
    with pytest.raises(grpc.RpcError) as caught:
        action()
    error: Any = caught.value
    code: grpc.StatusCode = error.code()
    return code


def test_each_service_and_each_model_is_healthy(channel: grpc.Channel) -> None:
    for name in ("", COMPRESSION, JOBS, f"{COMPRESSION}/tiny.exact"):
        assert checked(channel, name) == SERVING
    assert code_of(lambda: checked(channel, f"{COMPRESSION}/other")) == grpc.StatusCode.NOT_FOUND


def test_reflection_tells_which_services_there_are(channel: grpc.Channel) -> None:
    database = ProtoReflectionDescriptorDatabase(channel)
    assert {COMPRESSION, JOBS, "grpc.health.v1.Health"} <= set(database.get_services())
    found = database.FindFileContainingSymbol(COMPRESSION)
    assert found.name == pb.DESCRIPTOR.name


def test_bytes_are_those_of_the_library_and_the_summary_fits(channel: grpc.Channel) -> None:
    content = babble(3000).encode()
    answer = CompressionServiceStub(channel).CompressText(
        pb.CompressTextRequest(content=content, options=pb.CompressOptions(level=1)), timeout=SECONDS
    )
    assert answer.archive == compress(content, level=1, model=str(TINY_EXACT))
    assert answer.summary.content_bytes == len(content)


def test_jobs_are_served_where_they_are_configured(channel: grpc.Channel) -> None:
    assert list(JobServiceStub(channel).ListJobs(pb.ListJobsRequest(), timeout=SECONDS).jobs) == []


def test_what_is_too_large_is_refused(channel: grpc.Channel) -> None:
    stub = CompressionServiceStub(channel)
    for size in (5001, 1 << 17):
        request = pb.CompressTextRequest(content=b"x" * size)
        assert code_of(lambda: stub.CompressText(request, timeout=SECONDS)) == grpc.StatusCode.RESOURCE_EXHAUSTED  # noqa: B023


def test_numbers_and_the_page_are_on_ports_of_their_own(server: Server, channel: grpc.Channel) -> None:
    CompressionServiceStub(channel).ListModels(pb.ListModelsRequest(), timeout=SECONDS)
    assert server.metrics_port != server.web_port
    with urllib.request.urlopen(f"http://127.0.0.1:{server.metrics_port}/metrics", timeout=SECONDS) as answer:
        assert b'speccompact_calls_running{rpc="ListModels"}' in answer.read()
    with urllib.request.urlopen(f"http://127.0.0.1:{server.web_port}/", timeout=SECONDS) as answer:
        assert b"<h1>SpecCompact</h1>" in answer.read()
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.web_port}/api/analyse?level=1", babble(2000).encode(), method="POST"
    )
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
        found = json.loads(answer.read())
    assert found["model"] == "tiny.exact"
    assert "".join(text for text, _ in found["pieces"]) == babble(2000)


def test_a_port_that_is_taken_is_told(server: Server) -> None:
    with pytest.raises(ArgumentError, match="is it in use"):
        Server(config(listen=server.address))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"listen": "0.0.0.0:0"}, "listen is .* without TLS"),
        ({"metrics": "0.0.0.0:0"}, "metrics is .* without TLS"),
        ({"web": "[::]:0"}, "web is .* without TLS"),
        ({"device": "tpu"}, "device"),
        ({"drafter": "oracle"}, "drafter"),
        ({"models": ()}, "models is empty"),
    ],
)
def test_settings_that_make_no_sense_are_told_before_anything_listens(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        Server(config(**settings))


def test_a_missing_model_is_told(tiny_home: Path) -> None:
    with pytest.raises(ModelMissingError):
        Server(config(models=("nowhere",)))


def test_tokens_are_asked_for_but_not_for_health(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(f'[me]\nsha256 = "{hashlib.sha256(b"open").hexdigest()}"\njobs = false\n')
    with running(tokens=str(tokens)) as server, grpc.insecure_channel(server.address) as channel:
        stub = CompressionServiceStub(channel)
        assert checked(channel, "") == SERVING
        assert (
            code_of(lambda: stub.ListModels(pb.ListModelsRequest(), timeout=SECONDS)) == grpc.StatusCode.UNAUTHENTICATED
        )
        metadata = (("authorization", "Bearer open"),)
        assert stub.ListModels(pb.ListModelsRequest(), timeout=SECONDS, metadata=metadata).models
        jobs = JobServiceStub(channel)
        assert (
            code_of(lambda: jobs.ListJobs(pb.ListJobsRequest(), timeout=SECONDS, metadata=metadata))
            == grpc.StatusCode.UNIMPLEMENTED
        )
        database = ProtoReflectionDescriptorDatabase(channel)
        assert code_of(lambda: list(database.get_services())) == grpc.StatusCode.UNAUTHENTICATED


def test_tls_and_mutual_tls(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    identity, client, foreign = authority.identity("server"), authority.identity("client"), stranger.identity("client")
    roots = authority.certificate.read_bytes()
    settings = {
        "tls_certificate": str(identity.certificate),
        "tls_key": str(identity.key),
        "tls_client_ca": str(authority.certificate),
    }
    with running(**settings) as server:
        for known in (client, foreign, None):
            pair = (known.key.read_bytes(), known.certificate.read_bytes()) if known else (None, None)
            with grpc.secure_channel(server.address, grpc.ssl_channel_credentials(roots, *pair)) as channel:
                if known is client:
                    assert checked(channel, "") == SERVING
                else:
                    assert code_of(lambda: checked(channel, "")) == grpc.StatusCode.UNAVAILABLE
        with grpc.insecure_channel(server.address) as channel:
            assert code_of(lambda: checked(channel, "")) == grpc.StatusCode.UNAVAILABLE
    del settings["tls_client_ca"]
    with (
        running(**settings) as server,
        grpc.secure_channel(server.address, grpc.ssl_channel_credentials(roots)) as channel,
    ):
        assert checked(channel, "") == SERVING


def test_certificates_that_are_none_are_told(tmp_path: Path) -> None:
    nothing = tmp_path / "nothing.pem"
    nothing.write_text("nothing")
    with pytest.raises(ArgumentError, match=r"tls_certificate is nothing\.pem, which holds no certificate"):
        Server(config(tls_certificate=str(nothing), tls_key=str(nothing)))
    authority = Authority(tmp_path)
    one, other = authority.identity("one"), authority.identity("other")
    with pytest.raises(ArgumentError, match="does the key not fit the certificate"):
        Server(config(tls_certificate=str(one.certificate), tls_key=str(other.key)))
    with pytest.raises(FileNotFoundError):
        Server(config(tls_certificate=str(tmp_path / "absent"), tls_key=str(nothing)))


def test_traces_go_to_a_collector() -> None:
    spans: queue.Queue[tuple[str, bytes]] = queue.Queue()

    class Collector(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            spans.put((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None: ...

    with http.server.HTTPServer(("127.0.0.1", 0), Collector) as collector:
        threading.Thread(target=collector.serve_forever, args=(0.05,), daemon=True).start()
        url = f"http://127.0.0.1:{collector.server_port}/v1/traces"
        with running(traces=url) as server, grpc.insecure_channel(server.address) as channel:
            CompressionServiceStub(channel).ListModels(
                pb.ListModelsRequest(), timeout=SECONDS, metadata=(("x-request-id", "traced-1"),)
            )
        path, body = spans.get(timeout=SECONDS)  # sent at the end of the service, at the latest
        collector.shutdown()
    assert path == "/v1/traces"
    text = gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body
    assert b"speccompact.v1/ListModels" in text
    assert b"traced-1" in text


def test_draining_lets_running_calls_end_and_takes_no_new_ones() -> None:
    server = Server(config(drain_seconds=SECONDS))
    server.start()
    with grpc.insecure_channel(server.address) as channel:
        stub = CompressionServiceStub(channel)
        states: queue.Queue[int] = queue.Queue()
        health: Any = health_pb2_grpc.HealthStub(channel)
        watch = health.Watch(health_pb2.HealthCheckRequest(service=COMPRESSION))
        threading.Thread(target=lambda: states.put_nowait(next(watch).status), daemon=True).start()
        assert states.get(timeout=SECONDS) == SERVING
        sent: queue.Queue[pb.CompressRequest | None] = queue.Queue()
        answers = stub.Compress(iter(sent.get, None), timeout=SECONDS)
        sent.put(pb.CompressRequest(start=pb.CompressStart(options=pb.CompressOptions(level=1))))
        while not len(server._attendance):  # the call is on its way
            pass
        draining = threading.Thread(target=server.drain)
        draining.start()
        assert next(watch).status == NOT_SERVING
        watch.cancel()
        sent.put(pb.CompressRequest(data=b"the last words"))
        sent.put(None)
        *_, last = answers
        assert last.summary.content_bytes == 14
        draining.join(SECONDS)
        assert not draining.is_alive()
        assert code_of(lambda: stub.ListModels(pb.ListModelsRequest(), timeout=SECONDS)) == grpc.StatusCode.UNAVAILABLE


def test_draining_does_not_wait_for_those_who_never_end() -> None:
    server = Server(config(drain_seconds=0.1))
    server.start()
    with grpc.insecure_channel(server.address) as channel:
        sent: queue.Queue[pb.CompressRequest | None] = queue.Queue()
        answers = CompressionServiceStub(channel).Compress(iter(sent.get, None), timeout=SECONDS)
        sent.put(pb.CompressRequest(start=pb.CompressStart()))
        while not len(server._attendance):
            pass
        server.drain()
        assert code_of(lambda: list(answers)) in (grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE)
        sent.put(None)


def test_draining_ends_what_the_page_is_at(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = threading.Event(), threading.Event()

    def endless(_content: bytes, _level: int, _model: str, engines: ServiceEngines) -> dict[str, Any]:
        begun.set()
        try:
            while True:
                engines._call.check()
        finally:
            ended.set()

    monkeypatch.setattr("speccompact_grpc.server.analyse", endless)
    with running(web="127.0.0.1:0", drain_seconds=0.1) as server:
        request = urllib.request.Request(f"http://127.0.0.1:{server.web_port}/api/analyse", b"x", method="POST")

        def ask() -> None:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(request, timeout=SECONDS)

        asking = threading.Thread(target=ask)
        asking.start()
        assert begun.wait(SECONDS)
    assert ended.wait(SECONDS)
    asking.join(SECONDS)
