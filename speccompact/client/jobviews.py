"""Jobs in plain words and values, for programs that know nothing of messages."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from google.protobuf.message import Message

from speccompact.client.faults import item_error
from speccompact.client.plans import ENDED
from speccompact.errors import SpecCompactError
from speccompact_grpc.v1 import speccompact_pb2 as pb

_STATE: Final = "JOB_STATE_"

JOB_STATES: Final[Mapping[str, pb.JobState.ValueType]] = {
    name.removeprefix(_STATE).lower(): number for name, number in pb.JobState.items() if number
}
"""States by their words: queued, running, succeeded, failed, cancelled."""


def job_spec(work: str, fields: Mapping[str, Any]) -> pb.JobSpec:
    """Return what a job is to do.

    Args:
        work: a field of JobSpec, such as "archive_create".
        fields: those of its message; an `options` is a mapping of CompressOptions. What is None is left out.
    """
    given = {name: value for name, value in fields.items() if value is not None}
    if "options" in given:
        given["options"] = {name: value for name, value in given["options"].items() if value is not None}
    return pb.JobSpec(**{work: given})  # type: ignore[arg-type]


def job_state(job: pb.Job) -> str:
    """Return the word for a job's state; that of a later release of the service is a number."""
    words = {number: word for word, number in JOB_STATES.items()}
    return words.get(job.state, str(int(job.state)))


def job_work(job: pb.Job) -> tuple[str, Sequence[str], str]:
    """Return what a job does, in a word or two, the paths that it reads and the one that it writes ("" for none)."""
    kind = job.spec.WhichOneof("work")
    if kind is None:
        return "unknown", (), ""
    work: Any = getattr(job.spec, kind)
    sources = [*getattr(work, "sources", ())] or [getattr(work, "source", "")]
    if kind in ("archive_append", "archive_create"):
        return kind.replace("_", " "), sources, work.output if kind == "archive_create" else work.archive
    if kind in ("archive_extract", "archive_verify"):
        return kind.replace("_", " "), [work.archive], getattr(work, "target", "")
    return kind.removesuffix("_file"), sources, work.output


def job_ended(job: pb.Job) -> bool:
    """Whether a job has ended, well or not."""
    return job.state in ENDED


def job_error(job: pb.Job, address: str) -> SpecCompactError | None:
    """Return why a job failed; None where it did not."""
    if job.state != pb.JOB_STATE_FAILED:
        return None
    error = job.error
    return item_error(error.code, error.message, error.reason, error.number, address)


def job_json(job: pb.Job) -> dict[str, Any]:
    """Return a job as dictionaries, lists, numbers and strings, with the names of the proto file."""
    return _plain(job)


def _plain(message: Message) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.is_repeated:
            values[field.name] = [_value(field, item) for item in value]
        elif not field.has_presence or message.HasField(field.name):
            values[field.name] = _value(field, value)
    return values


def _value(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return _plain(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        prefix = re.sub("(?<=[a-z])(?=[A-Z])", "_", field.enum_type.name).upper() + "_"
        return known.name.removeprefix(prefix).lower() if known else value
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
