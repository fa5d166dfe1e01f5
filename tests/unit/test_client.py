"""The client for threads, against a service that fails on demand."""

import io
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import BinaryIO

import grpc
import pytest

import speccompact
from speccompact.client import Client, Connection, RetryPolicy
from speccompact.client.synccalls import Calls
from speccompact.client.syncjobs import Jobs
from speccompact.errors import (
    ArgumentError,
    DamagedError,
    JobError,
    LimitError,
    ModelMissingError,
    ServiceBusyError,
    ServiceDeniedError,
    ServiceError,
    ServiceTimeoutError,
    ServiceUnavailableError,
    SpecCompactError,
    TruncatedError,
)
from speccompact_grpc.v1 import speccompact_pb2 as pb
from tests.fake_service import FakeService, refuse, serving, spoil
from tests.fakes import FakeEngines, prose
from tests.source_tree import ROOT

Code = grpc.StatusCode
TEXT = prose(200_000)
SHORT = prose(700)
QUICK = RetryPolicy(tries=3, first_wait_s=0.01, longest_wait_s=0.02)
DRAINING = refuse(Code.UNAVAILABLE, "the service ends", "DRAINING")
FULL = refuse(Code.RESOURCE_EXHAUSTED, "the queue is full", "QUEUE_FULL", retry_s=0.02)


@pytest.fixture
def service() -> FakeService:
    return FakeService()


@pytest.fixture
def client(service: FakeService) -> Iterator[Client]:
    with serving(service) as address, Client(Connection(address), QUICK) as client:
        yield client


@pytest.fixture(scope="module")
def archive() -> bytes:
    return speccompact.compress(TEXT, engines=FakeEngines())


class Pipe(io.RawIOBase):
    """An input that cannot seek, and fails where it is told to."""

    def __init__(self, data: bytes, fails_at: int | None = None) -> None:
        self._data, self._at, self._fails_at = data, 0, fails_at

    def read(self, size: int = -1) -> bytes:
        if self._fails_at is not None and self._at >= self._fails_at:
            raise OSError(5, "the disk is broken")
        piece = self._data[self._at : self._at + size]
        self._at += len(piece)
        return piece


def pipe(data: bytes, fails_at: int | None = None) -> BinaryIO:
    return Pipe(data, fails_at)  # type: ignore[return-value]


def test_there_and_back(client: Client, service: FakeService, archive: bytes) -> None:
    assert client.compress(TEXT) == archive
    assert client.decompress(archive) == TEXT
    assert service.calls == ["Compress", "Decompress"]
    ids = [metadata["x-request-id"] for metadata in service.metadata]
    assert len(set(ids)) == 2


@pytest.mark.parametrize("content", [b"", b"x", SHORT, os.urandom(100_000)])
def test_contents_of_all_kinds(client: Client, content: bytes) -> None:
    packed = client.compress(content)
    assert packed == speccompact.compress(content, engines=FakeEngines())
    assert client.decompress(packed) == content


def test_options_reach_the_service(client: Client) -> None:
    target = io.BytesIO()
    done: list[int] = []
    summary = client.compress_stream(
        pipe(TEXT), target, level=2, slot_tokens=64, group_frames=0, priority="high", progress=done.append
    )
    wanted = speccompact.compress(TEXT, level=2, slot_tokens=64, group_frames=0, engines=FakeEngines())
    assert target.getvalue() == wanted
    assert (summary.content_bytes, summary.compressed_bytes) == (len(TEXT), len(wanted))
    assert done == sorted(done)
    assert done[-1] == len(TEXT)


def test_ranges_limits_and_salvage(client: Client, archive: bytes) -> None:
    target = io.BytesIO()
    client.decompress_stream(io.BytesIO(archive), target, byte_range=(1000, 50))
    assert target.getvalue() == TEXT[1000:1050]
    with pytest.raises(LimitError):
        client.decompress_stream(io.BytesIO(archive), io.BytesIO(), max_output=10)
    packed = speccompact.compress(TEXT, slot_tokens=64, group_frames=0, engines=FakeEngines())
    assert len(speccompact.inspect(packed).frames) > 3
    damaged = packed[:10_000] + b"!!" + packed[10_002:]
    with pytest.raises(DamagedError):
        client.decompress(damaged)
    saved = io.BytesIO()
    summary = client.decompress_stream(io.BytesIO(damaged), saved, salvage=True)
    assert len(summary.lost) == 1
    assert summary.content_bytes == len(saved.getvalue()) > 100_000


