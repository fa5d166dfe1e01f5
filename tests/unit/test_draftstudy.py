"""The scripts of docs/ behind the studies of drafters: settings exist, and each script runs on a tiny model."""

import json
import os
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from speccompact.modelstore.checkpoint_hf import write_hf_folder
from speccompact.modelstore.exactfile import read_exact_file
from speccompact.training.tuning import load_base
from speccompact_cli.train_drafter_cmd import drafter_command
from speccompact_cli.train_model_cmd import model_command
from tests.source_tree import ROOT
from tests.tiny_corpus import LOG, write_home
from tests.tiny_model import TINY_EXACT, babble

DOCS = ROOT / "docs"
Said = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus, held-out text and a model."""
    home = write_home(tmp_path_factory.mktemp("home"))
    for kind, text in {"prose": babble(3000, 9), "transcripts_json": LOG[7:1500]}.items():
        (home / "held" / kind).mkdir(parents=True)
        (home / "held" / kind / "a.txt").write_text(text)
    return home


def call(monkeypatch: pytest.MonkeyPatch, script: str, *arguments: str) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    monkeypatch.setattr(sys, "argv", [script, *arguments])
    runpy.run_path(str(DOCS / f"{script}.py"), run_name="__main__")


def folders(home: Path, out: Path) -> list[str]:
    model = ["--model", str(home / "tiny.gguf")]
    return ["--corpus", str(home / "corpus"), "--held-out", str(home / "held"), *model, "-o", str(out)]


def test_every_setting_is_an_option_of_its_command() -> None:
    script = runpy.run_path(str(DOCS / "draftstudy.py"))
    for command, settings in ((drafter_command, ("block", "block + Markov")), (model_command, ("causal",))):
        known = {option for parameter in command.params for option in parameter.opts}
        used = {option for shape in settings for option in script["SHAPES"][shape]}
        assert used | set(script["DRAFT" if command is drafter_command else "MODEL"]) <= known


def test_columns() -> None:
    script = runpy.run_path(str(DOCS / "draftstudy.py"))
    kinds = {"prose": 1.0, "transcripts": 2.0, "transcripts_json": 4.0, "languages/de": 9.0}
    assert script["columns"](kinds) == {"prose": 1.0, "transcripts": 3.0, "mean": 2.0}
    assert script["cell"]([1.0, 1.5]) == "1.250 ± 0.250"
    assert script["table"]("x", {"a": {"prose": "1"}, "b": {"more": "2"}})[2:] == ["| a | 1 |  |", "| b |  | 2 |"]


def test_a_replay_settles_everything(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, Any] = {}
    for drafter in ("none", "suffix"):
        out = tmp_path / f"{drafter}.json"
        given = ["--held-out", str(home / "held"), "--model", str(home / "tiny.gguf"), "-o", str(out)]
        call(monkeypatch, "draftreplay", "--drafter", drafter, *given, "--slot-tokens=128", "--tokens=1000")
        found[drafter] = json.loads(out.read_text())["held_out"]
    assert list(found["none"]) == ["prose", "transcripts_json"]
    for kind, row in found["none"].items():
        assert row["tokens_per_pass"] == 1
        assert row["tokens"] == found["suffix"][kind]["tokens"]
        assert found["suffix"][kind]["tokens_per_pass"] > 1


def test_the_fewest_passes() -> None:
    fewest = runpy.run_path(str(DOCS / "draftreplay.py"))["fewest"]
    assert [fewest(tokens, 8, False) for tokens in (1, 9, 10, 18)] == [1, 1, 2, 2]
    assert [fewest(tokens, 8, True) for tokens in (1, 4, 6, 16, 32, 35)] == [1, 4, 5, 8, 10, 11]
    assert fewest(100, 0, True) == fewest(100, 0, False) == 100


def test_a_drafter_that_cannot_be_had_is_not_measured(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ["--held-out", str(home / "held"), "--model", str(home / "tiny.gguf"), "-o", str(tmp_path / "x.json")]
    with pytest.raises(SystemExit, match="suffix drafts in place of hybrid"):
        call(monkeypatch, "draftreplay", "--drafter", "hybrid", *given)
    (tmp_path / "a.txt").write_text(babble(100, 3))
    with pytest.raises(SystemExit, match="suffix drafts in place of hybrid"):
        call(monkeypatch, "draftlength", str(tmp_path / "a.txt"), "--model", str(TINY_EXACT))
    assert not (tmp_path / "x.json").exists()


def test_results_of_other_commands_are_not_taken(tmp_path: Path) -> None:
    bench = runpy.run_path(str(DOCS / "draftstudy.py"))["Bench"]("c", "h", tmp_path / "out", "m", 1, 1, 1, "0")
    place, read = tmp_path / "out" / "result", tmp_path / "read"
    read.write_text("a")

    def made(words: str) -> str:
        code = f"from pathlib import Path; p = Path({str(place)!r}); p.write_text({words!r})"
        bench.make(place, place, ["-c", code, f"--labels={read}"])
        return place.read_text()

    assert made("one") == "one"
    place.write_text("kept")
    assert made("one") == "kept"
    place.unlink()
    assert made("one") == "one"
    with pytest.raises(SystemExit, match="made by another command"):
        made("two")
    read.write_text("b")
    with pytest.raises(SystemExit, match="made by another command"):
        made("one")
    place.with_name("result.command.json").unlink()
    with pytest.raises(SystemExit, match="made by another command"):
        made("one")


def test_drafters_go_from_their_runs_into_replays(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = runpy.run_path(str(DOCS / "draftstudy.py"))
    kind = script["Bench"]
    base, _ = load_base(str(home / "tiny.gguf"))
    write_hf_folder(tmp_path / "run" / "model", base)
    monkeypatch.setattr(kind, "run_of", lambda *_, **__: tmp_path / "run")
    monkeypatch.setattr(kind, "replay", lambda _, *options: options)
    bench = kind("c", "h", tmp_path, "m", 1, 1, 1, ["0"])
    found = [bench.at_work("0", shape=shape, loss="kl") for shape in ("block", "causal", "causal")]
    assert found[0] == ("run", "--drafter", "block", "--drafter-file", str(tmp_path / "run" / "drafter.safetensors"))
    assert found[1] == found[2] == ("run", "--drafter", "model", "--drafter-file", str(tmp_path / "run/model.exact"))
    assert read_exact_file(tmp_path / "run" / "model.exact").metadata["layers"] == base.config.layers


def test_lengths_of_drafts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
    (tmp_path / "a.txt").write_text(babble(1500, 3))
    given = ["--model", str(TINY_EXACT), "--slots=1,3", "--lengths=0,2", "--tokens=60", "-T", "1", "--repeat=1"]
    call(monkeypatch, "draftlength", str(tmp_path / "a.txt"), *given, "--drafter=suffix")
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == "| slots | 0 | 2 | controller |"
    assert [line.split(" | ")[0] for line in lines[4:6]] == ["| 1", "| 3"]
