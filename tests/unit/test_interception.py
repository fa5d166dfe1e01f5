"""What stands around calls: ids, callers, limits, log lines, numbers, traces; against a real server on loopback."""

import hashlib
import io
import json
import logging
import queue
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.protobuf.wrappers_pb2 import BytesValue
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from speccompact_grpc.attendance import Attendance
from speccompact_grpc.authentication import Authentication
from speccompact_grpc.callers import HIGH, Caller
from speccompact_grpc.calllog import CallLog, set_up_logging
from speccompact_grpc.callnumbers import CallNumbers
from speccompact_grpc.interception import PassiveStage, ServedCall
from speccompact_grpc.observing import Silent
from speccompact_grpc.throttling import ByteBudget, Throttle
from speccompact_grpc.tokens import Tokens
from speccompact_grpc.tracing import Tracing
from tests.echo_server import SECONDS, echo_server

TOKENS = Tokens(
    {
        hashlib.sha256(b"free").digest(): Caller("free"),
        hashlib.sha256(b"slow").digest(): Caller("slow", HIGH, 0, 10, False),
        hashlib.sha256(b"single").digest(): Caller("single", HIGH, 1),
    }
)


class Recorder(PassiveStage):
    """Remembers what stages are told. Ends are awaited: a client has its answer before the server is done with it."""

    def __init__(self) -> None:
        self.began: list[ServedCall] = []
        self.ended: queue.Queue[ServedCall] = queue.Queue()

    def begin(self, call: ServedCall) -> None:
        self.began.append(call)

    def end(self, call: ServedCall) -> None:
        self.ended.put(call)

    def next_end(self) -> ServedCall:
        return self.ended.get(timeout=SECONDS)


def details(error: Any) -> dict[str, Any]:
    """Return the details of a status by the name of their type."""
    status = rpc_status.from_call(error)
    assert status is not None
    found: dict[str, Any] = {}
    for packed in status.details:
        for kind in (error_details_pb2.ErrorInfo, error_details_pb2.RetryInfo, error_details_pb2.BadRequest):
            if packed.Is(kind.DESCRIPTOR):
                found[kind.DESCRIPTOR.name] = kind.FromString(packed.value)
    return found


def failure(action: Any) -> Any:
    with pytest.raises(grpc.RpcError) as caught:
        action()
    return caught.value


def test_all_kinds_of_calls_pass_through_and_are_measured() -> None:
    recorder = Recorder()
    values = [BytesValue(value=b"ab"), BytesValue(value=b"cde")]
    with echo_server([recorder]) as client:
        assert client.echo(b"hello") == b"hello"
        assert client.kind("join")(iter(values), timeout=SECONDS).value == b"abcde"
        assert [part.value for part in client.kind("split")(values[0], timeout=SECONDS)] == [b"a", b"b"]
        assert [part.value for part in client.kind("chat")(iter(values), timeout=SECONDS)] == [b"ab", b"cde"]
        ended = {call.method: call for call in (recorder.next_end() for _ in range(4))}
    measured = {method: (call.code, call.received, call.sent, call.streams) for method, call in ended.items()}
    assert measured == {
        "echo": ("OK", 7, 7, False),
        "join": ("OK", 9, 7, True),
        "split": ("OK", 4, 6, False),
        "chat": ("OK", 9, 9, True),
    }


@pytest.mark.parametrize(("given", "kept"), [("my-id_1.2", True), ("no good", False), ("x" * 65, False), ("", False)])
def test_request_ids_come_back(given: str, kept: bool) -> None:
    with echo_server([]) as client:
        answer, call = client.kind("echo").with_call(
            BytesValue(value=b"who"), metadata=(("x-request-id", given),), timeout=SECONDS
        )
        named = dict(call.initial_metadata())["x-request-id"]
    assert (named == given) == kept
    assert answer.value.decode() == f"anonymous {named}"


def test_a_fault_is_told_to_the_log_and_not_to_the_caller(caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder()
    with echo_server([recorder]) as client:
        error = failure(lambda: client.echo(b"bug", x_request_id="case-1"))
        assert recorder.next_end().code == "INTERNAL"
        again = failure(lambda: list(client.kind("chat")(iter([BytesValue(value=b"bug")]), timeout=SECONDS)))
    assert error.code() == again.code() == grpc.StatusCode.INTERNAL
    assert "secret" not in error.details()
    assert "case-1" in error.details()
    assert details(error)["ErrorInfo"].reason == "INTERNAL"
    logged = [record for record in caplog.records if record.name == "speccompact.service"]
    assert [record.exc_info is not None for record in logged] == [True, True]


def test_a_refusal_has_its_details() -> None:
    with echo_server([]) as client:
        error = failure(lambda: client.echo(b"refuse"))
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    found = details(error)
    assert dict(found["ErrorInfo"].metadata) == {"number": "10"}
    assert found["BadRequest"].field_violations[0].field == "value"
    assert "RetryInfo" not in found


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        ({}, grpc.StatusCode.UNAUTHENTICATED),
        ({"authorization": "Basic free"}, grpc.StatusCode.UNAUTHENTICATED),
        ({"authorization": "Bearer wrong"}, grpc.StatusCode.UNAUTHENTICATED),
        ({"authorization": "Bearer free"}, None),
        ({"authorization": "bearer  free "}, None),
    ],
)
def test_tokens_open_the_door(metadata: dict[str, str], code: grpc.StatusCode | None) -> None:
    recorder = Recorder()
    with echo_server([recorder, Authentication(TOKENS)]) as client:
        if code is None:
            assert client.echo(b"who", **metadata).startswith(b"free ")
        else:
            assert failure(lambda: client.echo(b"who", **metadata)).code() == code
            assert recorder.next_end().code == code.name


