"""Groups made side by side: the same archive, in order, never more on the way than there is room for."""

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from speccompact.archive.creating import create
from speccompact.archive.events import Event, silent
from speccompact.archive.groupbuilding import Coder, GroupTask
from speccompact.archive.groupexecutors import LocalExecutor, make_executor
from speccompact.archive.planning import PlannedGroup
from speccompact.archive.records import Coding
from speccompact.archive.request import Request
from speccompact.errors import ArgumentError
from speccompact.options import Options
from speccompact.streams.engine import Engine
from tests.archive_trees import make_tree
from tests.fakes import FakeCodec, FakeEngines, FakeMemory, FakeSlot, FakeTarget, FakeTokenizer, Symbols, prose


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = make_tree(tmp_path / "tree")
    for number in range(10):
        (root / f"more{number}.txt").write_bytes(prose(9000, 100 + number))
    return root


def made(output: Path, tree: Path, groups: int, heard: list[Event] | None = None) -> bytes:
    request = Request((str(tree),), level=2, slot_tokens=16)
    executor = LocalExecutor(Options(groups=groups), FakeEngines())
    create(str(output), request, executor=executor, listener=silent if heard is None else heard.append)
    return output.read_bytes()


@pytest.mark.parametrize("groups", [2, 3, 50])
def test_the_archive_is_the_same(tree: Path, tmp_path: Path, groups: int) -> None:
    heard: list[Event] = []
    assert made(tmp_path / "b.spca", tree, groups, heard) == made(tmp_path / "a.spca", tree, 1)
    written = [event.values for event in heard if event.name == "group"]
    assert [values["number"] for values in written] == list(range(len(written)))
    assert written[-1]["done"] == written[-1]["total"]


def tasks(count: int, taken: list[int]) -> Iterator[GroupTask]:
    for number in range(count):
        taken.append(number)
        yield GroupTask(PlannedGroup(number, Coding.NONE), Coder(5, "none"), 0, b"12345678")


def test_no_more_tasks_are_taken_than_there_is_room_for() -> None:
    taken: list[int] = []
    executor = LocalExecutor(Options(groups=3), FakeEngines())
    for number, built in enumerate(executor.run(tasks(30, taken), lambda task, done: None)):
        assert built.number == number
        assert len(taken) <= number + 1 + 6


def test_what_is_left_early_takes_no_more_tasks() -> None:
    taken: list[int] = []
    run = LocalExecutor(Options(groups=2), FakeEngines()).run(tasks(30, taken), lambda task, done: None)
    assert next(run).number == 0
    run.close()
    assert len(taken) <= 5
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("speccompact-group")]


class MeetingCodec(FakeCodec):
    """Lets nobody through before two are there."""

    meeting = threading.Barrier(2, timeout=60)
    calls_left = itertools.count()

    def part(self, parts: int) -> "MeetingCodec":
        return MeetingCodec(self.target)

    def try_encode(
        self,
        slots: Sequence[Symbols],
        checks: Sequence[int],
        budget: int | None,
        tick: Callable[[int], None] | None = None,
        memory: FakeMemory | None = None,
    ) -> list[FakeSlot] | None:
        if next(self.calls_left) < 2:
            self.meeting.wait()
        return super().try_encode(slots, checks, budget, tick, memory)


def test_two_groups_are_made_at_once(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("a", "b"):
        (tmp_path / "in" / name).write_bytes(prose(20_000, ord(name)))
    engines = FakeEngines()
    codec = MeetingCodec(FakeTarget())
    engines.codec, engines.engine = codec, Engine(codec, FakeTokenizer(codec.target.vocabulary))
    request = Request((str(tmp_path / "in"),), level=2, slot_tokens=16)
    summary = create(str(tmp_path / "a.spca"), request, executor=LocalExecutor(Options(groups=2), engines))
    assert summary.groups >= 3


def test_what_a_group_raises_is_raised(tmp_path: Path) -> None:
    class Broken(FakeEngines):
        def named(self, model: str) -> Engine:
            raise ArgumentError(f"no model {model}")

    (tmp_path / "a.txt").write_bytes(prose(900))
    request = Request((str(tmp_path / "a.txt"),))
    with pytest.raises(ArgumentError, match="no model"):
        create(str(tmp_path / "a.spca"), request, executor=LocalExecutor(Options(groups=2), Broken()))


def test_other_names_are_refused() -> None:
    assert isinstance(make_executor("local", Options()), LocalExecutor)
    with pytest.raises(ArgumentError, match="abacus"):
        make_executor("abacus", Options())