def test_drafts_are_told(client: Client, archive: bytes) -> None:
    summary = client.decompress_stream(io.BytesIO(archive), io.BytesIO())
    assert summary.effort.drafts["suffix"].right == (1, 1)
    assert summary.effort.target_s == 1.5


def test_small_bodies(client: Client) -> None:
    packed = client.compress_text(SHORT, level=1)
    assert packed == speccompact.compress(SHORT, level=1, engines=FakeEngines())
    assert client.decompress_text(packed) == SHORT


def test_many_small_bodies_of_which_one_is_bad(client: Client, service: FakeService) -> None:
    texts = [b"%d " % number + SHORT for number in range(300)]
    texts[7] = b"bad"
    results = client.compress_many(texts)
    assert service.calls == ["CompressMany"] * 2
    assert isinstance(results[7], LimitError)
    assert [type(result) for result in results].count(bytes) == 299
    assert results[299] == speccompact.compress(texts[299], engines=FakeEngines())
    service.faults.append(spoil("short"))
    with pytest.raises(ServiceError, match="1 answers to 2 texts"):
        client.compress_many(texts[:2])


def test_inspection(client: Client, service: FakeService, archive: bytes) -> None:
    assert client.inspect(archive) == client.inspect(io.BytesIO(archive)) == speccompact.inspect(archive)
    service.faults += [DRAINING, spoil("other")]
    with pytest.raises(ServiceError, match="were sent"):
        client.inspect(archive)
    with pytest.raises(SpecCompactError) as told:
        client.inspect(archive[:-1])
    assert type(told.value) is TruncatedError


def test_models(client: Client) -> None:
    assert [model.name for model in client.models()] == ["fake"]


@pytest.mark.parametrize("fault", [DRAINING, FULL])
def test_a_refused_call_is_repeated_with_all_of_its_input(
    client: Client, service: FakeService, archive: bytes, fault: Callable[[grpc.ServicerContext], object]
) -> None:
    service.faults += [fault, fault]
    target = io.BytesIO()
    client.compress_stream(pipe(TEXT), target)
    assert target.getvalue() == archive
    service.faults += [fault, fault]
    assert client.compress_text(SHORT) == speccompact.compress(SHORT, engines=FakeEngines())
    assert len(service.calls) == 6


def test_tries_come_to_an_end(client: Client, service: FakeService) -> None:
    service.faults += [DRAINING] * 9
    with pytest.raises(ServiceUnavailableError, match="is not available: the service ends"):
        client.compress(TEXT)
    assert len(service.calls) == QUICK.tries
    service.faults.clear()
    service.faults += [FULL] * 9
    with pytest.raises(ServiceBusyError, match="the queue is full"):
        client.compress_text(SHORT)
    assert len(service.calls) == 2 * QUICK.tries


