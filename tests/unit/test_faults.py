"""Status codes and their details, as errors of the library; and what a connection may be."""

import grpc
import pytest
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from speccompact import errors
from speccompact.client import Connection
from speccompact.client.connecting import call_metadata
from speccompact.client.conversion import from_inspection, from_summary
from speccompact.client.exchanges import Exchange
from speccompact.client.faults import DETAILS_KEY, Fault, item_error, one_line, read_fault, to_error
from speccompact.client.plans import inspect_plan, inspected
from speccompact.errors import ArgumentError, DamagedError, ServiceError, SpecCompactError
from speccompact_grpc.v1 import speccompact_pb2 as pb


class Ended(grpc.RpcError):
    """A call that has ended, with details as they come over the network."""

    def __init__(self, details: bytes) -> None:
        self._details = details

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.RESOURCE_EXHAUSTED

    def details(self) -> None:
        return None

    def trailing_metadata(self) -> tuple[tuple[str, str | bytes], ...]:  # type: ignore[override]
        return (("other", "x"), (DETAILS_KEY, self._details))


def packed(*details: error_details_pb2.ErrorInfo | error_details_pb2.RetryInfo) -> bytes:
    status = status_pb2.Status(code=8)
    for detail in details:
        one = any_pb2.Any()
        one.Pack(detail)
        status.details.append(one)
    return bytes(status.SerializeToString())


def info(domain: str = "speccompact", number: str = "40") -> error_details_pb2.ErrorInfo:
    return error_details_pb2.ErrorInfo(reason="LIMIT", domain=domain, metadata={"number": number})


def retry(seconds: int, nanos: int = 0) -> error_details_pb2.RetryInfo:
    detail = error_details_pb2.RetryInfo()
    detail.retry_delay.seconds, detail.retry_delay.nanos = seconds, nanos
    return detail


def test_details_are_read() -> None:
    code = grpc.StatusCode.RESOURCE_EXHAUSTED
    assert read_fault(Ended(packed(info(), retry(1, 500_000_000)))) == Fault(code, code.name, "LIMIT", 40, 1.5)
    assert read_fault(Ended(packed(info("elsewhere")))) == Fault(code, code.name)


@pytest.mark.parametrize("details", [b"", b"\xff\xff\xff", b"\x1a\x03abc", packed()[:1]])
def test_details_that_are_none_do_no_harm(details: bytes) -> None:
    assert read_fault(Ended(details)).number == 0


@pytest.mark.parametrize("number", ["", "-1", "4.5", "٤", "9" * 5000])
def test_numbers_that_are_none(number: str) -> None:
    assert read_fault(Ended(packed(info(number=number)))).number == 0


@pytest.mark.parametrize(("seconds", "wait"), [(-5, 0.0), (10**11, 3600.0)])
def test_delays_are_bounded(seconds: int, wait: float) -> None:
    assert read_fault(Ended(packed(retry(seconds)))).retry_after_s == wait


def library_errors() -> list[type[SpecCompactError]]:
    found = [
        value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, SpecCompactError)
    ]
    return [error for error in found if error is not SpecCompactError]


@pytest.mark.parametrize("kind", library_errors())
def test_an_error_of_the_library_comes_back_as_it_was(kind: type[SpecCompactError]) -> None:
    error = to_error(Fault(grpc.StatusCode.UNKNOWN, "what happened", "X", kind.number), "here:1")
    assert (type(error), str(error)) == (kind, "what happened")


@pytest.mark.parametrize("code", grpc.StatusCode)
def test_every_code_is_some_error(code: grpc.StatusCode) -> None:
    assert isinstance(to_error(Fault(code, "text"), "here:1"), SpecCompactError)


def test_errors_in_messages() -> None:
    assert type(item_error(15, "x", "DAMAGED", 24, "here:1")) is DamagedError
    assert type(item_error(999, "x", "", 0, "here:1")) is ServiceError


def test_what_a_service_says_is_safe_to_print() -> None:
    hostile = "a\x1b[2J\nb"
    summary = from_summary(
        pb.Summary(lost=[pb.LostRange(reason=hostile)], notes=[hostile], drafts=[pb.DraftStats(drafter=hostile)])
    )
    info = from_inspection(pb.InspectResponse(parts=[pb.PartInfo(model_digest=hostile)]))
    found = [summary.lost[0].reason, *summary.effort.notes, *summary.effort.drafts, *info.model_digests]
    assert found == ["a\\x1b[2J b"] * 4
    with pytest.raises(ServiceError, match="without parts"):
        inspected(pb.InspectResponse(), Exchange(inspect_plan()))


def test_foreign_text_is_safe_to_print() -> None:
    assert one_line("a\n\tb\x1b[31m\u202e") == "a b\\x1b[31m\\u202e"
    assert len(one_line("x" * 10**6)) == 2000


@pytest.mark.parametrize("address", ["localhost:1", "127.0.0.1:65535", "[::1]:50051", "example.org:443"])
def test_addresses(address: str) -> None:
    metadata = dict(call_metadata(Connection(address)))
    assert list(metadata) == ["x-request-id"]
    assert metadata != dict(call_metadata(Connection(address)))


@pytest.mark.parametrize(
    "address",
    ["", "host", ":1", "host:", "host:0", "host:65536", "host:1x", "::1:50051", "a b:1", "unix:/a:1", "h\n:1"],
)
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(ArgumentError, match=r"^address is"):
        Connection(address)


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"token": "secret"}, "token would go over the network"),
        ({"token": "a\nb", "tls": True}, "token has characters"),
        ({"certificate": b"x", "tls": True}, "certificate and key"),
        ({"authorities": b"x"}, "tls is off"),
    ],
)
def test_papers_that_make_no_sense(values: dict[str, object], word: str) -> None:
    with pytest.raises(ArgumentError, match=word):
        Connection("example.org:443", **values)  # type: ignore[arg-type]
