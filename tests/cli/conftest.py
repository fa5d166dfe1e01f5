"""What tests of commands share."""

from pathlib import Path

import pytest

from speccompact_cli.main import run
from tests.cli.processes import Run
from tests.fakes import FakeEngines


@pytest.fixture
def call(
    fake_engines: FakeEngines,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> Run:
    """Run the command line in a folder of its own: exit code, output, remarks."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPECCOMPACT_HOME", str(tmp_path / "store"))

    def call(*arguments: str) -> tuple[int, bytes, str]:
        code = run(arguments)
        captured = capsysbinary.readouterr()
        return code, captured.out, captured.err.decode()

    return call