def test_what_has_given_output_is_not_repeated(client: Client, service: FakeService) -> None:
    service.faults.append(spoil("break"))
    with pytest.raises(ServiceUnavailableError):
        client.compress(TEXT)
    assert service.calls == ["Compress"]


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        (refuse(Code.RESOURCE_EXHAUSTED, "too long", "SIZE"), LimitError, "too long"),
        (refuse(Code.NOT_FOUND, "no model x", "MODEL_MISSING", 31), ModelMissingError, "^no model x$"),
        (refuse(Code.INVALID_ARGUMENT, "level is 12", "ARGUMENT", 10), ArgumentError, "^level is 12$"),
        (refuse(Code.INVALID_ARGUMENT, "odd message", "MESSAGE"), ArgumentError, "odd message"),
        (refuse(Code.UNAUTHENTICATED, "unknown token", "TOKEN"), ServiceDeniedError, "unknown token"),
        (refuse(Code.PERMISSION_DENIED, "no jobs", "TOKEN"), ServiceDeniedError, "no jobs"),
        (refuse(Code.PERMISSION_DENIED, "outside", "PATH"), JobError, "^outside$"),
        (refuse(Code.ALREADY_EXISTS, "taken", "EXISTS"), JobError, "^taken$"),
        (refuse(Code.INTERNAL, "oh\x1b[2J\nno", "INTERNAL"), ServiceError, r"failed \(INTERNAL\): oh\\x1b\[2J no"),
        (refuse(Code.UNKNOWN, ""), ServiceError, "UNKNOWN"),
    ],
)
def test_refusals_that_no_repetition_helps(
    client: Client,
    service: FakeService,
    fault: Callable[[grpc.ServicerContext], object],
    kind: type[SpecCompactError],
    words: str,
) -> None:
    service.faults.append(fault)
    with pytest.raises(SpecCompactError, match=words) as told:
        client.compress(SHORT)
    assert type(told.value) is kind
    assert len(service.calls) == 1


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("cut", "cut short after"),
        ("swap", "answer is no sound archive|does not belong to what it was sent"),
        ("double", "behind its summary"),
        ("count", "the service counts"),
    ],
)
def test_an_answer_that_is_wrong_is_no_archive(client: Client, service: FakeService, how: str, words: str) -> None:
    service.faults.append(spoil(how))
    with pytest.raises(ServiceError, match=words):
        client.compress(TEXT)
    assert service.calls == ["Compress"]


@pytest.mark.parametrize(
    ("how", "words"),
    [("cut", "cut short after"), ("swap", "does not belong to what it was sent"), ("count", "the service counts")],
)
def test_an_answer_that_is_wrong_is_no_content(
    client: Client, service: FakeService, archive: bytes, how: str, words: str
) -> None:
    service.faults.append(spoil(how))
    with pytest.raises(ServiceError, match=words):
        client.decompress(archive)


def test_small_answers_are_checked_too(client: Client, service: FakeService) -> None:
    packed = client.compress_text(SHORT)
    service.faults += [spoil("swap"), spoil("swap")]
    with pytest.raises(ServiceError, match=r"does not belong|there is more"):
        client.compress_text(SHORT)
    with pytest.raises(ServiceError, match="does not belong"):
        client.decompress_text(packed)


def test_an_archive_that_is_none_is_told_before_anything_comes_back(client: Client, archive: bytes) -> None:
    with pytest.raises(SpecCompactError) as told:
        client.decompress(TEXT)
    assert "not a SpecCompact file" in str(told.value)
    with pytest.raises(TruncatedError):
        client.decompress(archive[:-1])


def test_a_deadline_ends_the_call_at_both_ends(client: Client, service: FakeService) -> None:
    service.faults.append(spoil("wait"))
    with pytest.raises(ServiceTimeoutError):
        client.compress(TEXT, timeout=0.5)
    assert service.cancelled.wait(60)
    with pytest.raises(ArgumentError, match="timeout is 0"):
        client.models(timeout=0)


def test_closing_ends_a_call(client: Client, service: FakeService) -> None:
    service.faults.append(spoil("wait"))
    told: list[BaseException] = []

    def wait() -> None:
        try:
            client.compress(TEXT)
        except BaseException as error:
            told.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    assert service.waiting.wait(60)
    client.close()
    thread.join(60)
    assert [type(error) for error in told] == [ServiceError]


def test_an_input_that_fails_ends_the_call_with_its_own_error(client: Client, service: FakeService) -> None:
    with pytest.raises(OSError, match="the disk is broken"):
        client.compress_stream(pipe(TEXT, fails_at=150_000), io.BytesIO())
    with pytest.raises(OSError, match="the disk is broken"):
        client.inspect(pipe(TEXT, fails_at=0))


