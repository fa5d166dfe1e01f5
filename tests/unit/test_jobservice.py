"""Jobs over the wire, with the model that is none: what they make, and what a caller may ask and see."""

import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

import speccompact
from speccompact.errors import JobError
from speccompact_grpc.calls import Call
from speccompact_grpc.jobservice import JobService
from speccompact_grpc.jobstore import JobStore
from speccompact_grpc.v1 import speccompact_pb2 as pb
from speccompact_grpc.v1 import speccompact_pb2_grpc as pb_grpc
from tests.archive_trees import facts, make_tree, opened, pack
from tests.fakes import FakeEngines, prose
from tests.job_server import make_service, served

Code = grpc.StatusCode
Stub = pb_grpc.JobServiceStub
TEXT = prose(30_000)


class Gate:
    """Holds jobs where they ask for a model, until they are let through or their call ends."""

    def __init__(self) -> None:
        self.reached, self._open = threading.Event(), threading.Event()

    def __call__(self, call: Call) -> None:
        self.reached.set()
        while not self._open.wait(0.01):
            call.check()

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    data.mkdir()
    (data / "text").write_bytes(TEXT)
    make_tree(data / "tree")
    return data


@pytest.fixture
def stub(tmp_path: Path, data: Path) -> Iterator[Stub]:
    service = make_service(tmp_path)
    with served(service) as stub:
        service.start()
        yield stub


@pytest.fixture
def gated(tmp_path: Path, data: Path) -> Iterator[tuple[Stub, Gate, JobService]]:
    gate = Gate()
    service = make_service(tmp_path, gate)
    with served(service) as stub:
        service.start()
        yield stub, gate, service
        gate.open()


def compress(source: str = "data/text", output: str = "data/text.spc", **fields: Any) -> pb.JobSpec:
    fields = {"options": pb.CompressOptions(level=2)} | fields
    return pb.JobSpec(compress_file=pb.CompressFileJob(source=source, output=output, **fields))


def create(output: str = "data/a.spca", **fields: Any) -> pb.JobSpec:
    sources = fields.pop("sources", ["data/tree"])
    options = pb.CompressOptions(level=2, slot_tokens=16)
    return pb.JobSpec(archive_create=pb.ArchiveCreateJob(sources=sources, output=output, options=options, **fields))


def submit(stub: Stub, spec: pb.JobSpec, caller: str = "anonymous", **fields: Any) -> pb.Job:
    request = pb.SubmitJobRequest(spec=spec, **fields)
    return stub.SubmitJob(request, timeout=30, metadata=(("caller", caller),)).job


def watch(stub: Stub, job: pb.Job) -> list[pb.Job]:
    return [answer.job for answer in stub.WatchJob(pb.WatchJobRequest(id=job.id), timeout=60)]


def outcome(stub: Stub, spec: pb.JobSpec) -> pb.Job:
    return watch(stub, submit(stub, spec))[-1]


def refused(call: Callable[[], object]) -> tuple[grpc.StatusCode, str]:
    """Return status and reason of a call that has to fail."""
    with pytest.raises(grpc.RpcError) as caught:
        call()
    status = rpc_status.from_call(caught.value)  # type: ignore[arg-type]  # it is a call, too
    assert status is not None
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    return caught.value.code(), info.reason


def test_a_file_there_and_back(stub: Stub, data: Path) -> None:
    job = outcome(stub, compress())
    packed = (data / "text.spc").read_bytes()
    assert job.state == pb.JOB_STATE_SUCCEEDED
    assert packed == speccompact.compress(TEXT, level=2, engines=FakeEngines())
    assert (job.result.content_bytes, job.result.compressed_bytes) == (len(TEXT), len(packed))
    assert job.progress.done_bytes == job.progress.total_bytes == len(TEXT)
    assert job.attempts == 1
    assert job.created_ms <= job.started_ms <= job.ended_ms
    back = pb.DecompressFileJob(source="data/text.spc", output="data/back")
    job = outcome(stub, pb.JobSpec(decompress_file=back))
    assert job.state == pb.JOB_STATE_SUCCEEDED
    assert (data / "back").read_bytes() == TEXT
    assert sorted(path.name for path in data.iterdir()) == ["back", "text", "text.spc", "tree"]


