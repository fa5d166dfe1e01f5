"""The measurements of docs/serviceload.py, short, against a real server process with the tiny model."""

from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from docs.serviceload import measure
from docs.serviceprobe import Server, server_process
from tests.tiny_model import TINY_EXACT, babble

Measured = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("service")
    (folder / "data").mkdir()
    (folder / "data" / "text").write_bytes(b"a text for jobs\n" * 40)
    jobs = ("--jobs", str(folder / "jobs.sqlite"), "--jobs-roots", str(folder / "data"))
    with server_process(str(TINY_EXACT), *jobs, "--threads", "1", "--drafter", "suffix") as server:
        yield server


@pytest.fixture
def measured(server: Server, tmp_path: Path) -> Measured:
    """Return what runs a measurement with a text that the tiny model likes."""
    (tmp_path / "text").write_text(babble(20_000), "utf-8")
    fields = {"callers": 8, "bytes": 300, "calls": 20, "megabytes": 8, "seed": 1, "seconds": 3.0}
    return lambda what, **more: measure(server, Namespace(what=what, text=[tmp_path / "text"], **{**fields, **more}))


def test_batching_and_latency_are_measured(measured: Measured) -> None:
    """Each caller compares what it gets; speeds of the tiny model say nothing."""
    found = measured("batching")
    assert found["compress"] > 0 < found["decompress_of_alone"]
    found = measured("latency")
    assert found["calls"] == 20
    assert found["alone_s"] > 0
    assert found["p50_s"] <= found["p99_s"]


def test_honest_callers_are_served_among_bad_ones(measured: Measured) -> None:
    found = measured("hostile", callers=12)
    counts = found["counts"]
    assert counts["honest right"] > 0
    assert [what for what in counts if what.startswith(("honest call", "honest wrong"))] == []
    assert {"cancelled", "stalled", "garbage: DATA_LOSS", "exceeds: RESOURCE_EXHAUSTED"} <= set(counts)
    assert found["alone_after"]["alone_decompress"] > 0


def test_a_slow_reader_gets_everything(measured: Measured) -> None:
    found = measured("slow")
    assert found["content_bytes"] == 8 << 20
    assert found["memory_most"] < 256 << 20


def test_whatever_is_sent_the_status_is_a_documented_one(measured: Measured) -> None:
    found = measured("fuzz", calls=200, callers=4)
    assert found["undocumented"] == {}
    assert found["alive"]
    assert len(found["codes"]) > 3
