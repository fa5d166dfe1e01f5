"""The jobs as they are this moment: what is on disk, with the progress of those that run; and whoever watches them.

Progress is not written to disk while a job runs: it would cost a flush each time, and a job that was killed finds out
anew how far it is.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from speccompact_grpc.jobrecords import JobProgress, JobRecord
from speccompact_grpc.jobstore import JobStore
from speccompact_grpc.observing import Observer


class Watch:
    """One who watches a job. Many changes between two looks are one."""

    def __init__(self) -> None:
        self._woken, self._over = threading.Event(), threading.Event()

    @property
    def over(self) -> bool:
        """Whether nothing more will be told."""
        return self._over.is_set()

    def wake(self) -> None:
        """Tell of a change."""
        self._woken.set()

    def close(self) -> None:
        """Tell that it is over: nobody looks any more, or the service is about to end."""
        self._over.set()
        self._woken.set()

    def wait(self) -> None:
        """Return when there was a change since the last look, or when it is over."""
        self._woken.wait()
        self._woken.clear()

    def rest(self, seconds: float) -> None:
        """Return after a time, or when it is over."""
        self._over.wait(seconds)


class JobBoard:
    """Safe to use from several threads.

    Args:
        store: the jobs on disk.
        observer: told how many jobs are in each state.
    """

    def __init__(self, store: JobStore, observer: Observer) -> None:
        self.store, self._observer = store, observer
        self._lock = threading.Lock()
        self._live: dict[str, JobProgress] = {}
        self._watches: dict[str, set[Watch]] = {}
        self._closed = False

    def record(self, id: str) -> JobRecord | None:
        """Return a job, or None."""
        found = self.store.get(id)
        return None if found is None else self.current(found)

    def current(self, record: JobRecord) -> JobRecord:
        """Return a job with its progress of this moment."""
        with self._lock:
            progress = self._live.get(record.id)
        return record if progress is None or record.state.ended else replace(record, progress=progress)

    def advance(self, id: str, progress: JobProgress) -> None:
        """Tell how far a running job is."""
        with self._lock:
            self._live[id] = progress
            for watch in self._watches.get(id, ()):
                watch.wake()

    def change(self, record: JobRecord) -> None:
        """Tell that the store has something new about a job."""
        with self._lock:
            if record.state.ended:
                self._live.pop(record.id, None)
            for watch in self._watches.get(record.id, ()):
                watch.wake()
        self._observer.jobs({state.name.lower(): count for state, count in self.store.counts().items()})

    @contextmanager
    def watching(self, id: str) -> Iterator[Watch]:
        """Give a watch that is told of every change from now on."""
        watch = Watch()
        with self._lock:
            if self._closed:
                watch.close()
            self._watches.setdefault(id, set()).add(watch)
        try:
            yield watch
        finally:
            with self._lock:
                self._watches[id].discard(watch)
                if not self._watches[id]:
                    del self._watches[id]

    def close(self) -> None:
        """Let all who watch know that the service is about to end."""
        with self._lock:
            self._closed = True
            for watches in self._watches.values():
                for watch in watches:
                    watch.close()