def test_archives_there_and_back(stub: Stub, data: Path, tmp_path: Path) -> None:
    job = outcome(stub, create(exclude=["*.bin"]))
    assert job.state == pb.JOB_STATE_SUCCEEDED, job
    pack(tmp_path / "own.spca", data / "tree", slot_tokens=16, exclude=("*.bin",))
    assert (data / "a.spca").read_bytes() == (tmp_path / "own.spca").read_bytes()
    assert job.result.compressed_bytes == (data / "a.spca").stat().st_size
    assert (job.result.left_out_count, len(job.result.left_out)) == (0, 0)
    append = pb.ArchiveAppendJob(sources=["data/tree/"], archive="data/a.spca", include=["*.bin"])
    assert outcome(stub, pb.JobSpec(archive_append=append)).result.entries == 1
    with opened(data / "a.spca") as archive:
        assert b"noise.bin" in archive.entries
    check = pb.ArchiveVerifyJob(archive="data/a.spca")
    assert outcome(stub, pb.JobSpec(archive_verify=check)).state == pb.JOB_STATE_SUCCEEDED
    take = pb.ArchiveExtractJob(archive="data/a.spca", target="data/out", paths=["tree"])
    job = outcome(stub, pb.JobSpec(archive_extract=take))
    assert job.state == pb.JOB_STATE_SUCCEEDED
    found, wanted = facts(data / "out" / "tree"), facts(data / "tree")
    assert found == {path: fact for path, fact in wanted.items() if path != b"noise.bin"}


def test_a_damaged_archive_does_not_verify(stub: Stub, data: Path) -> None:
    outcome(stub, create())
    content = bytearray((data / "a.spca").read_bytes())
    content[400] ^= 1
    (data / "a.spca").write_bytes(content)
    job = outcome(stub, pb.JobSpec(archive_verify=pb.ArchiveVerifyJob(archive="data/a.spca")))
    assert job.state == pb.JOB_STATE_FAILED
    assert (job.error.number, "entries cannot be restored" in job.error.message) == (24, True)


def test_a_job_that_fails_says_why_and_leaves_nothing(stub: Stub, data: Path, tmp_path: Path) -> None:
    back = pb.DecompressFileJob(source="data/text", output="data/back")
    job = outcome(stub, pb.JobSpec(decompress_file=back))
    assert job.state == pb.JOB_STATE_FAILED
    assert (job.error.code, job.error.reason, job.error.number) == (9, "LIBRARY", 21)
    assert str(tmp_path) not in job.error.message
    assert sorted(path.name for path in data.iterdir()) == ["text", "tree"]


