"""`speccompact train drafter`, `train labels` and `train model`, in this process."""

import json
import signal
from pathlib import Path

import pytest

from speccompact.training import labelling
from speccompact.training.trainer import Interrupted
from speccompact_cli.exit_codes import FAILURE, MODEL, SIGNAL_BASE, SUCCESS, USAGE
from speccompact_cli.main import run
from tests.tiny_corpus import write_home

FAST = (
    *("--batch=256", "--micro-batch=256", "--length=64", "--learning-rate=0.01", "--evaluate-tokens=128"),
    *("--listed=100", "--counted=2000", "--embed=8", "--width=16", "--inner=16", "--rank=8", "--threads=1"),
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus and a model."""
    return write_home(tmp_path_factory.mktemp("home"))


def arguments(home: Path, out: Path, *more: str) -> list[str]:
    model = str(home / "tiny.gguf")
    start = ["train", "drafter", "--corpus", str(home / "corpus"), "-o", str(out), "--model", model]
    return [*start, "--tokens=1024", *FAST, *more]


def refuse(*_arguments: object) -> None:
    raise AssertionError("the model was asked for")


def test_train(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments(home, tmp_path / "out")) == SUCCESS
    said = capsys.readouterr()
    assert [line.split()[0] for line in said.out.splitlines()] == ["kind", "logs", "prose", "text", "mean"]
    assert "the learning rate will not reach its peak" in said.err
    assert "there are few tokens to measure with" in said.err
    assert run(arguments(home, tmp_path / "out", "--resume", "--loss=kl")) == USAGE
    assert "--loss is kl, but the run began with tvp" in capsys.readouterr().err


def test_labels_and_json(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels = str(tmp_path / "labels")
    asked = ["train", "labels", "--corpus", str(home / "corpus"), "-o", labels, "--model", str(home / "tiny.gguf")]
    assert run([*asked, "--tokens=512", "--batch=256", "--length=64", "--top=4"]) == SUCCESS
    assert "512 tokens; next: speccompact train drafter --labels" in capsys.readouterr().err
    assert run(arguments(home, tmp_path / "out", "--labels", labels, "--json", "-q", "--loss=lk")) == SUCCESS
    result = json.loads(capsys.readouterr().out)
    assert set(result) == {"tokens", "seconds", "mean_tokens_per_pass", "trust_bits", "held_out"}
    assert set(result["held_out"]["prose"]) == {"tokens_per_pass", "acceptance"}


def test_model(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = ["--corpus", str(home / "corpus"), "-o", str(tmp_path / "out"), "--model", str(home / "tiny.gguf")]
    asked = ["train", "model", *folders, "--tokens=512", *FAST[:5], "--threads=1", "--layers=0"]
    assert run(asked) == SUCCESS
    said = capsys.readouterr()
    assert [line.split()[0] for line in said.out.splitlines()] == ["kind", "logs", "prose", "text", "mean"]
    assert "next: speccompact models convert" in said.err
    assert "the learning rate will not reach its peak" in said.err
    assert run([*asked, "--resume", "--tokens=768"]) == SUCCESS
    assert "the run was to have 512 tokens; it goes on at 256" in capsys.readouterr().err
    assert run([*asked, "--resume"]) == USAGE
    assert "no checkpoint from before the learning rate would fall" in capsys.readouterr().err
    assert run([*asked, "--new=1,16,2,24"]) == USAGE
    assert "leave one out" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (["--text"], USAGE, "--text is about labels"),
        (["--new=1,2"], USAGE, '--new is "1,2"; write it as'),
        (["--corpus=/nowhere"], FAILURE, "/nowhere: no such folder"),
        (["--labels=/nowhere"], FAILURE, "/nowhere: No such file"),
        (["-o", "/dev/null/out"], FAILURE, "/dev/null: this is no folder"),
        (["--resume"], USAGE, "--resume finds no checkpoint"),
    ],
)
def test_no_model_is_fetched_for_one_that_cannot_be_made(
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    more: list[str],
    code: int,
    message: str,
) -> None:
    monkeypatch.setattr("speccompact.training.tuning.load_base", refuse)
    asked = ["train", "model", "--corpus", str(home / "corpus"), "-o", str(tmp_path / "out"), *more]
    assert run(asked) == code
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (["--device=cuda"], USAGE, '--device is "cuda"; labels are made on the cpu'),
        (["--batch=512", "--length=1024"], USAGE, "--batch is 512; it must hold a sequence of 1024 tokens"),
        (["-o", "/nowhere/labels"], USAGE, "there is no folder /nowhere"),
        (["-o", "/"], USAGE, "exists already"),
        (["--top=0"], USAGE, "--top is 0"),
        (["--corpus=/nowhere"], FAILURE, "/nowhere: no such folder"),
    ],
)
def test_labels_that_cannot_be_made(
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    more: list[str],
    code: int,
    message: str,
) -> None:
    monkeypatch.setattr("speccompact.training.tuning.load_base", refuse)
    asked = ["train", "labels", "--corpus", str(home / "corpus"), "-o", str(tmp_path / "labels")]
    assert run([*asked, "--model", str(home / "tiny.gguf"), "--length=64", "--threads=1", *more]) == code
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert message in said.err


def test_labels_that_are_stopped(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_arguments: object, **_settings: object) -> int:
        raise Interrupted

    monkeypatch.setattr(labelling, "make_labels", stopped)
    asked = ["train", "labels", "--corpus", str(home / "corpus"), "-o", str(tmp_path / "labels")]
    assert run([*asked, "--model", str(home / "tiny.gguf"), "--length=64"]) == SIGNAL_BASE + signal.SIGTERM
    assert "no labels were kept" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (["--text"], USAGE, "--text is about labels"),
        (["--loss=l2"], USAGE, '--loss is "l2"; choose one of'),
        (["--weights=l2"], USAGE, '--weights is "l2"; choose one of'),
        (["--stride=0"], USAGE, "--stride is 0"),
        (["--device=cuda"], USAGE, "drafters are trained on the cpu"),
        (["--corpus=/nowhere"], FAILURE, "/nowhere: no such folder"),
        (["--held-out=/dev/null"], FAILURE, "/dev/null: this is no folder"),
        (["--labels=/nowhere"], FAILURE, "/nowhere: No such file"),
        (["--labels=/dev/null"], MODEL, "/dev/null"),
        (["-o", "/dev/null/out"], FAILURE, "/dev/null: this is no folder"),
        (["--resume"], USAGE, "--resume finds no checkpoint"),
        (["-qv"], USAGE, "-q and -v exclude each other"),
    ],
)
def test_errors_are_one_line_and_nothing_is_fetched_before(
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    more: list[str],
    code: int,
    message: str,
) -> None:
    monkeypatch.setattr("speccompact.training.tuning.load_base", refuse)
    assert run(arguments(home, tmp_path / "out", *more)) == code
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert message in said.err
    assert not (tmp_path / "out").exists()
