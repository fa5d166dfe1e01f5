"""A server of jobs with the model that is none, in this process or, as ``python -m tests.job_server``, in its own."""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc

from speccompact.errors import SpecCompactError
from speccompact.streams.engine import Engine, Engines
from speccompact_grpc.callers import Caller
from speccompact_grpc.calls import Call
from speccompact_grpc.interception import ServedCall, StageInterceptor
from speccompact_grpc.jobservice import JobService
from speccompact_grpc.observing import Silent
from speccompact_grpc.refusals import Refusal
from speccompact_grpc.v1 import speccompact_pb2_grpc as pb_grpc
from tests.fakes import FakeEngines


class CheckedEngines(FakeEngines):
    """The fake model, for a call: each time that it is asked for, the call must not have ended."""

    def __init__(self, call: Call, before: Callable[[Call], None]) -> None:
        super().__init__()
        self._call, self._before = call, before

    def named(self, model: str) -> Engine:
        self._before(self._call)
        self._call.check()
        return super().named(model)


class Named:
    """Lets the metadata "caller" say who calls."""

    def begin(self, call: ServedCall) -> None:
        call.caller = Caller(call.metadata.get("caller", "anonymous"))

    def receive(self, call: ServedCall, size: int) -> None: ...

    def send(self, call: ServedCall, size: int) -> None: ...

    def end(self, call: ServedCall) -> None: ...


def refusal(error: Exception) -> Refusal:
    number = error.number if isinstance(error, SpecCompactError) else 0
    return Refusal(grpc.StatusCode.FAILED_PRECONDITION, "LIBRARY", str(error), number=number)


def make_service(folder: Path, before: Callable[[Call], None] = lambda call: None, workers: int = 1) -> JobService:
    def engines(call: Call) -> Engines:
        return CheckedEngines(call, before)

    (folder / "data").mkdir(exist_ok=True)
    return JobService(
        str(folder / "jobs.sqlite"),
        [str(folder / "data")],
        engines=engines,
        default_model="fake",
        refusal=refusal,
        observer=Silent(),
        workers=workers,
    )


@contextmanager
def served(service: JobService) -> Iterator[pb_grpc.JobServiceStub]:
    """Serve on a free port, without starting the jobs; stop both at the end."""
    server = grpc.server(ThreadPoolExecutor(8), interceptors=[StageInterceptor([Named()])])
    pb_grpc.add_JobServiceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        try:
            yield pb_grpc.JobServiceStub(channel)
        finally:
            service.stop(10)
            server.stop(None).wait()
            service.close()


def main(folder: Path, grace: float) -> None:
    """Serve until standard input ends; the port goes to standard output."""
    service = make_service(folder, workers=2)
    server = grpc.server(ThreadPoolExecutor(8), interceptors=[StageInterceptor([Named()])])
    pb_grpc.add_JobServiceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    service.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    sys.stdin.read()
    service.stop(grace)
    server.stop(None).wait()
    service.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
