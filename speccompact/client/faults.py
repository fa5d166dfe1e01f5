"""What went wrong with a call: from status codes and their details to errors of the library."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, cast

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from speccompact.errors import (
    ArgumentError,
    JobError,
    LimitError,
    ServiceBusyError,
    ServiceDeniedError,
    ServiceError,
    ServiceTimeoutError,
    ServiceUnavailableError,
    SpecCompactError,
)

DETAILS_KEY: Final = "grpc-status-details-bin"
_DOMAIN: Final = "speccompact"
_LONGEST_MESSAGE: Final = 2000
_LONGEST_DELAY_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a call ended.

    Attributes:
        code: status code.
        message: of the service or of gRPC, on one line and safe to print.
        reason: as in google.rpc.ErrorInfo; empty where the error is not the service's own.
        number: of the library's error that the service met; 0 where it was none.
        retry_after_s: seconds to wait before a repetition can help; None where the service does not ask for one.
    """

    code: grpc.StatusCode
    message: str
    reason: str = ""
    number: int = 0
    retry_after_s: float | None = None


class _Ended(Protocol):
    """What errors of calls can tell, for threads and for asyncio alike."""

    def code(self) -> grpc.StatusCode: ...

    def details(self) -> str | None: ...

    def trailing_metadata(self) -> "tuple[tuple[str, str | bytes], ...] | None": ...


def read_fault(error: grpc.RpcError) -> Fault:
    """Return what an error of a call says. Whatever the details hold, this raises nothing."""
    ended = cast(_Ended, error)
    info, retry_after_s = error_details_pb2.ErrorInfo(), None
    for detail in _details(ended):
        if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
            detail.Unpack(info)
        elif detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR):
            retry = error_details_pb2.RetryInfo()
            detail.Unpack(retry)
            seconds = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9
            retry_after_s = min(max(seconds, 0.0), _LONGEST_DELAY_S)
    own = info.domain == _DOMAIN
    number = info.metadata.get("number", "") if own else ""
    return Fault(
        ended.code(),
        one_line(ended.details() or ended.code().name),
        info.reason if own else "",
        int(number) if number.isascii() and number.isdecimal() and len(number) < 6 else 0,
        retry_after_s,
    )


def to_error(fault: Fault, address: str) -> SpecCompactError:
    """Return the library's error for a fault.

    Errors that the service met in the library come back as what they were there; others are `ServiceError`.

    Args:
        fault: what happened.
        address: of the service, for the message.
    """
    if fault.number in _CLASSES:
        return _CLASSES[fault.number](fault.message)
    code = grpc.StatusCode
    if fault.code == code.UNAVAILABLE:
        what = "is not available" if fault.reason else "cannot be reached"
        return ServiceUnavailableError(f"the service at {address} {what}: {fault.message}")
    if fault.code == code.DEADLINE_EXCEEDED:
        return ServiceTimeoutError(f"the service at {address} was not done in time: {fault.message}")
    if fault.code in (code.UNAUTHENTICATED, code.PERMISSION_DENIED) and fault.reason != "PATH":
        return ServiceDeniedError(f"the service at {address} refuses: {fault.message}")
    if fault.code == code.RESOURCE_EXHAUSTED:
        if fault.retry_after_s is not None:
            when = f"it asks to come back in {max(fault.retry_after_s, 1.0):.0f} s"
            return ServiceBusyError(f"the service at {address} is busy: {fault.message}; {when}")
        return LimitError(f"the service at {address} refuses: {fault.message}")
    if fault.code == code.INVALID_ARGUMENT:
        return ArgumentError(fault.message)
    if fault.code in (code.NOT_FOUND, code.ALREADY_EXISTS, code.PERMISSION_DENIED) and fault.reason:
        return JobError(fault.message)
    return ServiceError(f"the service at {address} failed ({fault.code.name}): {fault.message}")


def item_error(code: int, message: str, reason: str, number: int, address: str) -> SpecCompactError:
    """Return the library's error for a `google.rpc` code that stands in a message instead of ending a call."""
    known = {status.value[0]: status for status in grpc.StatusCode}
    return to_error(Fault(known.get(code, grpc.StatusCode.UNKNOWN), one_line(message), reason, number), address)


def one_line(text: str) -> str:
    """Return foreign text as one line that is safe to print."""
    words = " ".join(text[:_LONGEST_MESSAGE].split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in words)


def _details(ended: _Ended) -> Iterator["status_pb2.Any"]:
    for key, value in ended.trailing_metadata() or ():
        if key == DETAILS_KEY and isinstance(value, bytes):
            status = status_pb2.Status()
            try:
                status.ParseFromString(value)
            except DecodeError:
                continue
            yield from status.details


def _numbered(root: type[SpecCompactError]) -> Iterator[tuple[int, type[SpecCompactError]]]:
    for child in root.__subclasses__():
        if child.__module__ == root.__module__:
            yield child.number, child
            yield from _numbered(child)


_CLASSES: Final[Mapping[int, type[SpecCompactError]]] = dict(_numbered(SpecCompactError))
