"""--remote and jobs, against a service that fails on demand."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

import speccompact
from speccompact_grpc.v1 import speccompact_pb2 as pb
from tests.cli.processes import Run, outcome, own_environment, spawn
from tests.fake_service import FakeService, refuse, serving, spoil
from tests.fakes import FakeEngines, prose

TEXT = prose(150_000)
DENIED = refuse(grpc.StatusCode.UNAUTHENTICATED, "unknown token", "TOKEN")


@pytest.fixture
def service() -> FakeService:
    return FakeService()


@pytest.fixture
def remote(service: FakeService) -> Iterator[str]:
    with serving(service) as address:
        yield f"--remote={address}"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_bytes(TEXT)
    return path


def only(folder: Path) -> list[str]:
    """Return the names of all files in a folder, hidden ones among them."""
    return sorted(path.name for path in folder.iterdir())


def test_there_and_back(call: Run, text: Path, remote: str, service: FakeService) -> None:
    text.chmod(0o600)
    code, out, said = call("compress", "-3", remote, "text.txt")
    assert (code, out) == (0, b"")
    assert said.startswith("text.txt: 150 kB → ")
    packed = text.with_name("text.txt.spc")
    assert packed.read_bytes() == speccompact.compress(TEXT, level=3, engines=FakeEngines())
    assert packed.stat().st_mode & 0o777 == 0o600
    text.unlink()
    assert call("decompress", "--rm", remote, "text.txt.spc")[0] == 0
    assert text.read_bytes() == TEXT
    assert only(text.parent) == ["text.txt"]
    assert service.calls == ["Compress", "Decompress"]


def test_what_the_other_options_do(call: Run, text: Path, remote: str) -> None:
    slots = ("--slot-tokens=64", "--group=0", "--priority=high", "--timeout=60", "--model=fake")
    assert call("compress", *slots, remote, "text.txt")[0] == 0
    packed = text.with_name("text.txt.spc").read_bytes()
    assert packed == speccompact.compress(TEXT, slot_tokens=64, group_frames=0, engines=FakeEngines())
    assert call("decompress", remote, "--range=1000:20", "text.txt.spc")[1] == TEXT[1000:1020]
    assert call("decompress", "-c", remote, "--max-output=9", "text.txt.spc")[0] == 5
    code, out, said = call("decompress", "-c", remote, "--stats", "text.txt.spc")
    assert (code, out) == (0, TEXT)
    assert "suffix: 2 of 4 drafted tokens were right" in said
    text.with_name("bad.spc").write_bytes(packed[:9000] + b"!!" + packed[9002:])
    code, _, said = call("decompress", remote, "--salvage", "bad.spc", "-o", "saved")
    assert code == 3
    assert "lost bytes" in said


def test_inspection(call: Run, text: Path, remote: str) -> None:
    assert call("compress", remote, "text.txt")[0] == 0
    mine, theirs = call("inspect", "--json", "text.txt.spc"), call("inspect", "--json", remote, "text.txt.spc")
    assert mine == theirs
    code, out, _ = call("inspect", "-v", remote, "text.txt.spc")
    assert code == 0
    assert "  model       fake (66616b65" in out.decode()


@pytest.mark.parametrize("how", ["cut", "swap", "double", "count", "break"])
@pytest.mark.parametrize("command", ["compress", "decompress"])
def test_an_answer_that_is_wrong_leaves_no_file(
    call: Run, tmp_path: Path, remote: str, service: FakeService, command: str, how: str
) -> None:
    if command == "decompress" and how == "double":
        return
    (tmp_path / "text.txt").write_bytes(TEXT)
    (tmp_path / "old.spc").write_bytes(speccompact.compress(TEXT, engines=FakeEngines()))
    name = "text.txt" if command == "compress" else "old.spc"
    service.faults.append(spoil(how))
    code, out, said = call(command, remote, "--rm", name)
    assert (code, out) == (69, b"")
    assert said.startswith(f"speccompact: {name}: ")
    assert only(tmp_path) == ["old.spc", "text.txt"]
    target = tmp_path / "kept"
    target.write_bytes(b"old")
    service.faults.append(spoil(how))
    assert call(command, "-f", remote, name, "-o", "kept")[0] == 69
    assert target.read_bytes() == b"old"


def test_one_failure_does_not_stop_the_others(call: Run, text: Path, remote: str, service: FakeService) -> None:
    text.with_name("more.txt").write_bytes(TEXT)
    service.faults.append(DENIED)
    code, _, said = call("compress", remote, "text.txt", "absent", "more.txt")
    assert code == 69
    assert "text.txt: the service at" in said
    assert "refuses: unknown token" in said
    assert only(text.parent) == ["more.txt", "more.txt.spc", "text.txt"]


def test_errors_of_the_library_keep_their_codes(call: Run, text: Path, remote: str, service: FakeService) -> None:
    assert call("decompress", remote, "-c", "text.txt")[0] == 3
    service.faults.append(refuse(grpc.StatusCode.NOT_FOUND, "no model", "MODEL_MISSING", 31))
    assert call("compress", remote, "text.txt")[0] == 4
    service.faults.append(refuse(grpc.StatusCode.RESOURCE_EXHAUSTED, "too long", "SIZE"))
    assert call("compress", remote, "text.txt")[0] == 5
    service.faults.append(spoil("wait"))
    code, _, said = call("compress", remote, "--timeout=0.3", "text.txt")
    assert code == 69
    assert "was not done in time" in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--remote=nowhere", "-"), '--remote is "nowhere"; give HOST:PORT'),
        (("--remote=a b:1", "-"), "give HOST:PORT, with an IPv6 host in brackets"),
        (("--remote=1.2.3.4:1", "--threads=2", "-"), "--threads is about work that is done here"),
        (("--tls", "-"), "--tls is about a service; name it with --remote"),
        (("--timeout=5", "-"), "--timeout is about a service"),
        (("--remote=1.2.3.4:1", "--timeout=0", "-"), "--timeout is 0"),
        (("--remote=1.2.3.4:1", "--tls-cert={pem}", "-"), "--tls-cert and key belong together"),
        (("--remote=1.2.3.4:1", "--token-file={pem}", "-"), "--token-file would go over the network in the clear"),
    ],
)
def test_options_that_make_no_sense(call: Run, tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    (tmp_path / "pem").write_text("secret\nmore\n")
    code, _, said = call("compress", *(argument.format(pem="pem") for argument in arguments))
    assert code == 2
    assert words in said


def test_inspection_refuses_what_it_cannot_do(call: Run, text: Path, remote: str) -> None:
    assert call("inspect", "--stats", remote, "text.txt")[0] == 2
    assert call("decompress", "--parallel=2", remote, "text.txt")[0] == 2


def test_tokens(call: Run, text: Path, remote: str, service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECCOMPACT_TOKEN", "from-the-environment")
    assert call("compress", "-c", remote, "text.txt")[0] == 0
    text.with_name("token").write_text("from-a-file\n")
    assert call("compress", "-c", remote, "--token-file=token", "text.txt")[0] == 0
    found = [metadata["authorization"] for metadata in service.metadata]
    assert found == ["Bearer from-the-environment", "Bearer from-a-file"]


def test_jobs_from_submission_to_the_end(call: Run, remote: str, service: FakeService) -> None:
    code, out, _ = call("jobs", "submit", "create", "-2", "--include=*.txt", remote, "out/a.spca", "in/a", "in/b")
    assert code == 0
    job_id = out.decode().split()[0]
    assert "queued" in out.decode()
    assert "archive create in/a and 1 more → out/a.spca" in out.decode()
    spec = service.jobs[job_id][-1].spec.archive_create
    assert (list(spec.sources), spec.options.level, list(spec.include)) == (["in/a", "in/b"], 2, ["*.txt"])
    assert not spec.options.HasField("slot_tokens")
    progress = pb.JobProgress(done_bytes=50, total_bytes=100)
    service.jobs[job_id] = [
        pb.Job(id=job_id, state=pb.JOB_STATE_RUNNING, progress=progress),
        pb.Job(id=job_id, state=pb.JOB_STATE_SUCCEEDED, result=pb.JobResult(content_bytes=100)),
    ]
    code, out, _ = call("jobs", "watch", "--json", remote, job_id)
    told = json.loads(out)
    assert (code, told["state"], told["result"]["content_bytes"], told["id"]) == (0, "succeeded", 100, job_id)


@pytest.mark.parametrize(
    ("arguments", "kind", "wanted"),
    [
        (("compress", "in/a", "out/a.spc", "-f"), "compress_file", {"source": "in/a", "force": True}),
        (("decompress", "in/a.spc", "out/a"), "decompress_file", {"output": "out/a", "force": False}),
        (("append", "out/a.spca", "in/b"), "archive_append", {"archive": "out/a.spca", "sources": ["in/b"]}),
        (("extract", "in/a.spca", "out", "x", "y"), "archive_extract", {"target": "out", "paths": ["x", "y"]}),
        (("verify", "--quick", "in/a.spca"), "archive_verify", {"archive": "in/a.spca", "quick": True}),
    ],
)
def test_every_kind_of_job(
    call: Run, remote: str, arguments: tuple[str, ...], kind: str, wanted: dict[str, object]
) -> None:
    code, out, _ = call("jobs", "submit", *arguments, "--json", "--priority=low", remote)
    job = json.loads(out)
    assert (code, job["priority"], list(job["spec"])) == (0, "low", [kind])
    assert {name: job["spec"][kind][name] for name in wanted} == wanted


def test_how_jobs_end(call: Run, remote: str, service: FakeService) -> None:
    error = pb.ErrorStatus(code=15, message="frame 3 is damaged", reason="DAMAGED", number=24)
    left = pb.JobResult(left_out=[pb.LeftOut(path=b"a\xff\n", reason="gone")], left_out_count=2)
    service.jobs = {
        "failed": [pb.Job(id="failed", state=pb.JOB_STATE_FAILED, error=error)],
        "partly": [pb.Job(id="partly", state=pb.JOB_STATE_SUCCEEDED, result=left)],
        "stopped": [pb.Job(id="stopped", state=pb.JOB_STATE_CANCELLED)],
        "new": [pb.Job(id="new", state=pb.JOB_STATE_QUEUED)],
    }
    code, _, said = call("jobs", "get", remote, "failed")
    assert (code, said) == (3, "speccompact: failed: frame 3 is damaged\n")
    code, out, said = call("jobs", "watch", remote, "partly")
    assert code == 6
    assert said == "speccompact: a\\xff\\n: gone\nspeccompact: 2 paths were left out in all; --json lists them\n"
    assert call("jobs", "get", remote, "stopped")[0] == 6
    assert call("jobs", "get", remote, "new")[0] == 0
    assert call("jobs", "cancel", remote, "new")[0] == 0
    assert service.jobs["new"][0].cancel_requested
    code, out, _ = call("jobs", "list", "--state=cancelled", "--json", remote)
    assert [json.loads(line)["id"] for line in out.splitlines()] == ["stopped", "new"]
    assert call("jobs", "get", remote, "nothing")[0] == 6


def test_submitting_and_waiting(call: Run, remote: str, service: FakeService) -> None:
    done = pb.Job(id=f"{0:032x}", state=pb.JOB_STATE_SUCCEEDED)
    service.jobs[done.id] = [done]
    code, out, _ = call("jobs", "submit", "verify", "--wait", "--key=once", remote, "in/a.spca")
    assert code == 0
    assert b"succeeded" in out
    assert list(service.submitted) == ["once"]


def test_a_process_that_is_stopped_leaves_nothing(text: Path, remote: str, service: FakeService) -> None:
    service.faults.append(spoil("wait"))
    process = spawn(own_environment(), "compress", remote, "text.txt", cwd=text.parent)
    assert service.waiting.wait(60)
    process.terminate()
    code, _, said = outcome(process)
    assert (code, said) == (143, "speccompact: ended by signal 15\n")
    assert service.cancelled.wait(60)
    assert only(text.parent) == ["text.txt"]


def test_a_broken_input_is_said_once(text: Path, remote: str) -> None:
    process = spawn(own_environment(), "decompress", remote, "-c", "text.txt", cwd=text.parent)
    code, out, said = outcome(process)
    assert (code, out) == (3, b"")
    assert said.count("\n") == 1


def test_a_client_needs_neither_torch_nor_numba(text: Path, remote: str) -> None:
    script = (
        "import sys; from speccompact_cli.main import run; code = run(sys.argv[1:]);"
        "print(code, *sorted({'torch', 'numba', 'tokenizers'} & set(sys.modules)))"
    )
    for arguments in (("compress", "text.txt"), ("decompress", "-f", "text.txt.spc"), ("inspect", "text.txt.spc")):
        command = [sys.executable, "-c", script, *arguments, remote]
        result = subprocess.run(
            command, env=own_environment(), cwd=text.parent, capture_output=True, text=True, check=True
        )
        assert result.stdout.splitlines()[-1] == "0", result.stdout


def test_without_grpc_the_way_to_it_is_told(call: Run, text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from speccompact import client

    monkeypatch.delattr(client, "Connection", raising=False)
    monkeypatch.setitem(sys.modules, "speccompact.client.connecting", None)
    code, _, said = call("compress", "--remote=127.0.0.1:1", "text.txt")
    assert code == 2
    assert "pip install 'speccompact[client]'" in said


def test_standard_streams(call: Run, text: Path, remote: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with text.open() as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        code, out, _ = call("compress", remote)
    assert (code, speccompact.decompress(out, engines=FakeEngines())) == (0, TEXT)
