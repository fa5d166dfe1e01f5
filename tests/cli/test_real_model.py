"""From the shell, with the default model: what a user does first."""

import json
import lzma
from pathlib import Path

import pytest

from speccompact.modelstore.registry import DEFAULT_MODEL
from tests.cli.processes import outcome, own_environment, spawn
from tests.source_tree import ROOT

pytestmark = pytest.mark.real_model

TEXT = (ROOT / "samples" / "essay.txt").read_bytes()[:800]
"""Some 180 tokens; in short slots, which decode side by side, that is a matter of seconds."""


def test_there_and_back(tmp_path: Path) -> None:
    environment = own_environment()
    (tmp_path / "essay").write_bytes(TEXT)
    code, _, said = outcome(spawn(environment, "compress", "--slot-tokens", "32", "essay", cwd=tmp_path))
    assert (code, "bpb" in said) == (0, True)
    assert (tmp_path / "essay.spc").stat().st_size < len(lzma.compress(TEXT)) / 2
    code, out, _ = outcome(spawn(environment, "inspect", "essay.spc", cwd=tmp_path))
    assert (code, DEFAULT_MODEL.encode() in out) == (0, True)
    assert outcome(spawn(environment, "decompress", "-c", "essay.spc", cwd=tmp_path)) == (0, TEXT, "")
    part = outcome(spawn(environment, "decompress", "--range", "100:40", "essay.spc", cwd=tmp_path))
    assert part == (0, TEXT[100:140], "")


def test_bench(tmp_path: Path) -> None:
    sample = tmp_path / "sample.txt"
    sample.write_bytes(TEXT[:400])
    code, out, _ = outcome(spawn(own_environment(), "bench", "--json", "--no-peers", "sample.txt", cwd=tmp_path))
    report = json.loads(out)
    assert (code, report["model"]) == (0, DEFAULT_MODEL)
    assert report["files"][0]["overhead_percent"] >= 0
    assert report["roofline_tokens_per_s"]["64"] > 0
