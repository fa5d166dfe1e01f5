"""Jobs that are killed with SIGKILL, at every step and at random moments, and go on to the bytes of an undisturbed run.

SPECCOMPACT_KILLS sets how many kills of each job; the default covers every step of all three.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.cli.processes import SECONDS, own_environment
from tests.source_tree import ROOT

KILLS = int(os.environ.get("SPECCOMPACT_KILLS", "50"))


@pytest.mark.parametrize("job", ["create", "append", "extract"])
def test_a_killed_job_goes_on(tmp_path: Path, job: str) -> None:
    memory = "/dev/shm"  # what a process leaves is the same there, and a busy disk makes thousands of syncs slow
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else tmp_path) as folder:
        ended = subprocess.run(
            [sys.executable, "-m", "tests.crash_runs", job, folder, str(KILLS), "1"],
            cwd=ROOT, env=own_environment(), capture_output=True, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, "")
    assert int(ended.stdout) > KILLS // 2
