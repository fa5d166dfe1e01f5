"""Groups on a real Ray cluster of this machine, several worker processes, one of them killed on the way."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from speccompact.archive.archivefile import ArchiveFile
from speccompact.archive.creating import create
from speccompact.archive.groupbuilding import Coder, GroupTask
from speccompact.archive.groupexecutors import LocalExecutor
from speccompact.archive.planning import PlannedGroup
from speccompact.archive.records import Coding
from speccompact.archive.request import Request
from speccompact.errors import ArgumentError, ModelMissingError
from speccompact.options import Options
from tests.fakes import prose
from tests.source_tree import ROOT
from tests.tiny_text import STORY

ray = pytest.importorskip("ray", reason="the ray extra is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")

from speccompact.archive.rayexecutor import RayExecutor  # noqa: E402 - needs ray


@pytest.fixture(scope="module")
def cluster(tiny_store: Path) -> Iterator[None]:
    """Three worker processes at most, that find the tiny model."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECCOMPACT_HOME", str(tiny_store))
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
        ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
    yield
    ray.shutdown()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Files for zstandard, and text for the tiny model."""
    (tmp_path / "tree").mkdir()
    for number in range(6):
        noise = bytes((i * 7919 + number >> 3 ^ i * i) & 0xFF for i in range(3000))
        (tmp_path / "tree" / f"{number}.bin").write_bytes(noise)
    for number in range(3):
        (tmp_path / "tree" / f"{number}.txt").write_bytes(f"{number} {STORY}".encode() * 2)
    return tmp_path / "tree"


def make(output: Path, tree: Path, executor: Any, **hooks: Any) -> bytes:
    request = Request((str(tree),), level=2, model="tiny", slot_tokens=16, group_frames=1)
    create(str(output), request, executor=executor, **hooks)
    return output.read_bytes()


@pytest.mark.usefixtures("cluster", "tiny_home")
def test_the_archive_is_the_local_one_though_a_worker_dies(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speccompact.archive.preparing.BUNDLE_BYTES", 1000)
    local = make(tmp_path / "local.spca", tree, LocalExecutor(Options()))
    with ArchiveFile(str(tmp_path / "local.spca")) as archive:
        codings = [place.coding for place in archive.catalogue.groups.values()]
    assert codings.count(Coding.TEXT) > 1
    assert len(codings) > 5
    executor = RayExecutor(Options(threads=1), workers=3)
    started: list[Any] = []
    start = executor._start

    def start_and_keep() -> Any:
        started.append(start())
        return started[-1]

    monkeypatch.setattr(executor, "_start", start_and_keep)
    killed: list[int] = []

    def kill_one(name: str) -> None:
        if name == "group-noted" and not killed:
            killed.append(ray.get(started[1].process.remote()))
            os.kill(killed[0], signal.SIGKILL)

    assert make(tmp_path / "ray.spca", tree, executor, step=kill_one) == local
    assert len(started) == 4


@pytest.mark.usefixtures("cluster")
def test_workers_that_fit_no_node_are_refused() -> None:
    with pytest.raises(ArgumentError, match="no node"):
        RayExecutor(Options(threads=1000))
    assert RayExecutor(Options(threads=1))._count == int(ray.cluster_resources()["CPU"])


@pytest.mark.usefixtures("cluster")
def test_what_a_group_raises_is_raised_here(tree: Path, tmp_path: Path) -> None:
    (tree / "a.txt").write_bytes(prose(5000))
    with pytest.raises(ModelMissingError, match="no such"):
        request = Request((str(tree),), model="no such")
        create(str(tmp_path / "x.spca"), request, executor=RayExecutor(Options(threads=1), workers=1))


@pytest.mark.usefixtures("cluster")
def test_no_more_groups_are_sent_than_there_is_room_for() -> None:
    executor = RayExecutor(Options(threads=1), workers=2)
    taken = 0

    def tasks() -> Iterator[GroupTask]:
        nonlocal taken
        for number in range(20):
            taken += 1
            yield GroupTask(PlannedGroup(number, Coding.NONE), Coder(5, "none"), 0, b"12345678")

    for made, built in enumerate(executor.run(tasks(), lambda task, done: None)):
        assert built.number == made
        assert taken <= made + 1 + 4
