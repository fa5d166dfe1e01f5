"""From the shell with the tiny model: every hostile kind, ranges and pipes, and a kill at any moment."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest
import torch

from tests.cli.processes import outcome, own_environment, spawn
from tests.hostile_files import hostile_files
from tests.tiny_model import TINY_DIGEST, babble
from tests.tiny_text import READING, STORY

MODEL = ("--model", "tiny", "-T", "1", "--slot-tokens", "64")


@pytest.fixture
def environment(tiny_store: Path) -> dict[str, str]:
    """A store that holds the tiny model alone."""
    return own_environment() | {"SPECCOMPACT_HOME": str(tiny_store)}


def test_every_hostile_kind_comes_back(environment: dict[str, str], tmp_path: Path) -> None:
    files = hostile_files()
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    names = list(files)
    assert outcome(spawn(environment, "compress", "-q", "--rm", *MODEL, *names, cwd=tmp_path)) == (0, b"", "")
    archives = sorted(path.name for path in tmp_path.iterdir())
    assert archives == sorted(f"{name}.spc" for name in names)
    assert outcome(spawn(environment, "verify", "-q", "-T", "1", *archives, cwd=tmp_path)) == (0, b"", "")
    assert outcome(spawn(environment, "decompress", "-q", "--rm", "-T", "1", *archives, cwd=tmp_path)) == (0, b"", "")
    for name, content in files.items():
        assert (tmp_path / name).read_bytes() == content, name


def test_pipe_through_and_back(environment: dict[str, str], tmp_path: Path) -> None:
    text = babble(3000, 4).encode()
    code, packed, said = outcome(spawn(environment, "compress", *MODEL, cwd=tmp_path, stdin=subprocess.PIPE), text)
    assert (code, said) == (0, "")
    back = spawn(environment, "decompress", "-T", "2", cwd=tmp_path, stdin=subprocess.PIPE)
    assert outcome(back, packed) == (0, text, "")


def test_a_range(environment: dict[str, str], tmp_path: Path) -> None:
    text = STORY.encode()
    (tmp_path / "x").write_bytes(text)
    assert outcome(spawn(environment, "compress", "-q", *MODEL, "x", cwd=tmp_path))[0] == 0
    found = outcome(spawn(environment, "decompress", "--range", "100:50", "-T", "1", "x.spc", cwd=tmp_path))
    assert found == (0, text[100:150], "")


def test_groups_from_the_shell(environment: dict[str, str], tmp_path: Path) -> None:
    text = (STORY + READING).encode()
    (tmp_path / "x").write_bytes(text)
    assert outcome(spawn(environment, "compress", "-q", *MODEL[:-1], "24", "--group", "1", "x", cwd=tmp_path))[0] == 0
    code, out, _ = outcome(spawn(environment, "inspect", "--json", "x.spc", cwd=tmp_path))
    found = json.loads(out)
    assert (code, found["groups"], found["parts"][0]["memory_version"]) == (0, 2, 1)
    for options in (["decompress", "-c", "--parallel", "2"], ["verify", "-q", "--parallel", "3"]):
        expected = text if options[0] == "decompress" else b""
        assert outcome(spawn(environment, *options, "-T", "2", "x.spc", cwd=tmp_path))[:2] == (0, expected)
    assert outcome(spawn(environment, "compress", "-qf", *MODEL, "--group", "0", "x", cwd=tmp_path))[0] == 0
    _, out, _ = outcome(spawn(environment, "inspect", "x.spc", cwd=tmp_path))
    assert b"no memory" in out
    assert outcome(spawn(environment, "compress", "-qf", *MODEL, "--group", "-1", "x", cwd=tmp_path))[0] == 2
    assert outcome(spawn(environment, "verify", "--parallel", "0", "x.spc", cwd=tmp_path))[0] == 2


def test_a_model_that_is_missing_is_named(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "x").write_text(STORY)
    assert outcome(spawn(environment, "compress", "-q", *MODEL, "x", cwd=tmp_path))[0] == 0
    elsewhere = environment | {"SPECCOMPACT_HOME": str(tmp_path / "empty")}
    code, out, said = outcome(spawn(elsewhere, "decompress", "-c", "x.spc", cwd=tmp_path))
    assert (code, out) == (4, b"")
    assert TINY_DIGEST[:16] in said
    assert "speccompact models" in said


@pytest.mark.skipif(torch.cuda.is_available(), reason="the device is there")
@pytest.mark.parametrize("device", ["cuda", "cuda:3"])
def test_a_device_that_is_not_there(environment: dict[str, str], tmp_path: Path, device: str) -> None:
    (tmp_path / "x").write_text(STORY)
    code, out, said = outcome(spawn(environment, "compress", *MODEL, "--device", device, "x", cwd=tmp_path))
    assert (code, out, f'--device is "{device}", but' in said) == (2, b"", True)
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize("device", ["nonsense", "cuda:x", "cuda:" + "9" * 30, "xpu", ""])
def test_a_device_that_is_none(environment: dict[str, str], tmp_path: Path, device: str) -> None:
    (tmp_path / "x").write_text(STORY)
    code, out, said = outcome(spawn(environment, "compress", *MODEL, "--device", device, "x", cwd=tmp_path))
    assert (code, out, f'--device is "{device}"' in said) == (2, b"", True)
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize("command", ["compress", "decompress"])
def test_a_kill_at_any_moment_leaves_the_old_file_or_the_whole_new_one(
    environment: dict[str, str], tmp_path: Path, command: str
) -> None:
    text = babble(60_000, 2).encode()
    (tmp_path / "text").write_bytes(text)
    assert outcome(spawn(environment, "compress", "-q", *MODEL, "text", cwd=tmp_path))[0] == 0
    archive = (tmp_path / "text.spc").read_bytes()
    arguments = [*MODEL, "text"] if command == "compress" else ["-T", "1", "text.spc"]
    new = archive if command == "compress" else text
    begin = time.monotonic()
    assert outcome(spawn(environment, command, "-q", "-o", "out", *arguments, cwd=tmp_path))[0] == 0
    whole = time.monotonic() - begin
    assert (tmp_path / "out").read_bytes() == new
    for part in (0.3, 0.6, 0.8, 0.9, 0.98):
        (tmp_path / "out").write_bytes(b"old")
        process = spawn(environment, command, "-q", "-f", "-o", "out", *arguments, cwd=tmp_path)
        time.sleep(whole * part)
        process.kill()
        assert outcome(process)[0] in (0, -9)
        assert (tmp_path / "out").read_bytes() in (b"old", new)
    left = {name for name in os.listdir(tmp_path) if not name.startswith(".speccompact-")}
    assert left == {"text", "text.spc", "out"}


def test_drafters_and_what_they_came_to(environment: dict[str, str], tmp_path: Path) -> None:
    text = babble(3000, 4).encode()
    (tmp_path / "x").write_bytes(text)
    assert outcome(spawn(environment, "compress", "-q", *MODEL[:4], "x", cwd=tmp_path))[0] == 0
    for drafter in ("none", "suffix", "block"):
        running = ("-q", "-T", "1", "--drafter", drafter, "x.spc")
        code, out, said = outcome(spawn(environment, "decompress", "-c", "--stats", *running, cwd=tmp_path))
        assert (code, out) == (0, text)
        assert "tokens per pass" in said
        assert ("drafted tokens were right" in said) == (drafter != "none")
        assert ("suffix drafts in place of block" in said) == (drafter == "block")
    assert outcome(spawn(environment, "verify", "-q", "-T", "1", "--drafter", "hybrid", "x.spc", cwd=tmp_path))[0] == 0
    code, _, said = outcome(spawn(environment, "verify", "--drafter", "oracle", "x.spc", cwd=tmp_path))
    assert code == 2
    assert "suffix" in said
