"""Jobs that are killed with SIGKILL, at every step and at random moments, and go on to the bytes of an undisturbed run.

SPECCOMPACT_KILLS sets how many kills of each job; the default covers every step of all three.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.processes import SECONDS, own_environment
from tests.source_tree import ROOT

KILLS = int(os.environ.get("SPECCOMPACT_KILLS", "50"))


@pytest.mark.parametrize("job", ["create", "append", "extract"])
def test_a_killed_job_goes_on(tmp_path: Path, job: str) -> None:
    command = [sys.executable, "-m", "tests.crash_runs", job, str(tmp_path), str(KILLS), "1"]
    ended = subprocess.run(
        command, cwd=ROOT, env=own_environment(), capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert int(ended.stdout) > KILLS // 2
