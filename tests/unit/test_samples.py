"""The shipped samples run, and their texts are what they claim to be."""

import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from speccompact import archive
from speccompact.modelstore.registry import DEFAULT_MODEL
from speccompact_cli.archive_cmd import archive_command
from tests.fakes import FakeEngines
from tests.source_tree import ROOT
from tests.tiny_gguf import tiny_llama

SAMPLES = ROOT / "samples"
EXPECTED = {
    "quickstart.py": ["the same bytes came back"],
    "random_access.py": [" model slots", "at the end:      hand so small", "from the middle: thirty years"],
    "salvage.py": [" model slots", "decompress refuses: ", "saved ", "lost bytes "],
}


def run_sample(script: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", [str(script), *arguments])
    runpy.run_path(str(script), run_name="__main__")


@pytest.mark.parametrize("name", EXPECTED)
def test_a_sample_runs(
    name: str, fake_engines: FakeEngines, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_sample(SAMPLES / name, monkeypatch)
    assert fake_engines.loads > 0
    out = capsys.readouterr().out
    assert all(words in out for words in EXPECTED[name]), out


@pytest.mark.real_model
@pytest.mark.parametrize("name", EXPECTED)
def test_a_sample_runs_with_the_real_model(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_sample(SAMPLES / name, monkeypatch, DEFAULT_MODEL)
    out = capsys.readouterr().out
    assert all(words in out for words in EXPECTED[name]), out
    assert " 0 model slots" not in out, "the model was never asked"


def test_a_model_is_tuned_on_a_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPECCOMPACT_HOME", str(tmp_path / "store"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    path = tiny_llama().write(tmp_path / "tiny.gguf")
    fast = "--tokens=1024 --batch=512 --micro-batch=256 --length=64 --rank=2 --threads=1 --evaluate-tokens=128"
    run_sample(SAMPLES / "tune_on_log.py", monkeypatch, str(SAMPLES / "service.log"), str(path), *fast.split())
    said = capfd.readouterr().out
    for name in ("before-tuning", "tuned-on-a-log"):
        assert re.search(rf"{name}: \d+ bytes became \d+, ", said), said


def test_a_tree_is_archived_by_an_executor_of_another_kind(
    fake_engines: FakeEngines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the local engine in place of a cluster, which tests of its own start."""
    with pytest.raises(SystemExit) as ended:
        run_sample(SAMPLES / "archive_on_ray.py", monkeypatch, "local", f"{tmp_path}/a.spca", str(SAMPLES))
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert re.search(r"^group 1: \d+ -> \d+ bytes$", out, re.MULTILINE), out
    assert re.search(r"^\d+ entries, \d\.\d{3} bpb, 0 left out$", out, re.MULTILINE), out
    with archive.ArchiveFile(f"{tmp_path}/a.spca") as file:
        assert b"samples/quickstart.py" in file.entries


def test_nightly_jobs_call_commands_that_there_are(tmp_path: Path) -> None:
    """Every line that a timer or cron runs is one that the command line takes, and the shell too."""
    unit = (SAMPLES / "nightly" / "speccompact-nightly.service").read_text().replace("\\\n", "")
    scripts = re.findall(r"^ExecStart(?:Post)?=/bin/sh -ec '(.*)'$", unit, re.MULTILINE)
    table = [line for line in (SAMPLES / "nightly" / "crontab").read_text().splitlines() if not line.startswith("#")]
    scripts += [line.split(maxsplit=5)[5] for line in table]
    assert len(scripts) == 4
    commands = [found for script in scripts for found in re.findall(r"speccompact archive [^;]*", script)]
    assert len(commands) == 5
    for command in commands:
        words = shlex.split(command)[2:]
        found = archive_command.commands[words[0]]
        assert found.make_context(words[0], words[1:]).params["archive"], command
    for script in scripts:
        assert subprocess.run(["sh", "-n", "-c", script], check=False).returncode == 0, script


def test_the_log_is_what_its_script_prints(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run_sample(SAMPLES / "make_log.py", monkeypatch)
    assert capsys.readouterr().out == (SAMPLES / "service.log").read_text("utf-8")


def test_every_sample_is_run() -> None:
    assert {path.name for path in SAMPLES.glob("*.py")} == set(EXPECTED) | {
        "archive_on_ray.py",
        "make_log.py",
        "many_texts.py",  # by the tests of clients, which have a service
        "tune_on_log.py",
    }
