"""Compiled kernels are kept on disk, and never longer than the source that they are made of."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.source_tree import ROOT

PROGRAM = """
import numpy as np
from speccompact.exact import twice
print(twice.twice(np.int64(5)), sum(twice.twice.stats.cache_hits.values()))
"""

CALLER = """
from speccompact.exact.fusedscalar import jit, helper
@jit
def twice(x):
    return 2 * helper(x)
"""

HELPER = """

@jit
def helper(x):
    return x + {more}
"""


def write_package(folder: Path) -> Path:
    """Write a package of two kernels, of which one calls another; return the file of that."""
    package = folder / "speccompact"
    (package / "exact").mkdir(parents=True)
    for name in ("__init__.py", "params.py", "errors.py", "exact/__init__.py", "exact/fusedscalar.py"):
        shutil.copy(ROOT / "speccompact" / name, package / name)
    (package / "exact" / "twice.py").write_text(CALLER)
    return package / "exact" / "fusedscalar.py"


def test_where_nothing_can_be_kept_every_process_compiles(tmp_path: Path) -> None:
    scalars = write_package(tmp_path)
    scalars.write_text(scalars.read_text("utf-8") + HELPER.format(more=1), "utf-8")
    (scalars.parent / "__pycache__").write_text("in the way")
    environment = os.environ | {
        "PYTHONPATH": str(tmp_path),
        "HOME": os.devnull,
        "XDG_CACHE_HOME": f"{os.devnull}/cache",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    environment.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "12 0\n"


def test_a_kernel_is_compiled_again_when_one_that_it_calls_has_changed(tmp_path: Path) -> None:
    scalars = write_package(tmp_path)
    plain = scalars.read_text("utf-8")

    def run(more: int) -> str:
        scalars.write_text(plain + HELPER.format(more=more), "utf-8")
        os.utime(scalars, (1, 1))
        environment = os.environ | {
            "PYTHONPATH": str(tmp_path),
            "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
            "PYTHONDONTWRITEBYTECODE": "1",  # Python's own cache goes by time and size, too
        }
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout

    assert [run(1), run(1), run(2)] == ["12 0\n", "12 1\n", "14 0\n"]
