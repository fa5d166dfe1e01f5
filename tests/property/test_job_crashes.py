"""Jobs whose service is killed, with SIGKILL and at any moment, end with the right bytes at the next start.

SPECCOMPACT_KILLS says how often the service is killed.
"""

import os
import random
import shutil
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
from speccompact_grpc.v1 import speccompact_pb2 as pb
from speccompact_grpc.v1 import speccompact_pb2_grpc as pb_grpc
from tests.archive_trees import facts, make_tree, pack
from tests.fakes import FakeEngines, prose
from tests.source_tree import ROOT

KILLS = int(os.environ.get("SPECCOMPACT_KILLS", "5"))
LONGEST = 0.5  # seconds from the start of a service to its end
TEXTS = 6


@contextmanager
def service(folder: Path) -> Iterator[tuple[subprocess.Popen[str], pb_grpc.JobServiceStub]]:
    """Run the service in a process of its own; it is killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.job_server", str(folder), "20"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "cli", ROOT / "proto")))},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        port = int(process.stdout.readline())
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield process, pb_grpc.JobServiceStub(channel)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdin.close()
        process.stdout.close()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    data.mkdir()
    for number in range(TEXTS):
        (data / f"{number}.txt").write_bytes(prose(60_000 + number, number))
        (data / f"{number}.packed").write_bytes(
            speccompact.compress((data / f"{number}.txt").read_bytes(), level=2, engines=FakeEngines())
        )
    make_tree(data / "tree")
    (data / "more").mkdir()
    for number in range(6):
        (data / "more" / f"{number}.txt").write_bytes(prose(5000 + number, 50 + number))
    pack(data / "base.spca", data / "tree", slot_tokens=16)
    shutil.copy(data / "base.spca", data / "grown.spca")
    return data


def specs() -> list[pb.JobSpec]:
    options = pb.CompressOptions(level=2)
    small = pb.CompressOptions(level=2, slot_tokens=16)
    made = [
        pb.JobSpec(archive_create=pb.ArchiveCreateJob(sources=["data/tree"], output="data/new.spca", options=small)),
        pb.JobSpec(archive_append=pb.ArchiveAppendJob(sources=["data/more"], archive="data/grown.spca", options=small)),
        pb.JobSpec(archive_extract=pb.ArchiveExtractJob(archive="data/base.spca", target="data/out")),
        pb.JobSpec(archive_verify=pb.ArchiveVerifyJob(archive="data/base.spca")),
    ]
    for number in range(TEXTS):
        source, output = f"data/{number}.txt", f"data/{number}.spc"
        made.append(pb.JobSpec(compress_file=pb.CompressFileJob(source=source, output=output, options=options)))
        source, output = f"data/{number}.packed", f"data/{number}.back"
        made.append(pb.JobSpec(decompress_file=pb.DecompressFileJob(source=source, output=output)))
    return made


def test_every_job_ends_with_the_right_bytes(tmp_path: Path, data: Path) -> None:
    source = random.Random(11)
    with service(tmp_path) as (_, stub):
        wanted = [stub.SubmitJob(pb.SubmitJobRequest(spec=spec)).job.id for spec in specs()]
        time.sleep(source.random() * LONGEST)
    for _ in range(KILLS - 1):
        with service(tmp_path):
            time.sleep(source.random() * LONGEST)
    with service(tmp_path) as (_, stub):
        jobs = [list(stub.WatchJob(pb.WatchJobRequest(id=id), timeout=120))[-1].job for id in wanted]
    assert [job.error.message for job in jobs if job.state != pb.JOB_STATE_SUCCEEDED] == []
    assert max(job.attempts for job in jobs) > 1
    for number in range(TEXTS):
        assert (data / f"{number}.spc").read_bytes() == (data / f"{number}.packed").read_bytes()
        assert (data / f"{number}.back").read_bytes() == (data / f"{number}.txt").read_bytes()
    assert (data / "new.spca").read_bytes() == (data / "base.spca").read_bytes()
    assert facts(data / "out" / "tree") == facts(data / "tree")
    shutil.copy(data / "base.spca", tmp_path / "own.spca")
    append_to(tmp_path / "own.spca", data / "more")
    assert (data / "grown.spca").read_bytes() == (tmp_path / "own.spca").read_bytes()
    known = {"tree", "more", "out", "base.spca", "new.spca", "grown.spca"}
    ends = (".txt", ".packed", ".spc", ".back")
    assert [path.name for path in data.iterdir() if path.name not in known and path.suffix not in ends] == []


def append_to(archive: Path, source: Path) -> None:
    from speccompact.archive.appending import append
    from speccompact.archive.groupexecutors import LocalExecutor
    from speccompact.archive.request import Request
    from speccompact.options import Options

    request = Request((str(source),), level=2, slot_tokens=16)
    append(str(archive), request, executor=LocalExecutor(Options(), FakeEngines()))