def test_a_token_without_jobs_may_not_call_them() -> None:
    class Renamed(PassiveStage):
        def begin(self, call: ServedCall) -> None:
            call.method = "SubmitJob"

    with echo_server([Renamed(), Authentication(TOKENS)]) as client:
        assert client.echo(b"x", authorization="Bearer free") == b"x"
        error = failure(lambda: client.echo(b"x", authorization="Bearer slow"))
    assert error.code() == grpc.StatusCode.PERMISSION_DENIED


def test_a_budget_goes_into_debt_and_pays() -> None:
    budget = ByteBudget(10, 100.0)
    assert budget.wait(100.0) == 0
    budget.take(90)
    assert budget.wait(100.0) == pytest.approx(5.0)
    assert budget.wait(104.0) == pytest.approx(1.0)
    assert budget.wait(105.0) == 0
    assert budget.wait(1000.0) == 0
    budget.take(40)
    assert budget.wait(1000.0) == 0
    budget.take(1)
    assert budget.wait(1000.0) == pytest.approx(0.1)


def test_bytes_beyond_the_rate_are_refused_with_the_time_to_wait() -> None:
    with echo_server([Authentication(TOKENS), Throttle(8)]) as client:
        client.echo(b"x" * 1000, authorization="Bearer slow")
        error = failure(lambda: client.echo(b"x", authorization="Bearer slow"))
        client.echo(b"x", authorization="Bearer free")
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert details(error)["ErrorInfo"].reason == "RATE"
    assert 80 <= details(error)["RetryInfo"].retry_delay.seconds <= 100


def test_a_stream_beyond_the_rate_waits_until_its_caller_leaves() -> None:
    recorder = Recorder()
    with echo_server([recorder, Authentication(TOKENS), Throttle(8)]) as client:
        messages = iter([BytesValue(value=b"x" * 1000)] * 2)
        call = client.kind("chat")(messages, metadata=(("authorization", "Bearer slow"),), timeout=SECONDS)
        next(call)
        call.cancel()
        assert recorder.next_end().code == "CANCELLED"


@pytest.mark.parametrize(("token", "calls"), [("single", 8), ("free", 1)])
def test_calls_beyond_the_limit_are_refused(token: str, calls: int) -> None:
    metadata = (("authorization", f"Bearer {token}"),)
    recorder = Recorder()
    with echo_server([recorder, Authentication(TOKENS), Throttle(calls)]) as client:
        sent: queue.Queue[BytesValue | None] = queue.Queue()
        first = client.kind("chat")(iter(sent.get, None), metadata=metadata, timeout=SECONDS)
        sent.put(BytesValue(value=b"x"))
        next(first)
        error = failure(lambda: client.echo(b"x", authorization=f"Bearer {token}"))
        assert details(error)["ErrorInfo"].reason == "CONCURRENCY"
        assert details(error)["RetryInfo"].retry_delay.seconds == 1
        assert recorder.next_end().method == "echo"
        sent.put(None)
        assert list(first) == []
        assert recorder.next_end().method == "chat"
        assert client.echo(b"x", authorization=f"Bearer {token}") == b"x"


def test_silent_callers_are_cut_off_and_others_are_not() -> None:
    recorder, attendance = Recorder(), Attendance(10, 100)
    with echo_server([recorder, attendance]) as client:
        sent: queue.Queue[BytesValue | None] = queue.Queue()
        silent = client.kind("chat")(iter(sent.get, None), timeout=SECONDS)
        sent.put(BytesValue(value=b"x"))
        next(silent)
        (call,) = recorder.began
        while not call.reading_since:  # the handler is on its way to the next message
            pass
        assert len(attendance) == 1
        assert attendance.sweep(call.reading_since + 9) == 0
        assert attendance.sweep(call.reading_since + 11) == 1
        assert failure(lambda: next(silent)).code() == grpc.StatusCode.CANCELLED
        sent.put(None)
        assert recorder.next_end().code == "CANCELLED"
    assert len(attendance) == 0


