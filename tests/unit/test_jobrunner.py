"""Which job runs next, and what becomes of those that end, are stopped or fail."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from speccompact.errors import DamagedError, JobError
from speccompact_grpc import jobrunner
from speccompact_grpc.jobboard import JobBoard
from speccompact_grpc.jobcontrol import JobControl
from speccompact_grpc.jobpaths import Claim
from speccompact_grpc.jobrecords import JobProgress, JobRecord, JobState
from speccompact_grpc.jobrunner import JobRunner
from speccompact_grpc.jobstore import JobStore
from speccompact_grpc.observing import Silent

SECONDS = 20.0


class Works:
    """Jobs whose spec is a path that they write; each runs until it is let go."""

    def __init__(self) -> None:
        self.ran: list[bytes] = []
        self.cleaned: list[bytes] = []
        self.acts: dict[bytes, Callable[[JobControl], None]] = {}
        self.changed = threading.Condition()

    def claim(self, record: JobRecord) -> Claim:
        return Claim((), (record.spec.decode(),))

    def run(self, record: JobRecord, control: JobControl) -> bytes:
        with self.changed:
            self.ran.append(record.spec)
            self.changed.notify_all()
        if record.spec in self.acts:
            self.acts[record.spec](control)
        return b"result of " + record.spec

    def clean(self, record: JobRecord) -> None:
        self.cleaned.append(record.spec)

    def explain(self, error: Exception) -> bytes:
        return f"{type(error).__name__}: {error}".encode()

    def wait(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.ran) >= count, SECONDS)


class Bench:
    """A store, a board and a runner; jobs by their specs."""

    def __init__(self, path: Path, workers: int = 1) -> None:
        self.works, self.store = Works(), JobStore(str(path))
        self.board = JobBoard(self.store, Silent())
        self.runner = JobRunner(self.board, self.works, workers)

    def submit(self, spec: bytes, owner: str = "ann", priority: int = 2) -> str:
        record, _ = self.store.submit(owner, "", priority, spec)
        self.runner.wake()
        return record.id

    def state(self, id: str) -> JobState:
        record = self.store.get(id)
        assert record is not None
        return record.state

    def wait(self, id: str) -> JobRecord:
        with self.board.watching(id) as watch:
            while True:
                record = self.board.record(id)
                assert record is not None
                if record.state.ended:
                    return record
                watch.wait()
                assert not watch.over

    def close(self) -> None:
        self.runner.stop(0)
        self.store.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path / "jobs")
    yield bench
    bench.close()


def until(event: threading.Event) -> Callable[[JobControl], None]:
    """Return work that ends when an event is set, or when the job has to stop at once."""

    def act(control: JobControl) -> None:
        while not event.wait(0.005):
            control.check()

    return act


def test_urgent_jobs_come_first_then_old_ones(bench: Bench) -> None:
    ids = [bench.submit(spec, priority=priority) for spec, priority in ((b"/a", 1), (b"/b", 2), (b"/c", 3), (b"/d", 3))]
    bench.runner.start()
    for id in ids:
        assert bench.wait(id).state == JobState.SUCCEEDED
    assert bench.works.ran == [b"/c", b"/d", b"/b", b"/a"]


def test_callers_take_turns(tmp_path: Path) -> None:
    bench, over = Bench(tmp_path / "jobs", workers=2), threading.Event()
    for spec in (b"/a", b"/b", b"/c"):
        bench.works.acts[spec] = until(over)
        bench.submit(spec, "ann")
    bench.submit(b"/d", "bob")
    bench.runner.start()
    bench.works.wait(3)
    assert sorted(bench.works.ran) == [b"/a", b"/b", b"/d"] or sorted(bench.works.ran) == [b"/a", b"/c", b"/d"]
    over.set()
    bench.works.wait(4)
    bench.close()


def test_a_job_that_waits_for_another_holds_back_what_would_be_in_its_way(tmp_path: Path) -> None:
    bench, over = Bench(tmp_path / "jobs", workers=3), threading.Event()
    bench.works.acts[b"/a"] = until(over)
    bench.submit(b"/a")
    waits = bench.submit(b"/")
    behind = bench.submit(b"/b")
    bench.runner.start()
    bench.works.wait(1)
    assert (bench.state(waits), bench.state(behind)) == (JobState.QUEUED, JobState.QUEUED)
    over.set()
    bench.wait(behind)
    assert bench.works.ran == [b"/a", b"/", b"/b"]
    bench.close()


def test_what_was_interrupted_goes_on_before_all_others(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "jobs")
    bench.works.acts[b"/a"] = until(threading.Event())
    id = bench.submit(b"/a", priority=1)
    bench.runner.start()
    bench.works.wait(1)
    bench.close()
    assert bench.works.cleaned == []
    again = Bench(tmp_path / "jobs")
    urgent = again.submit(b"/b", priority=3)
    again.runner.start()
    assert again.wait(urgent).attempts == 1
    assert again.wait(id).attempts == 2
    assert again.works.ran == [b"/a", b"/b"]
    again.close()


def test_draining_stops_at_a_commit_point_and_starts_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "jobs")
    points = 0

    def act(control: JobControl) -> None:
        nonlocal points
        while True:
            control.advance(done_bytes=points)
            points += 1
            control.commit_point()

    bench.works.acts[b"/a"] = act
    running, waiting = bench.submit(b"/a"), bench.submit(b"/b")
    bench.runner.start()
    bench.works.wait(1)
    bench.runner.stop(SECONDS)
    record = bench.store.get(running)
    assert record is not None
    assert (record.state, record.progress.done_bytes) == (JobState.QUEUED, points - 1)
    assert bench.state(waiting) == JobState.QUEUED
    bench.store.close()


def test_cancelling_reaches_jobs_in_every_state(bench: Bench) -> None:
    bench.works.acts[b"/a"] = until(threading.Event())
    running, waiting = bench.submit(b"/a"), bench.submit(b"/b")
    bench.runner.start()
    bench.works.wait(1)
    assert bench.runner.cancel(waiting).state == JobState.CANCELLED
    assert bench.runner.cancel(running).cancel_requested
    assert bench.wait(running).state == JobState.CANCELLED
    assert bench.runner.cancel(running).state == JobState.CANCELLED
    assert (bench.works.ran, bench.works.cleaned) == ([b"/a"], [b"/a"])


def test_a_job_that_was_interrupted_and_then_cancelled_is_cleaned_up(tmp_path: Path) -> None:
    store = JobStore(str(tmp_path / "jobs"))
    job, _ = store.submit("ann", "", 2, b"/a")
    store.start(job.id)
    store.close()
    bench = Bench(tmp_path / "jobs")
    assert bench.runner.cancel(job.id).state == JobState.QUEUED
    bench.runner.start()
    assert bench.wait(job.id).state == JobState.CANCELLED
    assert (bench.works.ran, bench.works.cleaned) == ([], [b"/a"])
    bench.close()


def raising(error: Exception) -> Callable[[JobControl], None]:
    def act(control: JobControl) -> None:
        raise error

    return act


@pytest.mark.parametrize("error", [DamagedError("bad"), OSError("full"), ZeroDivisionError("a bug")])
def test_an_error_ends_its_job_alone(bench: Bench, error: Exception) -> None:
    bench.works.acts[b"/a"] = raising(error)
    failing, other = bench.submit(b"/a"), bench.submit(b"/b")
    bench.runner.start()
    record = bench.wait(failing)
    assert (record.state, record.error.decode()) == (JobState.FAILED, f"{type(error).__name__}: {error}")
    assert bench.wait(other).result == b"result of /b"
    assert bench.works.cleaned == [b"/a"]


def test_what_came_of_a_job_is_kept_when_the_disk_has_room_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    finish, failures = bench.store.finish, [OSError("no space"), OSError("no space")]

    def full(id: str, state: JobState, progress: JobProgress, *, result: bytes = b"", error: bytes = b"") -> JobRecord:
        if failures:
            raise failures.pop()
        return finish(id, state, progress, result=result, error=error)

    monkeypatch.setattr(bench.store, "finish", full)
    monkeypatch.setattr(jobrunner, "_PAUSE", 0.001)
    id = bench.submit(b"/a")
    bench.runner.start()
    assert bench.wait(id).state == JobState.SUCCEEDED
    assert failures == []
    assert bench.works.ran == [b"/a"]


def test_jobs_run_again_when_their_file_can_be_read_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    queued, failures = bench.store.queued, [JobError("it is damaged"), OSError("no answer")]

    def broken() -> list[JobRecord]:
        if failures:
            raise failures.pop()
        return queued()

    monkeypatch.setattr(bench.store, "queued", broken)
    monkeypatch.setattr(jobrunner, "_PAUSE", 0.001)
    id = bench.submit(b"/a")
    bench.runner.start()
    assert bench.wait(id).state == JobState.SUCCEEDED
    assert failures == []


def test_a_job_that_ends_the_service_each_time_is_given_up(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobrunner, "_MOST_ATTEMPTS", 2)
    id = bench.submit(b"/a")
    for _ in range(2):
        bench.store.start(id)
        bench.store.requeue(id, JobProgress())
    bench.runner.start()
    record = bench.wait(id)
    assert (record.state, b"never came to its end" in record.error, bench.works.ran) == (JobState.FAILED, True, [])
