"""docs/levels.py: one line for each level, from the reports of `bench`."""

import os
import subprocess
import sys
from pathlib import Path

from tests.source_tree import ROOT
from tests.tiny_text import STORY


def test_the_table_of_two_levels(tmp_path: Path, tiny_home: Path) -> None:
    text, out = tmp_path / "story", tmp_path / "out"
    text.write_text(STORY)
    command = [sys.executable, str(ROOT / "docs" / "levels.py"), "-o", str(out), "--level", "1", "--level", "5"]
    command += ["--model=tiny", "--threads=1", str(text)]
    first = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ).stdout.splitlines()
    assert [line.split("|")[1].strip() for line in first] == ["level", "---", "1", "5"]
    for line in first[2:]:
        bpb, compress, decompress, memory = (float(cell) for cell in line.split("|")[2:6])
        assert 0 < bpb < 8
        assert min(compress, decompress, memory) > 0
    assert sorted(path.name for path in out.iterdir()) == ["level-1.json", "level-5.json"]
    again = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ).stdout.splitlines()
    assert again == first
    other = tmp_path / "other"
    other.write_text(STORY[:-1])
    for changed in ([*command[:-1], str(other)], [*command[:-1], "--no-decode", str(text)]):
        refused = subprocess.run(changed, capture_output=True, text=True, env=os.environ)
        assert refused.returncode == 1
        assert "level-1.json is of other files or options" in refused.stderr