def test_a_call_without_a_deadline_ends_some_time() -> None:
    recorder, attendance = Recorder(), Attendance(0, 100)
    with echo_server([recorder, attendance]) as client:
        sent: queue.Queue[BytesValue | None] = queue.Queue()
        endless = client.kind("chat")(iter(sent.get, None))
        sent.put(BytesValue(value=b"x"))
        next(endless)
        (call,) = recorder.began
        assert attendance.sweep(call.began + 99) == 0
        assert attendance.sweep(call.began + 101) == 1
        assert failure(lambda: next(endless)).code() == grpc.StatusCode.CANCELLED
        sent.put(None)


def test_a_watch_lasts_as_long_as_its_job() -> None:
    class Renamed(PassiveStage):
        def begin(self, call: ServedCall) -> None:
            call.method = "WatchJob"

    recorder, attendance = Recorder(), Attendance(0, 100)
    with echo_server([recorder, Renamed(), attendance]) as client:
        sent: queue.Queue[BytesValue | None] = queue.Queue()
        watch = client.kind("chat")(iter(sent.get, None))
        sent.put(BytesValue(value=b"x"))
        next(watch)
        assert attendance.sweep(recorder.began[0].began + 1e6) == 0
        sent.put(None)
        assert list(watch) == []


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    handler = set_up_logging("info", stream)
    yield stream
    logging.getLogger().removeHandler(handler)


def test_a_call_is_one_line_of_json(lines: io.StringIO) -> None:
    recorder = Recorder()
    with echo_server([recorder, CallLog(), Authentication(TOKENS)]) as client:
        client.echo(b"hello", authorization="Bearer free", x_request_id="r-1")
        recorder.next_end()
        failure(lambda: client.echo(b"hello", x_request_id="r-2"))
        recorder.next_end()
    first, second = (json.loads(line) for line in lines.getvalue().splitlines())
    assert first["time"].endswith("Z")
    assert first["seconds"] >= 0
    assert first["peer"].startswith("ipv4:127.0.0.1:")
    del first["time"], first["seconds"], first["peer"]
    assert first == {
        "level": "info", "event": "call", "request_id": "r-1", "rpc": "echo", "code": "OK", "caller": "free",
        "bytes_in": 7, "bytes_out": 7,
    }  # fmt: skip
    assert (second["request_id"], second["code"], second["caller"]) == ("r-2", "UNAUTHENTICATED", "anonymous")


def test_a_traceback_is_part_of_its_line(lines: io.StringIO) -> None:
    try:
        raise ValueError("zwölf")
    except ValueError:
        logging.getLogger("speccompact.service").exception("failed")
    (line,) = (json.loads(text) for text in lines.getvalue().splitlines())
    assert line["event"] == "failed"
    assert line["traceback"].splitlines()[-1] == "ValueError: zwölf"


def test_numbers_of_calls_reach_the_observer() -> None:
    class Ledger(Silent):
        def __init__(self) -> None:
            self.told: list[tuple[object, ...]] = []

        def began(self, method: str) -> None:
            self.told.append(("began", method))

        def received(self, method: str, count: int) -> None:
            self.told.append(("received", method, count))

        def sent(self, method: str, count: int) -> None:
            self.told.append(("sent", method, count))

        def ended(self, method: str, code: str, seconds: float) -> None:
            self.told.append(("ended", method, code))

    recorder, ledger = Recorder(), Ledger()
    with echo_server([recorder, CallNumbers(ledger)]) as client:
        client.echo(b"hello")
        recorder.next_end()
    assert ledger.told == [("began", "echo"), ("received", "echo", 7), ("sent", "echo", 7), ("ended", "echo", "OK")]


def test_a_span_belongs_to_the_trace_of_its_caller() -> None:
    exporter, recorder = InMemorySpanExporter(), Recorder()
    tracing = Tracing(SimpleSpanProcessor(exporter))
    with echo_server([recorder, tracing, Authentication(TOKENS)]) as client:
        client.echo(b"hi", authorization="Bearer free", traceparent=f"00-{'a' * 32}-{'b' * 16}-01", x_request_id="r-3")
        recorder.next_end()
        failure(lambda: client.echo(b"hi"))
        recorder.next_end()
    tracing.close()
    good, bad = exporter.get_finished_spans()
    assert good.context is not None
    assert good.parent is not None
    assert good.attributes is not None
    assert f"{good.context.trace_id:032x}" == "a" * 32
    assert f"{good.parent.span_id:016x}" == "b" * 16
    assert good.attributes["speccompact.request_id"] == "r-3"
    assert good.attributes["speccompact.caller"] == "free"
    assert good.status.is_ok
    assert bad.status.description == "UNAUTHENTICATED"