@pytest.mark.parametrize(
    ("spec", "code", "reason"),
    [
        (pb.JobSpec(), Code.INVALID_ARGUMENT, "ARGUMENT"),
        (compress("data/../jobs.sqlite"), Code.PERMISSION_DENIED, "PATH"),
        (compress("/etc/passwd"), Code.PERMISSION_DENIED, "PATH"),
        (compress("data/link"), Code.PERMISSION_DENIED, "PATH"),
        (compress("data/tree"), Code.PERMISSION_DENIED, "PATH"),
        (compress(output="data/link/x"), Code.PERMISSION_DENIED, "PATH"),
        (compress("data/"), Code.INVALID_ARGUMENT, "ARGUMENT"),
        (compress("data/none"), Code.NOT_FOUND, "FILE"),
        (compress(output="data/none/x"), Code.NOT_FOUND, "FILE"),
        (compress(output="data/text"), Code.ALREADY_EXISTS, "EXISTS"),
        (create(sources=[]), Code.INVALID_ARGUMENT, "ARGUMENT"),
        (create(sources=["data/none"]), Code.NOT_FOUND, "FILE"),
        (create(include=["a\0"]), Code.INVALID_ARGUMENT, "ARGUMENT"),
        (create(include=["*a" * 11]), Code.INVALID_ARGUMENT, "ARGUMENT"),
        (create(include=["x" * 4000] * 100), Code.RESOURCE_EXHAUSTED, "SIZE"),
        (create("data/text"), Code.ALREADY_EXISTS, "EXISTS"),
        (compress(output="data/x", options=pb.CompressOptions(level=99)), Code.INVALID_ARGUMENT, "ARGUMENT"),
        (compress(output="data/x", options=pb.CompressOptions(model="/m")), Code.INVALID_ARGUMENT, "ARGUMENT"),
        (pb.JobSpec(archive_verify=pb.ArchiveVerifyJob(archive="data/none")), Code.NOT_FOUND, "FILE"),
        (
            pb.JobSpec(archive_extract=pb.ArchiveExtractJob(archive="data/text", target="data/link")),
            Code.PERMISSION_DENIED,
            "PATH",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused_at_once(
    stub: Stub, data: Path, spec: pb.JobSpec, code: grpc.StatusCode, reason: str
) -> None:
    (data / "link").symlink_to("/etc")
    assert refused(lambda: submit(stub, spec)) == (code, reason)
    assert list(stub.ListJobs(pb.ListJobsRequest()).jobs) == []


def test_force_replaces(stub: Stub, data: Path) -> None:
    (data / "text.spc").write_bytes(b"old")
    (data / "a.spca").write_bytes(b"old")
    assert outcome(stub, compress(force=True)).state == pb.JOB_STATE_SUCCEEDED
    assert outcome(stub, create(force=True)).state == pb.JOB_STATE_SUCCEEDED


def test_a_ledger_that_somebody_has_put_there_is_not_gone_on_with(stub: Stub, data: Path) -> None:
    (data / "a.spca.job").write_bytes(b"anything")
    job = outcome(stub, create())
    assert (job.state, job.error.number) == (pb.JOB_STATE_FAILED, 50)
    assert outcome(stub, create(force=True)).state == pb.JOB_STATE_SUCCEEDED


def test_a_model_is_asked_for_as_the_call_of_its_owner(tmp_path: Path, data: Path) -> None:
    calls: list[Call] = []
    service = make_service(tmp_path, calls.append)
    with served(service) as stub:
        job = submit(stub, compress(), "ann", priority=pb.PRIORITY_HIGH)
        service.start()
        list(stub.WatchJob(pb.WatchJobRequest(id=job.id), timeout=60, metadata=(("caller", "ann"),)))
    assert {(call.caller, call.priority, call.patient) for call in calls} == {("ann", 3, True)}


def test_jobs_of_others_are_not_found(stub: Stub) -> None:
    job = submit(stub, compress(), "ann")
    for call in (
        lambda: stub.GetJob(pb.GetJobRequest(id=job.id)),
        lambda: stub.CancelJob(pb.CancelJobRequest(id=job.id)),
        lambda: list(stub.WatchJob(pb.WatchJobRequest(id=job.id))),
        lambda: stub.GetJob(pb.GetJobRequest(id="0" * 32)),
        lambda: stub.GetJob(pb.GetJobRequest(id="' OR 1=1")),
    ):
        assert refused(call) == (Code.NOT_FOUND, "JOB")
    assert list(stub.ListJobs(pb.ListJobsRequest()).jobs) == []
    assert stub.GetJob(pb.GetJobRequest(id=job.id), metadata=(("caller", "ann"),)).job.id == job.id


def test_lists_come_in_pages(tmp_path: Path, data: Path) -> None:
    with served(make_service(tmp_path)) as stub:
        jobs = [submit(stub, compress(output=f"data/{number}")) for number in range(5)]
        found, token = [], ""
        while True:
            page = stub.ListJobs(pb.ListJobsRequest(page_size=2, page_token=token))
            found += [job.id for job in page.jobs]
            if not (token := page.next_page_token):
                break
            last = token
        assert found == [job.id for job in reversed(jobs)]
        queued = pb.ListJobsRequest(states=[pb.JOB_STATE_QUEUED], page_size=1000)
        assert len(stub.ListJobs(queued).jobs) == 5
        assert not stub.ListJobs(pb.ListJobsRequest(states=[pb.JOB_STATE_FAILED])).jobs
        for request in (
            pb.ListJobsRequest(page_token="x"),
            pb.ListJobsRequest(page_token=last, states=[pb.JOB_STATE_QUEUED]),
            pb.ListJobsRequest(page_size=1001),
            pb.ListJobsRequest(states=[77]),  # type: ignore[list-item]
        ):
            assert refused(lambda request=request: stub.ListJobs(request))[0] == Code.INVALID_ARGUMENT  # type: ignore[misc]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full", "/secret/jobs"), JobError("/secret/jobs is damaged")])
def test_a_file_of_jobs_that_cannot_be_used_is_told_without_its_path(
    stub: Stub, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def broken(*_: object) -> None:
        raise error

    for name in ("keyed", "submit", "get", "page"):
        monkeypatch.setattr(JobStore, name, broken)
    calls: list[Callable[[], object]] = [
        lambda: submit(stub, compress()),
        lambda: stub.GetJob(pb.GetJobRequest(id="0" * 32)),
        lambda: stub.ListJobs(pb.ListJobsRequest()),
        lambda: stub.CancelJob(pb.CancelJobRequest(id="0" * 32)),
        lambda: list(stub.WatchJob(pb.WatchJobRequest(id="0" * 32))),
    ]
    for call in calls:
        with pytest.raises(grpc.RpcError) as caught:
            call()
        assert caught.value.code() == Code.FAILED_PRECONDITION
        assert "secret" not in str(caught.value.details())


def test_a_key_finds_the_job_again(stub: Stub) -> None:
    job = submit(stub, compress(), idempotency_key="k")
    watch(stub, job)
    assert submit(stub, compress(), idempotency_key="k").id == job.id
    assert refused(lambda: submit(stub, compress(output="data/other"), idempotency_key="k")) == (
        Code.ALREADY_EXISTS,
        "EXISTS",
    )
    assert refused(lambda: submit(stub, compress(), idempotency_key="k" * 129))[0] == Code.INVALID_ARGUMENT
    assert refused(lambda: submit(stub, compress(), priority=9))[0] == Code.INVALID_ARGUMENT


def test_a_watch_tells_every_state_and_what_is_done(gated: tuple[Stub, Gate, JobService]) -> None:
    stub, gate, _ = gated
    job = submit(stub, create())
    assert gate.reached.wait(30)
    answers = stub.WatchJob(pb.WatchJobRequest(id=job.id), timeout=60)
    states = [next(answers).job]
    gate.open()
    states += [answer.job for answer in answers]
    assert states[0].state == pb.JOB_STATE_RUNNING
    assert states[-1].state == pb.JOB_STATE_SUCCEEDED
    done = [state.progress.done_bytes for state in states]
    assert done == sorted(done)
    assert states[-1].progress.done_bytes == states[-1].progress.total_bytes > 0
    assert states[-1].progress.done_groups > 1


@pytest.mark.parametrize("spec", [compress(), create()], ids=["file", "archive"])
def test_cancelling_ends_a_job_in_its_middle_and_leaves_nothing(
    gated: tuple[Stub, Gate, JobService], data: Path, spec: pb.JobSpec
) -> None:
    stub, gate, _ = gated
    job = submit(stub, spec)
    behind = submit(stub, compress(output="data/behind"))
    assert gate.reached.wait(30)
    assert stub.CancelJob(pb.CancelJobRequest(id=behind.id)).job.state == pb.JOB_STATE_CANCELLED
    assert stub.CancelJob(pb.CancelJobRequest(id=job.id)).job.cancel_requested
    assert watch(stub, job)[-1].state == pb.JOB_STATE_CANCELLED
    assert stub.CancelJob(pb.CancelJobRequest(id=job.id)).job.state == pb.JOB_STATE_CANCELLED
    assert sorted(path.name for path in data.iterdir()) == ["text", "tree"]


@pytest.mark.parametrize("spec", [compress(), create()], ids=["file", "archive"])
def test_a_job_that_a_drain_interrupts_goes_on_at_the_next_start(tmp_path: Path, data: Path, spec: pb.JobSpec) -> None:
    gate = Gate()
    service = make_service(tmp_path, gate)
    with served(service) as stub:
        service.start()
        job = submit(stub, spec)
        assert gate.reached.wait(30)
        answers = stub.WatchJob(pb.WatchJobRequest(id=job.id), timeout=60)
        assert next(answers).job.state == pb.JOB_STATE_RUNNING
        stopping = threading.Thread(target=service.stop, args=(0.1,))
        stopping.start()
        assert refused(lambda: list(answers)) == (Code.UNAVAILABLE, "DRAINING")
        stopping.join()
        service.stop = lambda grace: None  # type: ignore[method-assign]
    again = make_service(tmp_path)
    with served(again) as stub:
        assert stub.GetJob(pb.GetJobRequest(id=job.id)).job.state == pb.JOB_STATE_QUEUED
        again.start()
        ended = watch(stub, job)[-1]
    assert (ended.state, ended.attempts) == (pb.JOB_STATE_SUCCEEDED, 2)
    left = "text.spc" if spec.HasField("compress_file") else "a.spca"
    assert sorted(path.name for path in data.iterdir()) == sorted(["text", "tree", left])


def test_jobs_that_would_be_in_each_others_way_run_one_after_the_other(tmp_path: Path, data: Path) -> None:
    gate, seen = Gate(), []

    def before(call: Call) -> None:
        seen.append(call.caller)
        if call.caller == "first":
            gate(call)

    service = make_service(tmp_path, before, workers=3)
    with served(service) as stub:
        service.start()
        submit(stub, compress(), "first")
        assert gate.reached.wait(30)
        blocked = submit(stub, compress("data/text", "data/text.spc", force=True), "second")
        free = submit(stub, compress(output="data/free"), "third")
        list(stub.WatchJob(pb.WatchJobRequest(id=free.id), timeout=60, metadata=(("caller", "third"),)))
        assert "second" not in seen
        gate.open()
        list(stub.WatchJob(pb.WatchJobRequest(id=blocked.id), timeout=60, metadata=(("caller", "second"),)))
        assert "second" in seen


def test_the_file_of_jobs_must_not_be_where_jobs_write(tmp_path: Path) -> None:
    with pytest.raises(speccompact.SpecCompactError, match="outside"):
        make_service_at(tmp_path)


def make_service_at(folder: Path) -> JobService:
    os.symlink(folder, folder / "data")
    return make_service(folder)
