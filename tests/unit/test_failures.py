"""Every error has the status that the proto file promises."""

import re

import grpc
import pytest

from speccompact import errors
from speccompact_grpc.calls import Cancelled, DeadlinePassed, Draining, QueueFull
from speccompact_grpc.failures import known, refusal
from speccompact_grpc.refusals import Refusal
from tests.source_tree import ROOT

PROTO = (ROOT / "proto" / "speccompact_grpc" / "v1" / "speccompact.proto").read_text("utf-8")


def documented() -> dict[str, set[str]]:
    """Return the reasons of each status code in the table of the proto file."""
    found: dict[str, set[str]] = {}
    code = ""
    table = PROTO[PROTO.index("//   code  ") : PROTO.index("// Compressing and decompressing change")]
    for line in table.splitlines()[1:]:
        match = re.match(r"//   ([A-Z_]*) +(.*?)(   |$)", line.ljust(24))
        if match and match[1]:
            code = match[1]
        columns = line[24:58] if len(line) > 24 else ""
        found.setdefault(code, set()).update(re.findall(r"\b[A-Z][A-Z_]+\b", columns))
    return found


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (errors.ArgumentError("level is 10"), "INVALID_ARGUMENT", "ARGUMENT"),
        (errors.FormatError(""), "INVALID_ARGUMENT", "FORMAT"),
        (errors.NotSpecCompactError(""), "INVALID_ARGUMENT", "NOT_AN_ARCHIVE"),
        (errors.UnsupportedError(""), "UNIMPLEMENTED", "UNSUPPORTED"),
        (errors.TruncatedError(""), "DATA_LOSS", "TRUNCATED"),
        (errors.DamagedError(""), "DATA_LOSS", "DAMAGED"),
        (errors.ModelError(""), "FAILED_PRECONDITION", "MODEL"),
        (errors.ModelMissingError(""), "NOT_FOUND", "MODEL_MISSING"),
        (errors.ModelDamagedError(""), "FAILED_PRECONDITION", "MODEL_DAMAGED"),
        (errors.LimitError(""), "RESOURCE_EXHAUSTED", "LIMIT"),
        (errors.JobError(""), "FAILED_PRECONDITION", "JOB_STATE"),
        (MemoryError(), "RESOURCE_EXHAUSTED", "MEMORY"),
        (QueueFull(1.5), "RESOURCE_EXHAUSTED", "QUEUE_FULL"),
        (DeadlinePassed(), "DEADLINE_EXCEEDED", "DEADLINE"),
        (Cancelled(), "CANCELLED", "CANCELLED"),
        (Draining(), "UNAVAILABLE", "DRAINING"),
        (OSError(28, "No space left on device"), "FAILED_PRECONDITION", "SYSTEM"),
        (ValueError("a secret"), "INTERNAL", "INTERNAL"),
    ],
)
def test_statuses(error: Exception, code: str, reason: str) -> None:
    found = refusal(error)
    assert (found.code.name, found.reason) == (code, reason)
    assert reason in documented()[code]
    assert found.number == (error.number if isinstance(error, errors.SpecCompactError) else 0)
    assert (found.retry_seconds is not None) == isinstance(error, QueueFull)
    assert "secret" not in found.message


def test_fields_of_arguments_are_named() -> None:
    assert refusal(errors.ArgumentError("level is 10; choose 1 to 9")).field == "options.level"
    assert refusal(errors.ArgumentError("something else")).field == ""


def test_refusals_stay_and_faults_are_unknown() -> None:
    given = Refusal(grpc.StatusCode.NOT_FOUND, "JOB", "no such job")
    assert known(given) is given
    assert known(ValueError()) is None
