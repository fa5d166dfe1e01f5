"""``speccompact serve`` as a process: settings from everywhere, a log in JSON, signals."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from speccompact_grpc.v1 import speccompact_pb2 as pb
from speccompact_grpc.v1.speccompact_pb2_grpc import CompressionServiceStub
from tests.cli.processes import outcome, own_environment, spawn
from tests.source_tree import ROOT
from tests.tiny_model import TINY_EXACT

SECONDS = 60.0


def environment(**more: str) -> dict[str, str]:
    plain = own_environment()
    plain["PYTHONPATH"] += f":{ROOT / 'proto'}"
    return plain | more


@contextmanager
def process(tmp_path: Path, *arguments: str, **more: str) -> Iterator[tuple["subprocess.Popen[bytes]", dict[str, Any]]]:
    """Run the service until it listens; yield it with that line of its log."""
    running = spawn(environment(**more), "serve", *arguments, cwd=tmp_path)
    try:
        assert running.stderr is not None
        line = running.stderr.readline()
        assert b'"listening"' in line, line + running.stderr.read()
        yield running, json.loads(line)
    finally:
        running.kill()
        running.communicate()


def test_settings_come_from_flags_environment_and_file_and_sigterm_ends_it_in_order(tmp_path: Path) -> None:
    file = tmp_path / "service.toml"
    file.write_text(f'listen = "nonsense"\nmodels = ["{TINY_EXACT}"]\nlog_level = "info"\nthreads = 1\n', "utf-8")
    with process(
        tmp_path, "--config", str(file), "--metrics", "127.0.0.1:0", "--drafter", "suffix",
        SPECCOMPACT_SERVE_LISTEN="127.0.0.1:0", SPECCOMPACT_SERVE_METRICS="nonsense",
    ) as (server, listening):  # fmt: skip
        assert listening["models"] == ["tiny.exact"]
        assert listening["metrics_port"] > 0
        with grpc.insecure_channel(listening["address"]) as channel:
            health: Any = health_pb2_grpc.HealthStub(channel)  # its methods are not in the typed stubs
            answer = health.Check(health_pb2.HealthCheckRequest(), timeout=SECONDS)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
            CompressionServiceStub(channel).ListModels(
                pb.ListModelsRequest(), timeout=SECONDS, metadata=(("x-request-id", "one"),)
            )
        server.send_signal(signal.SIGTERM)
        code, out, said = outcome(server)
    assert (code, out) == (0, b"")
    lines = [json.loads(line) for line in said.splitlines()]
    assert [line["event"] for line in lines] == ["call", "draining", "stopped"]
    assert (lines[0]["request_id"], lines[0]["rpc"], lines[0]["code"]) == ("one", "ListModels", "OK")


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    with (
        process(
            tmp_path,
            "--listen",
            "127.0.0.1:0",
            "--models",
            str(TINY_EXACT),
            "--drafter",
            "none",
            "--drain-seconds",
            "60",
        ) as (server, listening),
        grpc.insecure_channel(listening["address"]) as channel,
    ):
        health: Any = health_pb2_grpc.HealthStub(channel)
        watch = health.Watch(health_pb2.HealthCheckRequest(), timeout=SECONDS)
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        server.send_signal(signal.SIGINT)
        assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
        server.send_signal(signal.SIGINT)
        assert server.wait(SECONDS) == 130


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--listen", "0.0.0.0:0"], 2, 'listen is "0.0.0.0:0", which others can reach without TLS'),
        (["--places", "1"], 2, "places is 1; choose 128 or more"),
        (["--config", "absent.toml"], 1, "absent.toml: No such file"),
        (["--calls", "many"], 2, "Invalid value for '--calls'"),
        (["--listen", "127.0.0.1:0", "--models", "nowhere"], 4, "nowhere"),
    ],
)
def test_what_is_wrong_is_told_in_a_line(
    tmp_path: Path, tiny_store: Path, arguments: list[str], code: int, said: str
) -> None:
    server = spawn(environment(SPECCOMPACT_HOME=str(tiny_store)), "serve", *arguments, cwd=tmp_path)
    found, _, told = outcome(server)
    assert found == code
    assert said in told
