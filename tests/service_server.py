"""The service on the tiny model, in this process, on a free port of the loopback interface."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import grpc

from speccompact.options import Options
from speccompact_grpc.compression import CompressionServicer, ServiceLimits
from speccompact_grpc.interception import StageInterceptor
from speccompact_grpc.observing import Observer
from speccompact_grpc.serviceengines import ServedModels
from speccompact_grpc.v1.speccompact_pb2_grpc import CompressionServiceStub, add_CompressionServiceServicer_to_server
from tests.tiny_model import TINY_EXACT

SERVED = Options(threads=1, drafter="suffix")
_MOST_SECONDS = 60.0


@dataclass(frozen=True)
class Served:
    """A running service.

    Attributes:
        address: host and port.
        models: what it serves.
        stub: calls it.
    """

    address: str
    models: ServedModels
    stub: CompressionServiceStub


@contextmanager
def serving(
    options: Options = SERVED,
    *,
    places: int = 128,
    queue_slots: int = 4096,
    limits: ServiceLimits | None = None,
    observer: Observer | None = None,
) -> Iterator[Served]:
    """Run a service; every call must be over at the end."""
    models = ServedModels.load([str(TINY_EXACT)], options, places, queue_slots, observer)
    server = grpc.server(ThreadPoolExecutor(64), interceptors=[StageInterceptor([])])
    add_CompressionServiceServicer_to_server(CompressionServicer(models, limits), server)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        with grpc.insecure_channel(address) as channel:
            yield Served(address, models, CompressionServiceStub(channel))
    finally:
        server.stop(0).wait(_MOST_SECONDS)
        models.close()
