import threading
from functools import partial

import pytest

from speccompact.parallel import Workers, available_cores


def test_there_is_a_core() -> None:
    assert available_cores() >= 1


@pytest.mark.parametrize("threads", [0, 1, 2, 3, 4, 9])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 64])
def test_items_are_dealt_out_evenly_and_all_of_them(threads: int, count: int) -> None:
    groups = Workers(threads).share(range(count))
    assert sorted(item for group in groups for item in group) == list(range(count))
    assert all(groups)
    assert not groups or max(map(len, groups)) - min(map(len, groups)) <= 1
    assert len(groups) <= max(1, threads or available_cores())


@pytest.mark.parametrize("count", [1, 2, 5])
def test_results_come_in_order(count: int) -> None:
    workers = Workers(2)
    for _ in range(3):
        assert workers.run([partial(int.__mul__, i, 10) for i in range(count)]) == [i * 10 for i in range(count)]


def test_one_task_runs_in_the_callers_thread() -> None:
    assert Workers(4).run([threading.current_thread]) == [threading.current_thread()]


def test_tasks_run_side_by_side() -> None:
    meeting = threading.Barrier(2, timeout=60)
    assert sorted(Workers(2).run([meeting.wait, meeting.wait])) == [0, 1]


def test_the_first_error_is_raised_and_the_workers_go_on() -> None:
    workers = Workers(2)

    def fail(words: str) -> int:
        raise LookupError(words)

    with pytest.raises(LookupError, match="one"):
        workers.run([partial(int, "0"), partial(fail, "one"), partial(fail, "two")])
    assert workers.run([lambda: 1, lambda: 2]) == [1, 2]
