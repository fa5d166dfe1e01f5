"""What a running job asks and tells: whether it has to stop, and how far it is."""

import threading
from collections.abc import Callable

from speccompact_grpc.calls import Call
from speccompact_grpc.jobrecords import JobProgress


class JobInterrupted(Exception):
    """A job stops before its end: it was asked to, or the service is about to end."""


class JobControl:
    """Of one run of a job. Asked by the thread that works, told by others.

    Args:
        call: what the pool knows of it; cancelling it ends target passes that are under way.
        advanced: told how far the job is.
        marked: told the identity of an output that is about to get its name, and the result.
    """

    def __init__(
        self, call: Call, advanced: Callable[[JobProgress], None], marked: Callable[[str, bytes], None]
    ) -> None:
        self.call = call
        self._advanced, self._marked = advanced, marked
        self._settling = threading.Event()
        self.progress = JobProgress()

    @property
    def stopped(self) -> bool:
        """Whether the job was told to stop, now or at its next commit point."""
        return self.call.cancelled or self._settling.is_set()

    def settle(self) -> None:
        """Let the job stop at its next commit point."""
        self._settling.set()

    def stop(self) -> None:
        """Let the job stop at once; what it has done since its last commit point is lost."""
        self._settling.set()
        self.call.cancel()

    def check(self) -> None:
        """Raise JobInterrupted if the job has to stop at once."""
        if self.call.cancelled:
            raise JobInterrupted

    def commit_point(self) -> None:
        """Raise JobInterrupted if the job has to stop: nothing is lost here."""
        if self.stopped:
            raise JobInterrupted

    def mark(self, identity: str, result: bytes) -> None:
        """Note on disk what the output will be."""
        self._marked(identity, result)

    def advance(
        self,
        done_bytes: int | None = None,
        total_bytes: int | None = None,
        done_groups: int | None = None,
        total_groups: int | None = None,
    ) -> None:
        """Tell how far the job is; what is None stays, and nothing that is done is taken back.

        Raises:
            JobInterrupted: the job has to stop at once.
        """
        self.check()
        now = self.progress
        progress = JobProgress(
            max(now.done_bytes, done_bytes or 0),
            now.total_bytes if total_bytes is None else total_bytes,
            max(now.done_groups, done_groups or 0),
            now.total_groups if total_groups is None else total_groups,
        )
        if progress != now:
            self.progress = progress
            self._advanced(progress)
