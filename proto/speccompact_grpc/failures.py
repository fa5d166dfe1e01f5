"""What an error is to a caller: the status that the proto file promises for it."""

from collections.abc import Mapping
from typing import Final

import grpc

from speccompact.errors import (
    ArgumentError,
    DamagedError,
    FormatError,
    JobError,
    LimitError,
    ModelDamagedError,
    ModelError,
    ModelMissingError,
    NotSpecCompactError,
    SpecCompactError,
    TruncatedError,
    UnsupportedError,
)
from speccompact_grpc.calls import Cancelled, DeadlinePassed, Draining, QueueFull
from speccompact_grpc.refusals import Refusal

_Code = grpc.StatusCode

_OF_LIBRARY: Final[Mapping[type[BaseException], tuple[grpc.StatusCode, str]]] = {
    ArgumentError: (_Code.INVALID_ARGUMENT, "ARGUMENT"),
    FormatError: (_Code.INVALID_ARGUMENT, "FORMAT"),
    NotSpecCompactError: (_Code.INVALID_ARGUMENT, "NOT_AN_ARCHIVE"),
    UnsupportedError: (_Code.UNIMPLEMENTED, "UNSUPPORTED"),
    TruncatedError: (_Code.DATA_LOSS, "TRUNCATED"),
    DamagedError: (_Code.DATA_LOSS, "DAMAGED"),
    ModelError: (_Code.FAILED_PRECONDITION, "MODEL"),
    ModelMissingError: (_Code.NOT_FOUND, "MODEL_MISSING"),
    ModelDamagedError: (_Code.FAILED_PRECONDITION, "MODEL_DAMAGED"),
    LimitError: (_Code.RESOURCE_EXHAUSTED, "LIMIT"),
    JobError: (_Code.FAILED_PRECONDITION, "JOB_STATE"),
}
"""The nearest class on an error's own line of ancestors decides."""

_FIELDS: Final[Mapping[str, str]] = {
    "level": "options.level",
    "slot_tokens": "options.slot_tokens",
    "group_frames": "options.group_frames",
    "byte_range": "start.byte_range",
}
"""Fields of requests, by the first word of an ArgumentError's message."""


def refusal(error: BaseException) -> Refusal:
    """Return what a caller is told of an error; of faults of the service, no more than that."""
    return known(error) or Refusal(_Code.INTERNAL, "INTERNAL", "a fault of the service")


def known(error: BaseException) -> Refusal | None:
    """Return what a caller is told of an error; None where the error is a fault of the service."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, QueueFull):
        return Refusal(_Code.RESOURCE_EXHAUSTED, "QUEUE_FULL", str(error), retry_seconds=error.retry_s)
    if isinstance(error, DeadlinePassed):
        return Refusal(_Code.DEADLINE_EXCEEDED, "DEADLINE", str(error))
    if isinstance(error, Cancelled):
        return Refusal(_Code.CANCELLED, "CANCELLED", str(error))
    if isinstance(error, Draining):
        return Refusal(_Code.UNAVAILABLE, "DRAINING", str(error))
    if isinstance(error, MemoryError):
        return Refusal(_Code.RESOURCE_EXHAUSTED, "MEMORY", "the service has not enough memory for this call")
    if isinstance(error, OSError):
        return Refusal(
            _Code.FAILED_PRECONDITION, "SYSTEM", f"the service's system refused: {error.strerror or 'no reason'}"
        )
    if isinstance(error, SpecCompactError):
        for ancestor in type(error).__mro__:
            if ancestor in _OF_LIBRARY:
                code, reason = _OF_LIBRARY[ancestor]
                field = _FIELDS.get(str(error).partition(" ")[0], "") if isinstance(error, ArgumentError) else ""
                return Refusal(code, reason, str(error), number=error.number, field=field)
    return None
