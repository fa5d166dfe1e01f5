"""The command line as a function, and as processes of their own."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.source_tree import ROOT

SECONDS = 300
"""A command that takes longer than this hangs."""

Run = Callable[..., tuple[int, bytes, str]]
"""A command in this process: its arguments to exit code, output and remarks."""


def own_environment() -> dict[str, str]:
    """Return an environment with the tree's own sources on the path, in which a warning is an error."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SPECCOMPACT_D")}
    path = os.pathsep.join(str(folder) for folder in (ROOT, ROOT / "cli", ROOT / "proto"))
    return kept | {"PYTHONPATH": path, "PYTHONWARNINGS": "error"}


def spawn(
    environment: dict[str, str], *arguments: str | bytes, cwd: Path, **streams: object
) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "speccompact_cli", *arguments]
    standard: dict[str, object] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=cwd, env=environment, **(standard | streams))  # type: ignore[call-overload, no-any-return]


def outcome(process: "subprocess.Popen[bytes]", given: bytes | None = None) -> tuple[int, bytes, str]:
    """Return exit code, output and remarks; no remark is ever a traceback."""
    out, said = process.communicate(given, timeout=SECONDS)
    text = (said or b"").decode("utf-8", "replace")
    assert "Traceback" not in text, text
    return process.returncode, out, text
