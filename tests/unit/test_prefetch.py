import threading
from typing import Any, cast

import pytest

from speccompact.training.batch import Batch
from speccompact.training.prefetch import Prefetcher
from speccompact.training.sampling import SequenceStream


class Counting:
    """A stream that counts, and may fail."""

    def __init__(self, fail_at: int = -1) -> None:
        self.made = 0
        self._fail_at = fail_at

    def next_step(self) -> list[Batch]:
        if self.made == self._fail_at:
            raise OSError("gone")
        self.made += 1
        return []

    def state(self) -> dict[str, Any]:
        return {"made": self.made}

    def consumed(self) -> dict[str, int]:
        return {"text": self.made}


def prefetching(stream: Counting) -> Prefetcher:
    return Prefetcher(cast(SequenceStream, stream))


def test_steps_come_in_order_with_the_state_behind_each() -> None:
    with prefetching(Counting()) as batches:
        assert [batches.next_step() for _ in range(20)] == [
            ([], {"made": number}, {"text": number}) for number in range(1, 21)
        ]


def test_an_error_is_raised_where_the_step_would_have_come() -> None:
    with prefetching(Counting(fail_at=2)) as batches:
        batches.next_step()
        batches.next_step()
        with pytest.raises(OSError, match="gone"):
            batches.next_step()


def test_leaving_ends_the_thread_and_little_is_made_in_vain() -> None:
    stream = Counting()
    with prefetching(stream) as batches:
        batches.next_step()
    assert not any(thread.name == "speccompact-batches" for thread in threading.enumerate())
    assert stream.made <= 6
