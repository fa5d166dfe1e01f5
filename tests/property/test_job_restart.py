"""Jobs of the real service, with the tiny model: stopped or killed in mid-job, they end with the library's bytes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

import speccompact
from docs.serviceprobe import free_port
from speccompact_grpc.v1 import speccompact_pb2 as pb
from speccompact_grpc.v1 import speccompact_pb2_grpc as pb_grpc
from tests.archive_trees import facts
from tests.source_tree import ROOT
from tests.tiny_model import TINY_EXACT, babble

SIZE = 60_000


@contextmanager
def service(folder: Path, end: signal.Signals = signal.SIGTERM) -> Iterator[pb_grpc.JobServiceStub]:
    """Run ``speccompact serve`` in a process of its own, and end it by a signal."""
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "speccompact_cli", "serve", "--listen", address, "--models", str(TINY_EXACT)]
    command += ["--jobs", str(folder / "jobs.sqlite"), "--jobs-roots", str(folder / "data"), "--jobs-workers", "2"]
    command += ["--threads", "1", "--drafter", "suffix", "--drain-seconds", "0.2"]
    path = os.pathsep.join(map(str, (ROOT, ROOT / "cli", ROOT / "proto")))
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, stderr=subprocess.DEVNULL)
    try:
        with grpc.insecure_channel(address) as channel:
            grpc.channel_ready_future(channel).result(120)
            yield pb_grpc.JobServiceStub(channel)
    finally:
        process.send_signal(end)
        assert process.wait(60) == (0 if end == signal.SIGTERM else -end)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    (data / "tree" / "deep").mkdir(parents=True)
    (data / "text").write_text(babble(SIZE), "utf-8")
    for number in range(8):
        (data / "tree" / "deep" / f"{number}.txt").write_text(babble(SIZE // 8, number), "utf-8")
    return data


def at_work(stub: pb_grpc.JobServiceStub, ids: list[str], attempt: int) -> bool:
    """Wait until all jobs have got on in a run of the service, and return whether one of them is not done yet."""
    latest = time.monotonic() + 60
    while time.monotonic() < latest:
        jobs = [stub.GetJob(pb.GetJobRequest(id=id)).job for id in ids]
        if all(
            job.state > pb.JOB_STATE_RUNNING or (job.attempts == attempt and job.progress.done_bytes) for job in jobs
        ):
            break
        time.sleep(0.01)
    return any(job.state == pb.JOB_STATE_RUNNING for job in jobs)


def test_jobs_survive_the_ends_of_the_service(tmp_path: Path, data: Path) -> None:
    options = pb.CompressOptions(level=1, slot_tokens=64)
    file = pb.CompressFileJob(source="data/text", output="data/text.spc", options=options)
    tree = pb.ArchiveCreateJob(sources=["data/tree"], output="data/tree.spca", options=options)
    with service(tmp_path, signal.SIGKILL) as stub:
        ids = [
            stub.SubmitJob(pb.SubmitJobRequest(spec=spec)).job.id
            for spec in (pb.JobSpec(compress_file=file), pb.JobSpec(archive_create=tree))
        ]
        assert at_work(stub, ids, 1)
    with service(tmp_path, signal.SIGTERM) as stub:
        assert at_work(stub, ids, 2)
    with service(tmp_path) as stub:
        jobs = [list(stub.WatchJob(pb.WatchJobRequest(id=id), timeout=120))[-1].job for id in ids]
        back = pb.ArchiveExtractJob(archive="data/tree.spca", target="data/back")
        id = stub.SubmitJob(pb.SubmitJobRequest(spec=pb.JobSpec(archive_extract=back))).job.id
        jobs.append(list(stub.WatchJob(pb.WatchJobRequest(id=id), timeout=120))[-1].job)
    assert [(job.state, job.error.message) for job in jobs] == [(pb.JOB_STATE_SUCCEEDED, "")] * 3
    assert max(job.attempts for job in jobs) == 3
    content = (data / "text").read_bytes()
    wanted = speccompact.compress(content, level=1, slot_tokens=64, model=str(TINY_EXACT))
    assert (data / "text.spc").read_bytes() == wanted
    assert facts(data / "back" / "tree") == facts(data / "tree")
    assert sorted(path.name for path in data.iterdir()) == ["back", "text", "text.spc", "tree", "tree.spca"]
