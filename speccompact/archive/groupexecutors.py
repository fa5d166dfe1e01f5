"""Where groups are made: here, one after the other, or wherever an executor of another kind sends them."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Protocol

from speccompact.archive.groupbuilding import BuiltGroup, GroupTask, Watch, build_group
from speccompact.errors import ArgumentError
from speccompact.options import Options
from speccompact.streams.engine import Engines


class Executor(Protocol):
    """Makes groups. The records come in the order of the tasks, and are the same wherever they are made."""

    def run(self, tasks: Iterable[GroupTask], watch: Watch) -> Iterator[BuiltGroup]:
        """Yield a record for every task; takes no more tasks than it has room for."""
        ...


class LocalExecutor:
    """Makes groups in this process, one after the other, each with all threads of the options."""

    def __init__(self, options: Options, engines: Engines | None = None) -> None:
        self._options, self._engines = options, engines

    def run(self, tasks: Iterable[GroupTask], watch: Watch) -> Iterator[BuiltGroup]:
        """See `Executor`."""
        for task in tasks:
            yield build_group(task, self._options, self._engines, partial(watch, task))


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
