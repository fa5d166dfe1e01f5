"""Threads that share the slots of a pass.

Each worker takes a part of the slots through the whole network, so a pass needs one meeting of the threads and not one
for every operation. Compiled kernels and matrix products release the interpreter lock.

Matrix products get threads of their own only beyond _MAX_WORKERS: the threads of torch wait for each other by spinning,
and a pass has hundreds of products, so that on a busy machine most of the time would go into waiting.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

import torch

_MAX_WORKERS = 4
"""Beyond this the interpreter lock costs more than another worker brings; further threads go into matrix products."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def available_cores() -> int:
    """Number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Workers:
    """A few threads for the passes of a codec, and for what is done between them.

    Attributes:
        count: of tasks that run side by side.
    """

    def __init__(self, threads: int) -> None:
        """Decide how threads are used; they start with the first pass that needs them.

        Args:
            threads: CPU threads in all; 0 means all cores that the process may use.
        """
        threads = threads or available_cores()
        self.count = min(threads, _MAX_WORKERS)
        self._inside = threads // self.count
        self._pool: ThreadPoolExecutor | None = None

    def share(self, items: Sequence[_Item]) -> list[Sequence[_Item]]:
        """Deal items out to at most as many groups as there are workers."""
        count = min(self.count, len(items))
        return [items[i::count] for i in range(count)]

    def run(self, tasks: Sequence[Callable[[], _Result]]) -> list[_Result]:
        """Run tasks side by side and return their results in order; the first error is raised, after all have ended."""
        if len(tasks) == 1:
            torch.set_num_threads(self._inside)
            return [tasks[0]()]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.count, "speccompact", torch.set_num_threads, (self._inside,))
        futures = [self._pool.submit(task) for task in tasks]
        wait(futures)
        return [future.result() for future in futures]
