"""Groups made by a Ray cluster: workers that keep the model loaded, a bounded number of groups on the way.

A group is made from its plan alone, so it does not matter which worker makes it, or how often: the record is the same.
Workers read the sources themselves, by the same paths or URLs, and find the model in their own store.
"""

import os
from collections import deque
from collections.abc import Generator, Iterable
from dataclasses import dataclass, replace
from typing import Any

from speccompact.archive.groupbuilding import BuiltGroup, GroupTask, Watch, build_group
from speccompact.errors import ArgumentError, JobError
from speccompact.options import Options

_AHEAD = 2  # groups for each worker: one at work, one that waits for it
_TRIES = 5  # times that a group is begun before it is the group's own fault that workers die


@dataclass(slots=True)
class _Sent:
    """A group on the way: the worker that makes it, by its place among the workers and itself."""

    task: GroupTask
    place: int
    worker: Any
    tries: int = 1


class RayExecutor:
    """Makes groups on the workers of a Ray cluster.

    Memory of the driver: the records of `2 * workers` groups, each at most a little more than the group's content. A
    worker that dies is replaced, and its groups are made anew.

    Args:
        options: how each worker runs; its threads are the CPUs that Ray reserves for a worker (1 if they are 0).
        address: of a cluster, as `ray.init` takes it; None for that of RAY_ADDRESS or, without one, of this machine.
        workers: how many; 0 means as many as the cluster has CPUs for.
        environment: variables of the worker processes.
    """

    def __init__(
        self,
        options: Options,
        address: str | None = None,
        workers: int = 0,
        environment: dict[str, str] | None = None,
    ) -> None:
        try:
            import ray
        except ImportError:
            raise ArgumentError('engine is "ray", which is not installed; install speccompact[ray]') from None
        self._ray: Any = ray
        self._cpus = max(1, options.threads)
        self._options = options
        if not ray.is_initialized():
            variables = {name: value for name, value in os.environ.items() if name.startswith("SPECCOMPACT_")}
            variables |= environment or {}
            try:
                ray.init(
                    address=address,
                    log_to_driver=False,
                    include_dashboard=False if address is None and "RAY_ADDRESS" not in os.environ else None,
                    runtime_env={"env_vars": variables} if variables else None,
                )
            except (ConnectionError, RuntimeError) as error:
                raise JobError(f"the Ray cluster {address or 'of this machine'} cannot be reached: {error}") from None
        self._count = workers or self._room()

    def _room(self) -> int:
        """Return how many workers the nodes have CPUs for; one that fits no node would be waited for without end."""
        nodes = [node["Resources"].get("CPU", 0) for node in self._ray.nodes() if node["Alive"]]
        count = sum(int(cpus) // self._cpus for cpus in nodes)
        if not count:
            most = int(max(nodes, default=0))
            raise ArgumentError(f"threads is {self._cpus}; no node of the cluster has more than {most} CPUs")
        return count

    def run(self, tasks: Iterable[GroupTask], watch: Watch) -> Generator[BuiltGroup, None, None]:
        """See `Executor`. Tasks are sent as records come back, never more than two for each worker."""
        workers = [self._start() for _ in range(self._count)]
        waiting: deque[tuple[_Sent, Any]] = deque()
        try:
            source, number = iter(tasks), 0
            while True:
                while len(waiting) < _AHEAD * self._count and (task := next(source, None)) is not None:
                    place = number % self._count
                    waiting.append((_Sent(task, place, workers[place]), workers[place].build.remote(task)))
                    number += 1
                if not waiting:
                    return
                sent, reference = waiting.popleft()
                yield self._result(sent, reference, workers)
        finally:
            for worker in workers:
                self._ray.kill(worker)

    def _result(self, sent: _Sent, reference: Any, workers: list[Any]) -> BuiltGroup:
        """Return a record when it is there; a worker that died is replaced, and the group sent again."""
        while True:
            try:
                built: BuiltGroup = self._ray.get(reference)
                return built
            except self._ray.exceptions.RayTaskError as error:
                cause = getattr(error, "cause", None)
                if not isinstance(cause, Exception):
                    raise JobError(f"group {sent.task.plan.number} failed on its worker: {error}") from None
                raise cause from None  # what the group itself has raised
            except self._ray.exceptions.RayError as error:
                if sent.tries == _TRIES:
                    raise JobError(
                        f"group {sent.task.plan.number} was given up after {_TRIES} workers had died ({error})"
                    ) from None
                sent.tries += 1
                if workers[sent.place] is sent.worker:  # nobody else has replaced it
                    workers[sent.place] = self._start()
                sent.worker = workers[sent.place]
                reference = sent.worker.build.remote(sent.task)

    def _start(self) -> Any:
        remote = self._ray.remote(num_cpus=self._cpus, max_restarts=0)(_Worker)
        return remote.remote(self._options, self._cpus)


class _Worker:
    """Lives in a process of its own, as long as the job: the model is loaded with the first text and stays."""

    def __init__(self, options: Options, threads: int) -> None:
        self._options = replace(options, threads=threads)

    def build(self, task: GroupTask) -> BuiltGroup:
        """Return the record of a group."""
        return build_group(task, self._options, None)

    def process(self) -> int:
        """Return the number of the worker's process."""
        return os.getpid()
