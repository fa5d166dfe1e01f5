"""Jobs on disk."""

import sqlite3
from pathlib import Path

import pytest

from speccompact.errors import JobError
from speccompact_grpc import jobstore
from speccompact_grpc.jobrecords import JobProgress, JobState
from speccompact_grpc.jobstore import JobStore, KeyTaken, TooManyJobs


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "jobs.sqlite")


def test_a_job_is_kept_through_its_life(path: str) -> None:
    store = JobStore(path, Clock())
    job, new = store.submit("ann", "", 2, b"spec")
    assert new
    assert (job.number, job.owner, job.priority, job.spec) == (1, "ann", 2, b"spec")
    assert (job.state, job.created_ms, job.started_ms, job.attempts) == (JobState.QUEUED, 1_001_000, 0, 0)
    assert len(job.id) == 32
    started = store.start(job.id)
    assert (started.state, started.started_ms, started.attempts) == (JobState.RUNNING, 1_002_000, 1)
    store.mark(job.id, "1:2:3:4", b"almost")
    assert store.get(job.id) is not None
    ended = store.finish(job.id, JobState.SUCCEEDED, JobProgress(5, 5, 1, 1), result=b"result")
    assert (ended.state, ended.ended_ms, ended.mark, ended.result) == (JobState.SUCCEEDED, 1_003_000, "", b"result")
    assert ended.progress == JobProgress(5, 5, 1, 1)
    assert store.get(job.id) == ended
    store.close()
    again = JobStore(path)
    assert again.get(job.id) == ended
    again.close()


def test_what_was_running_when_the_service_was_killed_is_queued_again_with_its_mark(path: str) -> None:
    store = JobStore(path)
    jobs = [store.submit("ann", "", 2, bytes([number]))[0] for number in range(3)]
    store.start(jobs[0].id)
    store.mark(jobs[0].id, "mark", b"result")
    store.finish(jobs[1].id, JobState.FAILED, JobProgress(), error=b"why")
    store.close()
    store = JobStore(path)
    found = [store.get(job.id) for job in jobs]
    assert [job and job.state for job in found] == [JobState.QUEUED, JobState.FAILED, JobState.QUEUED]
    assert found[0] is not None
    assert (found[0].attempts, found[0].mark, found[0].result) == (1, "mark", b"result")
    store.close()


def test_a_key_makes_repetition_safe_for_each_owner(path: str) -> None:
    store = JobStore(path)
    job, _ = store.submit("ann", "key", 2, b"spec")
    assert store.submit("ann", "key", 2, b"spec") == (job, False)
    assert store.keyed("ann", "key") == job
    assert store.keyed("bob", "key") is None
    with pytest.raises(KeyTaken):
        store.submit("ann", "key", 2, b"other")
    with pytest.raises(KeyTaken):
        store.submit("ann", "key", 3, b"spec")
    other, new = store.submit("bob", "key", 2, b"spec")
    assert new
    assert other.id != job.id
    assert store.submit("ann", "", 2, b"spec")[0].id != store.submit("ann", "", 2, b"spec")[0].id
    store.close()


def test_pages_go_from_new_to_old_and_are_of_one_owner(path: str) -> None:
    store = JobStore(path)
    ann = [store.submit("ann", "", 2, b"")[0] for _ in range(5)]
    store.submit("bob", "", 2, b"")
    store.start(ann[1].id)
    assert [job.number for job in store.page("ann", [], None, 2)] == [5, 4]
    assert [job.number for job in store.page("ann", [], 4, 9)] == [3, 2, 1]
    assert [job.number for job in store.page("ann", [JobState.RUNNING], None, 9)] == [2]
    assert [job.number for job in store.page("carol", [], None, 9)] == []
    assert store.counts()[JobState.QUEUED] == 5
    store.close()


def test_the_queue_has_an_order_and_an_end(path: str) -> None:
    store = JobStore(path, most_waiting=3)
    low, high, later = (store.submit("ann", "", priority, b"spec")[0] for priority in (1, 3, 3))
    assert [job.id for job in store.queued()] == [high.id, later.id, low.id]
    assert store.queued()[0].spec == b""
    with pytest.raises(TooManyJobs):
        store.submit("ann", "", 3, b"")
    store.start(low.id)
    store.submit("ann", "", 3, b"")
    store.close()


def test_the_oldest_jobs_that_have_ended_go(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobstore, "_MOST_ENDED", 2)
    store = JobStore(path)
    jobs = [store.submit("ann", "", 2, b"")[0] for _ in range(4)]
    for job in jobs[:3]:
        store.finish(job.id, JobState.SUCCEEDED, JobProgress())
    store.submit("ann", "", 2, b"")
    assert [job.number for job in store.page("ann", [], None, 9)] == [5, 4, 3, 2]
    store.close()


def test_cancelling_changes_nothing_of_a_job_that_has_ended(path: str) -> None:
    store = JobStore(path)
    running, ended = (store.submit("ann", "", 2, b"")[0] for _ in range(2))
    store.start(running.id)
    done = store.finish(ended.id, JobState.SUCCEEDED, JobProgress())
    assert store.request_cancel(running.id).cancel_requested
    assert store.request_cancel(ended.id) == done
    with pytest.raises(JobError):
        store.request_cancel("nobody")
    store.close()


def test_a_requeued_job_keeps_how_far_it_was(path: str) -> None:
    store = JobStore(path)
    job, _ = store.submit("ann", "", 2, b"")
    store.start(job.id)
    found = store.requeue(job.id, JobProgress(3, 9, 1, 2))
    assert (found.state, found.started_ms, found.attempts) == (JobState.QUEUED, 0, 1)
    assert found.progress == JobProgress(3, 9, 1, 2)
    store.close()


def test_a_file_is_for_one_process(path: str) -> None:
    store = JobStore(path)
    with pytest.raises(JobError, match="another process"):
        JobStore(path)
    store.close()


def test_what_is_no_file_of_jobs_is_left_alone(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_bytes(b"not a database, by far" * 100)
    with pytest.raises(JobError):
        JobStore(str(text))
    assert text.read_bytes() == b"not a database, by far" * 100
    other = sqlite3.connect(tmp_path / "other")
    other.execute("CREATE TABLE mine (a)")
    other.commit()
    other.close()
    with pytest.raises(JobError, match="no file of jobs"):
        JobStore(str(tmp_path / "other"))
    with pytest.raises(OSError, match="cannot be written"):
        JobStore(str(tmp_path / "nowhere" / "jobs"))