def test_an_output_that_fails_ends_the_call_with_its_own_error(client: Client) -> None:
    class Full(io.BytesIO):
        def write(self, data: object) -> int:
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        client.compress_stream(io.BytesIO(TEXT), Full())


def test_nobody_there() -> None:
    with serving(FakeService()) as address:
        pass
    with Client(Connection(address), QUICK) as client, pytest.raises(ServiceUnavailableError, match="be reached"):
        client.compress(SHORT, timeout=60)


def test_a_job_is_submitted_once_though_the_answer_was_lost(client: Client, service: FakeService) -> None:
    service.faults.append(DRAINING)
    spec = pb.JobSpec(compress_file=pb.CompressFileJob(source="in/a", output="out/a.spc"))
    job = client.jobs.submit(spec, priority="low")
    assert service.calls == ["SubmitJob"] * 2
    assert list(service.submitted.values()) == [job]
    assert client.jobs.submit(spec, idempotency_key="mine") == client.jobs.submit(spec, idempotency_key="mine")
    assert len(service.submitted) == 2
    assert client.jobs.get(job.id) == job
    assert client.jobs.cancel(job.id).state == pb.JOB_STATE_CANCELLED
    with pytest.raises(JobError, match="there is no job"):
        client.jobs.get("nothing")


def test_jobs_are_listed_over_all_pages(client: Client, service: FakeService) -> None:
    for number in range(5):
        state = pb.JOB_STATE_RUNNING if number % 2 else pb.JOB_STATE_QUEUED
        service.jobs[str(number)] = [pb.Job(id=str(number), state=state)]
    assert [job.id for job in client.jobs.list()] == ["0", "1", "2", "3", "4"]
    assert [job.id for job in client.jobs.list([pb.JOB_STATE_RUNNING])] == ["1", "3"]


def test_a_job_is_watched_across_restarts(client: Client, service: FakeService) -> None:
    states = [pb.JOB_STATE_QUEUED, pb.JOB_STATE_RUNNING, pb.JOB_STATE_RUNNING, pb.JOB_STATE_SUCCEEDED]
    service.jobs["a"] = [pb.Job(id="a", state=state) for state in states]
    service.faults += [DRAINING, spoil("cut"), spoil("cut"), DRAINING]
    assert [job.state for job in client.jobs.watch("a")] == states
    assert len(service.calls) == 5
    service.faults += [DRAINING] * 3
    with pytest.raises(ServiceUnavailableError):
        list(client.jobs.watch("a"))


def test_a_watch_waits_for_a_service_that_starts_again(service: FakeService) -> None:
    service.jobs["a"] = [pb.Job(id="a", state=pb.JOB_STATE_RUNNING)]
    waits = 0
    with ExitStack() as stack:
        first = stack.enter_context(ExitStack())
        address = first.enter_context(serving(service))

        def sleep(seconds: float) -> None:
            nonlocal waits
            waits += 1
            time.sleep(seconds)
            if waits == QUICK.tries + 3:
                service.jobs["a"] = [pb.Job(id="a", state=pb.JOB_STATE_SUCCEEDED)]
                stack.enter_context(serving(service, int(address.rpartition(":")[2])))

        calls = stack.enter_context(closing(Calls(Connection(address), QUICK, sleep)))
        watch = Jobs(calls).watch("a")
        assert next(watch).state == pb.JOB_STATE_RUNNING
        first.close()
        assert [job.state for job in watch] == [pb.JOB_STATE_SUCCEEDED]
    assert waits >= QUICK.tries + 3


def test_a_token_goes_with_every_call(service: FakeService) -> None:
    with serving(service) as address, Client(Connection(address, token="secret")) as client:
        client.models()
    assert service.metadata[0]["authorization"] == "Bearer secret"
    assert "secret" not in repr(Connection(address, token="secret"))


def test_the_client_loads_nothing_heavy() -> None:
    script = (
        "import sys; from speccompact import client; client.Client; client.AsyncClient;"
        "print(*sorted({'torch', 'numba', 'tokenizers'} & set(sys.modules)))"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "proto")])}
    result = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == ""
