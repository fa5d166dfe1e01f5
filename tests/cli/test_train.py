"""`speccompact train adapter`, in this process and, where signals matter, in one of its own."""

import json
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from speccompact.training.evaluation import SETTLED
from speccompact.training.trainer import Report
from speccompact_cli.exit_codes import FAILURE, MODEL, SIGNAL_BASE, SUCCESS, USAGE
from speccompact_cli.main import run
from speccompact_cli.train_common import StopRequest, progress_fields
from tests.cli.processes import outcome, own_environment, spawn
from tests.tiny_corpus import write_home

FAST = (
    *("--tokens=2048", "--batch=512", "--micro-batch=256", "--length=64", "--rank=2", "--learning-rate=0.01"),
    *("--warm-up=512", "--evaluate-tokens=128", "--evaluate-every=1024", "--threads=1"),
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus and a model."""
    return write_home(tmp_path_factory.mktemp("home"))


def arguments(home: Path, out: Path, *more: str) -> list[str]:
    model = str(home / "tiny.gguf")
    return ["train", "adapter", "--corpus", str(home / "corpus"), "-o", str(out), "--model", model, *FAST, *more]


def test_train_then_convert(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPECCOMPACT_HOME", str(tmp_path / "store"))
    assert run(arguments(home, tmp_path / "out")) == SUCCESS
    said = capsys.readouterr()
    assert [line.split()[0] for line in said.out.splitlines()] == ["kind", "logs", "prose", "text", "mean"]
    assert "1024 tokens: held-out bits " in said.err
    assert "the integers of the exact model will not be simulated: the run has only 4 steps" in said.err
    assert (
        "there are few tokens to measure with, so that changes are rough: logs (128), prose (128), text (" in said.err
    )
    assert "next: speccompact models convert" in said.err
    adapter = str(tmp_path / "out" / "adapter.safetensors")
    assert run(["models", "convert", str(home / "tiny.gguf"), "--adapter", adapter, "--name", "tuned"]) == SUCCESS
    assert "tuned:" in capsys.readouterr().err


def test_adapters_of_two_runs_are_averaged(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second, out = (str(tmp_path / name / "adapter.safetensors") for name in ("first", "second", "mean"))
    assert run([*arguments(home, tmp_path / "first"), "-q"]) == SUCCESS
    assert run([*arguments(home, tmp_path / "second", f"--start={first}"), "-q"]) == SUCCESS
    capsys.readouterr()
    average = ["train", "average", first, second, "-o", str(tmp_path / "mean"), "--model", str(home / "tiny.gguf")]
    average += ["--held-out", str(home / "corpus"), "--evaluate-tokens=128", "--evaluate-length=64"]
    assert run(average) == SUCCESS
    said = capsys.readouterr()
    assert [line.split()[0] for line in said.out.splitlines()] == ["kind", "logs", "prose", "text", "mean"]
    assert float(said.out.split()[-1].rstrip("%")) < -1
    assert f"--adapter {out} --name NAME" in said.err
    assert run([*average, "-q"]) == USAGE
    assert "holds a result already" in capsys.readouterr().err
    assert run([*average, "--evaluate-length=0"]) == USAGE
    assert "--evaluate-length is 0" in capsys.readouterr().err


def test_json(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    every_weight = [word for word in arguments(home, tmp_path / "out", "--full") if not word.startswith("--rank")]
    assert run([*every_weight, "--json", "-q", "--mix", "logs=0", "--device", "cpu:0"]) == SUCCESS
    said = capsys.readouterr()
    result = json.loads(said.out)
    assert set(result) == {"tokens", "seconds", "mean_change_percent", "held_out"}
    assert set(result["held_out"]["prose"]) == {"start_bpb", "end_bpb", "change_percent"}
    assert (result["tokens"], said.err) == (2048, "")


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (["--corpus=/nowhere"], FAILURE, "/nowhere: no such folder"),
        (["--corpus=/dev/null"], FAILURE, "/dev/null: this is no folder"),
        (["--start=/nowhere"], FAILURE, "/nowhere: No such file"),
        (["-o", "/dev/null/out"], FAILURE, "/dev/null: this is no folder"),
        (["-qv"], USAGE, "-q and -v exclude each other"),
        (["--model=/nowhere.gguf"], MODEL, "/nowhere.gguf"),
        (["--mix=logs"], USAGE, '--mix is "logs"; write it as KIND=WEIGHT'),
        (["--mix=logs=1", "--mix=logs=2"], USAGE, '--mix gives "logs" two weights'),
        (["--full"], USAGE, "--rank is for adapters"),
        (["--micro-batch=0"], USAGE, "--micro-batch is 0; it must hold"),
        (["--rank=33"], USAGE, "--rank is 33, but the model is only 32 wide"),
        (["--compile"], USAGE, "--compile needs a C++ compiler, and there is no '/nowhere/g++'"),
        (["--mix=cats=1"], USAGE, '--mix names the kind "cats"'),
        (["--learning-rate=-1"], USAGE, "--learning-rate is -1.0; choose more than 0"),
        (["--batch=500"], USAGE, "--batch is 500; choose a multiple of 256"),
        (["--length=1000"], USAGE, "--micro-batch is 256; it must hold"),
        (["--device=cuda:99"], USAGE, "--device is"),
        (["--resume"], USAGE, "--resume finds no checkpoint"),
        (["--held-out=/nowhere"], FAILURE, "/nowhere: no such folder"),
        (["--tokens=0"], USAGE, "--tokens is 0; choose 1 or more\n"),
    ],
)
def test_errors_are_one_line(
    home: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    more: list[str],
    code: int,
    message: str,
) -> None:
    monkeypatch.setenv("CXX", "/nowhere/g++")
    assert run(arguments(home, tmp_path / "out", *more)) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert message in said.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "more", [["--corpus=/nowhere"], ["--held-out=/nowhere"], ["-o", "/dev/null"], ["--resume"], ["--start=/nowhere"]]
)
def test_nothing_is_fetched_for_what_cannot_begin(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], more: list[str]
) -> None:
    def refuse(*_arguments: object) -> None:
        raise AssertionError("the model was asked for")

    monkeypatch.setattr("speccompact.training.tuning.load_base", refuse)
    assert run(arguments(home, tmp_path / "out", *more)) in (FAILURE, USAGE)
    average = ["train", "average", "a", "b", "-o", str(tmp_path / "mean"), "--held-out", str(home / "corpus")]
    assert run(average) == FAILURE
    assert capsys.readouterr().err.endswith("speccompact: a: No such file or directory\n")


def test_the_missing_extra_is_told_before_anything_is_done(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert run(arguments(home, tmp_path / "out")) == USAGE
    assert "[train]" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_output_that_cannot_be_a_folder(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out").write_text("")
    assert run(arguments(home, tmp_path / "out")) == 1
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_writes_a_checkpoint_and_resume_goes_on(home: Path, tmp_path: Path, signum: signal.Signals) -> None:
    endless = arguments(home, tmp_path / "out", "--tokens=100000000", "-q")
    process = spawn(own_environment(), *endless, cwd=tmp_path)
    metrics = tmp_path / "out" / "metrics.jsonl"
    while not (metrics.exists() and metrics.read_bytes().count(b'"bits"') > 2):
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signum)
    code, out, said = outcome(process)
    assert (code, out) == (SIGNAL_BASE + signum, b"")
    assert said.count("\n") == 1
    assert (tmp_path / "out" / "last.safetensors").exists()
    assert run(arguments(home, tmp_path / "out", "--resume", "-q", "--tokens=100000000", "--seed=1")) == USAGE
    steps = metrics.read_bytes().count(b'"bits"')
    tokens = str(512 * (2 * steps + 10))
    assert run(arguments(home, tmp_path / "out", "--resume", "-q", f"--tokens={tokens}")) == SUCCESS


def test_the_second_signal_is_not_held_back() -> None:
    request = StopRequest()
    with request.listening():
        signal.raise_signal(signal.SIGINT)
        assert request()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert request.signum == signal.SIGINT


def test_progress_line() -> None:
    first = Report("reading", 0, 1000, None, None, None, None)
    assert progress_fields(first) == ["reading    0%", "0/1000 tokens"]
    later = Report("training", 500, 1000, 2.5, -3.0, 120.0, 75.0)
    fields = ["training   50%", "1:15 left", "held-out -3.00 %", "loss 2.500", "120 tokens/s", "500/1000 tokens"]
    assert progress_fields(later) == fields
    fields[2] = "held-out tokens per pass -3.00 %"
    assert progress_fields(replace(later, figure=SETTLED)) == fields
