"""Where groups are made: here, one by one or side by side, or wherever an executor of another kind sends them."""

import threading
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Protocol

from speccompact.archive.groupbuilding import BuiltGroup, GroupTask, Watch, build_group
from speccompact.errors import ArgumentError
from speccompact.options import Options
from speccompact.streams.engine import Engines, SharedEngines, StoredEngines

_AHEAD = 2  # groups for each thread: one at work, one that waits for it or for its turn


class Executor(Protocol):
    """Makes groups. The records come in the order of the tasks, and are the same wherever they are made."""

    def run(self, tasks: Iterable[GroupTask], watch: Watch) -> Generator[BuiltGroup, None, None]:
        """Yield a record for every task; takes no more tasks than it has room for. Closed early, it stops its work."""
        ...


class LocalExecutor:
    """Makes groups in this process, as many at once as the options say, each with its part of the threads.

    Memory: that of a group for each that is made at once, and as many records that wait for one before them.
    """

    def __init__(self, options: Options, engines: Engines | None = None) -> None:
        self._options, self._engines = options, engines

    def run(self, tasks: Iterable[GroupTask], watch: Watch) -> Generator[BuiltGroup, None, None]:
        """See `Executor`. With several groups at once, `watch` is called from several threads."""
        if self._options.groups == 1:
            for task in tasks:
                yield build_group(task, self._options, self._engines, partial(watch, task))
            return
        yield from self._side_by_side(iter(tasks), watch)

    def _side_by_side(self, tasks: Iterator[GroupTask], watch: Watch) -> Generator[BuiltGroup, None, None]:
        """A thread for each group: kernels let go of the interpreter, and the model is in memory once."""
        parts = self._options.groups
        engines = SharedEngines(self._engines or StoredEngines(self._options), parts)
        stopped = threading.Event()

        def build(task: GroupTask) -> BuiltGroup:
            def tick(done: int) -> None:
                if stopped.is_set():
                    raise CancelledError  # nobody waits for the record any more
                watch(task, done)

            return build_group(task, self._options, engines, tick)

        waiting: deque[Future[BuiltGroup]] = deque()
        with ThreadPoolExecutor(parts, "speccompact-group") as pool:
            try:
                while True:
                    waiting.extend(pool.submit(build, task) for task in islice(tasks, _AHEAD * parts - len(waiting)))
                    if not waiting:
                        return
                    yield waiting.popleft().result()
            finally:
                stopped.set()
                pool.shutdown(wait=True, cancel_futures=True)


def make_executor(name: str, options: Options, engines: Engines | None = None) -> Executor:
    """Return the executor of a name: "local", "ray" or "ray://HOST:PORT".

    Raises:
        ArgumentError: there is none of that name, or it is not installed.
    """
    if name == "local":
        return LocalExecutor(options, engines)
    if name == "ray" or name.startswith("ray://"):
        from speccompact.archive.rayexecutor import RayExecutor  # loads ray

        return RayExecutor(options, address=None if name == "ray" else name)
    raise ArgumentError(f'engine is "{name}"; choose local, ray or ray://HOST:PORT')
