"""Why a call is turned away, as a status with the details that the proto file promises."""

from typing import NoReturn

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

DOMAIN = "speccompact"
"""Of every google.rpc.ErrorInfo."""


class Refusal(Exception):
    """A call ends with a status.

    Attributes:
        code: the status code.
        reason: in capitals, as the table of the proto file has it.
        message: for people.
        retry_seconds: after what time a repetition can help; None where it cannot.
        number: of the library's error; 0 where it is none.
        field: of the request, that was wrong; empty where it is none.
    """

    def __init__(
        self,
        code: grpc.StatusCode,
        reason: str,
        message: str,
        *,
        retry_seconds: float | None = None,
        number: int = 0,
        field: str = "",
    ) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message
        self.retry_seconds, self.number, self.field = retry_seconds, number, field

    def status(self) -> status_pb2.Status:
        """Return the google.rpc.Status with its details."""
        metadata = {"number": str(self.number)} if self.number else {}
        details = [_packed(error_details_pb2.ErrorInfo(reason=self.reason, domain=DOMAIN, metadata=metadata))]
        if self.retry_seconds is not None:
            delay = duration_pb2.Duration()
            delay.FromMilliseconds(max(1, round(1000 * self.retry_seconds)))
            details.append(_packed(error_details_pb2.RetryInfo(retry_delay=delay)))
        if self.field:
            violation = error_details_pb2.BadRequest.FieldViolation(field=self.field, description=self.message)
            details.append(_packed(error_details_pb2.BadRequest(field_violations=[violation])))
        number: int = self.code.value[0]
        return status_pb2.Status(code=number, message=self.message, details=details)

    def abort(self, context: grpc.ServicerContext) -> NoReturn:
        """End the call of a context with this status."""
        context.abort_with_status(rpc_status.to_status(self.status()))
        raise AssertionError("abort_with_status raises")


def _packed(
    message: "error_details_pb2.ErrorInfo | error_details_pb2.RetryInfo | error_details_pb2.BadRequest",
) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(message)
    return packed
