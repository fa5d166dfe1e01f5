"""Runs jobs: a few at once, in threads; which one next; and what becomes of one that ends.

Which next: those that were interrupted first, then higher priorities, then callers with fewer jobs at work, then older
ones. A job that has to wait for the files of another holds back all behind it that would be in its own way.
"""

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

from speccompact.errors import JobError, SpecCompactError
from speccompact_grpc.calls import Call, CallEnded
from speccompact_grpc.jobboard import JobBoard
from speccompact_grpc.jobcontrol import JobControl, JobInterrupted
from speccompact_grpc.jobpaths import Claim
from speccompact_grpc.jobrecords import JobProgress, JobRecord, JobState

_LOG = logging.getLogger(__name__)
_MOST_ATTEMPTS = 100
_PAUSE = 1.0  # seconds until the store is tried again, when it cannot be used


class Work(Protocol):
    """What jobs are, for one who only runs them."""

    def claim(self, record: JobRecord) -> Claim:
        """Return what a job works on."""
        ...

    def run(self, record: JobRecord, control: JobControl) -> bytes:
        """Do it, or go on with it, and return a serialized `JobResult`. Raises whatever stands in the way."""
        ...

    def clean(self, record: JobRecord) -> None:
        """Remove what an unfinished job has left. Raises nothing."""
        ...

    def explain(self, error: Exception) -> bytes:
        """Return an error as a serialized `ErrorStatus`."""
        ...


class JobRunner:
    """Runs the jobs of a board from `start` on until `stop`.

    Args:
        board: the jobs.
        work: what they do.
        workers: jobs at once.
    """

    def __init__(self, board: JobBoard, work: Work, workers: int) -> None:
        self._board, self._store, self._work = board, board.store, work
        self._changed = threading.Condition()
        self._draining = threading.Event()
        self._running: dict[str, tuple[JobRecord, JobControl]] = {}
        self._claims: dict[str, Claim] = {}
        self._threads = [
            threading.Thread(target=self._serve, name=f"speccompact-job-{number}", daemon=True)
            for number in range(workers)
        ]

    def start(self) -> None:
        """Begin, with what an earlier run of the service has left."""
        for thread in self._threads:
            thread.start()

    def wake(self) -> None:
        """Tell that there is a new job."""
        with self._changed:
            self._changed.notify_all()

    def stop(self, grace: float) -> None:
        """Start nothing more, let running jobs come to a commit point, and return when none runs.

        Args:
            grace: seconds after which those that have not come to one are stopped where they are.
        """
        with self._changed:
            self._draining.set()
            for _, control in self._running.values():
                control.settle()
            self._changed.notify_all()
        self._board.close()
        end = time.monotonic() + grace
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, end - time.monotonic()))
        with self._changed:
            for _, control in self._running.values():
                control.stop()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def cancel(self, id: str) -> JobRecord:
        """Let a job stop; one that has not begun is over at once, one that has ended stays as it is."""
        with self._changed:
            record = self._store.request_cancel(id)
            if id in self._running:
                self._running[id][1].stop()
            elif record.state == JobState.QUEUED and not record.attempts:
                record = self._store.finish(id, JobState.CANCELLED, record.progress)
                self._claims.pop(id, None)
            self._changed.notify_all()
        self._board.change(record)
        return record

    def _serve(self) -> None:
        while True:
            with self._changed:
                taken, patience = None, None
                try:
                    taken = self._take()
                except (OSError, JobError) as error:
                    _LOG.error("the jobs that wait cannot be read: %s", error)
                    patience = _PAUSE
                if taken is None:
                    if self._draining.is_set():
                        return
                    self._changed.wait(patience)
                    continue
            self._run(*taken)
            with self._changed:
                del self._running[taken[0].id]
                self._changed.notify_all()

    def _take(self) -> tuple[JobRecord, JobControl] | None:
        """Note the next job as running and return it, or None while there is none that may."""
        if self._draining.is_set():
            return None
        record = self._next()
        if record is None:
            return None
        call = Call(record.owner, record.priority, patient=True)
        control = JobControl(
            call,
            lambda progress: self._board.advance(record.id, progress),
            lambda mark, result: self._store.mark(record.id, mark, result),
        )
        self._running[record.id] = record, control
        return record, control

    def _next(self) -> JobRecord | None:
        busy: dict[str, int] = {}
        held = []
        for running, _ in self._running.values():
            busy[running.owner] = busy.get(running.owner, 0) + 1
            held.append(self._claim(running))
        waiting = [record for record in self._store.queued() if record.id not in self._running]
        waiting.sort(key=lambda record: (not record.attempts, -record.priority, busy.get(record.owner, 0)))
        for record in waiting:
            claim = self._claim(record)
            if not any(claim.conflicts(other) for other in held):
                return record
            held.append(claim)
        return None

    def _claim(self, record: JobRecord) -> Claim:
        if record.id not in self._claims:
            self._claims[record.id] = self._work.claim(self._store.get(record.id) or record)
        return self._claims[record.id]

    def _run(self, record: JobRecord, control: JobControl) -> None:
        """Run a job to its end, or to where it has to stop, and keep what came of it."""
        try:
            record = self._store.start(record.id)
            self._board.change(record)
            if record.attempts > _MOST_ATTEMPTS:
                raise JobError(f"the job was started {_MOST_ATTEMPTS} times and never came to its end")
            if record.cancel_requested:
                control.stop()
            control.check()
            result = self._work.run(record, control)
        except Exception as error:
            self._keep(partial(self._broken_off, record, control, error))
        else:
            self._keep(
                lambda: self._store.finish(record.id, JobState.SUCCEEDED, _complete(control.progress), result=result)
            )

    def _broken_off(self, record: JobRecord, control: JobControl, error: Exception) -> JobRecord:
        found = self._store.get(record.id)
        if found is not None and found.cancel_requested:
            self._work.clean(record)
            return self._store.finish(record.id, JobState.CANCELLED, control.progress)
        if isinstance(error, CallEnded | JobInterrupted) and (control.stopped or self._draining.is_set()):
            return self._store.requeue(record.id, control.progress)
        if not isinstance(error, SpecCompactError | OSError):
            _LOG.error("job %s failed", record.id, exc_info=error)
        self._work.clean(record)
        return self._store.finish(record.id, JobState.FAILED, control.progress, error=self._work.explain(error))

    def _keep(self, save: Callable[[], JobRecord]) -> None:
        """Save what came of a job, however long the disk is full; a service that ends first finds the job again."""
        while True:
            try:
                record = save()
            except (OSError, JobError) as error:
                _LOG.error("what came of a job cannot be kept: %s", error)
                if self._draining.wait(_PAUSE):
                    return
                continue
            if record.state.ended:
                with self._changed:
                    self._claims.pop(record.id, None)
            self._board.change(record)
            return


def _complete(progress: JobProgress) -> JobProgress:
    """Return the progress of a job that is done: nothing is left to do."""
    done = max(progress.done_bytes, progress.total_bytes)
    groups = max(progress.done_groups, progress.total_groups)
    return JobProgress(done, done, groups, groups)
