"""The shipped samples run, and their texts are what they claim to be."""

import os
import re
import runpy
import sys
from pathlib import Path

import pytest

from speccompact.modelstore.registry import DEFAULT_MODEL
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


def test_the_log_is_what_its_script_prints(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run_sample(SAMPLES / "make_log.py", monkeypatch)
    assert capsys.readouterr().out == (SAMPLES / "service.log").read_text("utf-8")


def test_every_sample_is_run() -> None:
    assert {path.name for path in SAMPLES.glob("*.py")} == set(EXPECTED) | {"make_log.py", "tune_on_log.py"}
