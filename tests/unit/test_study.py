"""The script of docs/ behind the studies of tuning: its settings exist, and a study runs and is resumable."""

import json
import os
import runpy
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from speccompact_cli.train_cmd import adapter_command
from tests.source_tree import ROOT
from tests.tiny_corpus import write_home

SCRIPT = ROOT / "docs" / "study.py"
SMALL = ["--batch=512", "--micro-batch=256", "--length=64", "--evaluate-length=64", "--evaluate-tokens=128"]
FAST = [*SMALL, "--tokens=1024", "--evaluate-every=1024", "--rank=2", "--threads=1"]


def names() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


def test_every_setting_is_an_option_of_the_command() -> None:
    known = {option for parameter in adapter_command.params for option in parameter.opts}
    script = names()
    used = {option for runs in script["STUDIES"].values() for changes in runs.values() for option in changes}
    assert used | set(script["COMMON"]) <= known
    assert isinstance(adapter_command, click.Command)


def test_the_folders_of_different_runs_differ() -> None:
    script = names()
    runs = [(script["COMMON"] | changes).items() for study in script["STUDIES"].values() for changes in study.values()]
    different = {tuple(sorted(settings)) for settings in runs}
    assert len({script["folder_name"](dict(settings)) for settings in different}) == len(different)


def test_an_option_given_twice_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = ["--corpus", "c", "--held-out", "h", "-o", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "rank", *folders, "--mix=code=0.1", "--mix=logs=0.2"])
    with pytest.raises(SystemExit):
        runpy.run_path(str(SCRIPT), run_name="__main__")
    assert "an option is given twice" in capsys.readouterr().err


def test_a_study_is_a_table_and_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = write_home(tmp_path)
    (tmp_path / "held").mkdir()
    (tmp_path / "held" / "logs").mkdir()
    (tmp_path / "held" / "logs" / "other.log").write_text("2023-01-01 INFO client response 17 status=404\n" * 20)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    folders = ["--corpus", str(home / "corpus"), "--held-out", str(tmp_path / "held"), "-o", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "full", *folders, f"--model={home / 'tiny.gguf'}", *FAST])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    said = capsys.readouterr().out
    head, _, *rows = said.splitlines()
    assert head == "| full | logs | prose | text | mean |"
    assert [row.split(" | ")[0] for row in rows] == ["| adapter", "| all weights, 1e-4", "| all weights, 1e-5"]
    records = sorted((tmp_path / "out").glob("*/provenance.json"))
    assert [json.loads(record.read_text())["settings"]["rank"] for record in records] == [None, None, 2]
    written = [record.stat().st_mtime_ns for record in records]
    runpy.run_path(str(SCRIPT), run_name="__main__")
    assert capsys.readouterr().out == said
    assert [record.stat().st_mtime_ns for record in records] == written
    (tmp_path / "held" / "logs" / "more.log").write_text("one line more\n")
    with pytest.raises(SystemExit, match="is of another held-out than"):
        runpy.run_path(str(SCRIPT), run_name="__main__")
