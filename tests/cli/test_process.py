"""The command line as a process of its own: what a shell, a signal or a full disk does to it.

Random bytes need no model, so these run everywhere.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.processes import outcome, own_environment, spawn

RANDOM = bytes((i * 7919 >> 3 ^ i * i) & 0xFF for i in range(200_000))
HEAVY = {"numba", "numpy", "safetensors", "tokenizers", "torch", "zstandard"}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A model store that is empty."""
    return own_environment() | {"SPECCOMPACT_HOME": str(tmp_path / "store")}


def names(folder: Path) -> list[bytes]:
    return sorted(os.listdir(os.fsencode(folder)))


def wait_for_output(folder: Path) -> None:
    """Wait until a run has begun to write."""
    deadline = time.monotonic() + 60
    while not list(folder.glob(".speccompact-*.tmp")):
        assert time.monotonic() < deadline, "no temporary file appeared"
        time.sleep(0.01)


def test_help_loads_nothing_heavy(environment: dict[str, str], tmp_path: Path) -> None:
    script = (
        "import sys; sys.argv = ['speccompact', '--help']\n"
        "from speccompact_cli.main import run\n"
        f"code = run(); print(sorted({HEAVY!r} & set(sys.modules))); sys.exit(code)"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "decompress" in result.stdout
    assert result.stdout.endswith("[]\n")


@pytest.mark.parametrize("command", ["archive", "bench", "compress", "decompress", "inspect", "models", "verify"])
def test_help_of_a_command_loads_nothing_heavy(environment: dict[str, str], tmp_path: Path, command: str) -> None:
    script = (
        "import sys\nfrom speccompact_cli.main import run\n"
        f"code = run([{command!r}, '--help']); print(sorted({HEAVY!r} & set(sys.modules))); sys.exit(code)"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert result.stdout.endswith("[]\n")


def test_pipe_through_and_back(environment: dict[str, str], tmp_path: Path) -> None:
    code, packed, said = outcome(spawn(environment, "compress", cwd=tmp_path, stdin=subprocess.PIPE), RANDOM)
    assert (code, said) == (0, "")
    code, content, said = outcome(spawn(environment, "decompress", cwd=tmp_path, stdin=subprocess.PIPE), packed)
    assert (code, said, content) == (0, "", RANDOM)


def test_names_that_are_not_utf8(environment: dict[str, str], tmp_path: Path) -> None:
    name = b"caf\xe9\n.bin"
    (tmp_path / os.fsdecode(name)).write_bytes(RANDOM)
    code, _, said = outcome(spawn(environment, "compress", "--rm", name, cwd=tmp_path))
    assert (code, "caf\\xe9\\n.bin" in said) == (0, True)
    assert names(tmp_path) == [name + b".spc"]
    assert outcome(spawn(environment, "decompress", "-q", name + b".spc", cwd=tmp_path)) == (0, b"", "")
    assert (tmp_path / os.fsdecode(name)).read_bytes() == RANDOM


def test_names_print_in_an_ascii_locale(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "Ä.bin").write_bytes(RANDOM)
    plain = environment | {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    code, _, said = outcome(spawn(plain, "compress", "Ä.bin".encode(), cwd=tmp_path))
    assert (code, ".bin" in said) == (0, True)
    assert outcome(spawn(plain, "inspect", "Ä.bin.spc".encode(), cwd=tmp_path))[0] == 0


def test_a_reader_that_goes_away(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(RANDOM)
    reading, writing = os.pipe()
    os.close(reading)
    process = spawn(environment, "compress", "-c", "x.bin", cwd=tmp_path, stdout=writing)
    os.close(writing)
    code, _, said = outcome(process)
    assert (code, said) == (141, "")


def test_a_full_disk(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(RANDOM)
    with open("/dev/full", "wb") as full:
        code, _, said = outcome(spawn(environment, "compress", "-c", "x.bin", cwd=tmp_path, stdout=full))
    assert (code, "disk is full" in said) == (1, True)


def test_a_terminal_is_spared_binary_data_and_not_read_unasked(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(RANDOM[:100])
    leader, terminal = os.openpty()
    try:
        code, _, said = outcome(spawn(environment, "compress", "-c", "x.bin", cwd=tmp_path, stdout=terminal))
        assert (code, "terminal" in said) == (2, True)
        code, _, said = outcome(spawn(environment, "compress", "-c", "-f", "x.bin", cwd=tmp_path, stdout=terminal))
        assert (code, said) == (0, "")
        code, out, said = outcome(spawn(environment, "compress", cwd=tmp_path, stdin=terminal))
        assert (code, out, "terminal" in said) == (2, b"", True)
    finally:
        os.close(leader)
        os.close(terminal)


def test_an_interrupt_while_python_runs_text_is_an_exit_code_too(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "struck.py").write_text(
        "import os, signal\n"
        "from speccompact_cli import main\n"
        "class Busy:\n"
        "    def make_context(self, *_):\n"
        "        exec('os.kill(os.getpid(), signal.SIGINT)\\nfor _ in range(1000): pass')\n"
        "main.program = Busy()\n"
        "main.main()\n"
    )
    paths = os.pathsep.join([environment["PYTHONPATH"], str(tmp_path)])
    command = [sys.executable, "-m", "struck"]
    ended = subprocess.run(command, env=environment | {"PYTHONPATH": paths}, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (130, "speccompact: interrupted\n")


@pytest.mark.parametrize("command", ["compress", "decompress"])
@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_a_stopped_run_leaves_the_old_file(
    environment: dict[str, str], tmp_path: Path, command: str, signum: signal.Signals, code: int
) -> None:
    data = RANDOM
    if command == "decompress":
        data = outcome(spawn(environment, "compress", "-c", "-", cwd=tmp_path, stdin=subprocess.PIPE), data)[1]
    (tmp_path / "out").write_bytes(b"old")
    process = spawn(environment, command, "-f", "-o", "out", "-", cwd=tmp_path, stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(data[:-1])
    process.stdin.flush()
    wait_for_output(tmp_path)
    process.send_signal(signum)
    assert outcome(process)[0] == code
    assert (tmp_path / "out").read_bytes() == b"old"
    left = {path.name for path in tmp_path.iterdir()} - {"out"}
    assert len(left) == (signum == signal.SIGKILL), left


def test_nohup_is_respected(environment: dict[str, str], tmp_path: Path) -> None:
    command = f"trap '' HUP; exec {sys.executable} -m speccompact_cli compress -o out -"
    process = subprocess.Popen(
        ["sh", "-c", command], cwd=tmp_path, env=environment, stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    wait_for_output(tmp_path)
    process.send_signal(signal.SIGHUP)
    assert outcome(process, RANDOM)[0] == 0
    assert (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["compress", "absent"], 1, "No such file"),
        (["compress", "."], 1, "directory"),
        (["compress", "x.bin", "-o", "no/such/folder"], 1, "no/such/folder: No such file"),
        (["compress", "x.bin", "-o", "taken"], 1, "-f"),
        (["compress", "x.bin", "-o", "x.bin", "-f"], 2, "same file"),
        (["compress", "x.bin", "x.bin", "-o", "one"], 2, "-c"),
        (["compress", "x.bin", "-c", "-o", "one"], 2, "exclude"),
        (["compress", "--rm", "-c", "x.bin"], 2, "--rm"),
        (["compress", "--level", "10", "x.bin"], 2, "--level"),
        (["compress", "--slot-tokens", "1000000", "x.bin"], 2, "--slot-tokens"),
        (["compress", "--threads", "-1", "x.bin"], 2, "--threads"),
        (["compress", "--device", "toaster", "x.bin"], 2, "toaster"),
        (["decompress", "taken"], 2, ".spc"),
        (["decompress", "-c", "taken"], 3, "taken"),
        (["decompress", "--range", "5", "taken"], 2, "START:LEN"),
        (["decompress", "--rm", "--salvage", "x.spc"], 2, "--rm"),
        (["decompress", "--range", "1:2", "--salvage", "taken"], 2, "--range and --salvage"),
        (["decompress", "--range", "1:2", "--parallel", "2", "taken"], 2, "--parallel is for whole archives"),
        (["decompress", "--salvage", "--parallel", "2", "taken"], 2, "--parallel is for whole archives"),
        (["verify", "taken"], 3, "taken"),
        (["inspect", "taken"], 3, "taken"),
        (["inspect", "absent"], 1, "absent"),
        (["models", "path", "nobody"], 4, "models convert"),
        (["models", "pull", "nobody"], 2, "smollm2-135m"),
        (["models", "convert", "taken"], 4, "taken"),
        (["bench", "absent"], 1, "No such file"),
        (["bench", "text.txt"], 4, "models pull"),
        (["compress", "text.txt"], 4, "speccompact models pull smollm2-135m"),
        (["no-such-command"], 2, "no-such-command"),
        (["compress", "--no-such-option"], 2, "no-such-option"),
    ],
)
def test_every_mistake_is_one_clear_line_and_a_documented_code(
    environment: dict[str, str], tmp_path: Path, arguments: list[str], code: int, words: str
) -> None:
    (tmp_path / "x.bin").write_bytes(RANDOM)
    (tmp_path / "taken").write_bytes(b"taken")
    (tmp_path / "text.txt").write_text("The quick brown fox jumps over the lazy dog. " * 20)
    before = names(tmp_path)
    found, out, said = outcome(spawn(environment, *arguments, cwd=tmp_path))
    assert (found, out) == (code, b"")
    assert words in said
    assert [name for name in names(tmp_path) if name != b"store"] == before
