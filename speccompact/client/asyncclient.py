"""The client for asyncio: each function is one RPC. Tries and streams are in `asynccalls`, the rest is shared."""

from collections.abc import AsyncIterable, AsyncIterator, Sequence
from types import TracebackType
from typing import Self

from speccompact.client import plans
from speccompact.client.asyncbridge import Sink
from speccompact.client.asynccalls import AsyncCalls
from speccompact.client.asyncjobs import AsyncJobs
from speccompact.client.connecting import Connection
from speccompact.client.conversion import Priority
from speccompact.client.retrying import RetryPolicy
from speccompact.errors import SpecCompactError
from speccompact.params import DEFAULT_LEVEL
from speccompact.streams.inspecting import FileInfo
from speccompact.streams.summary import Progress, Summary
from speccompact_grpc.v1 import speccompact_pb2 as pb
from speccompact_grpc.v1.speccompact_pb2_grpc import CompressionServiceStub

_POLICY = RetryPolicy()


class AsyncClient:
    """A service, as coroutines of one event loop, in which the client is made. Tasks may share a client.

    Every function takes `timeout`: seconds for all tries of the call together, None for any time. Besides what each one
    names, all raise `ServiceError`: `ServiceUnavailableError`, `ServiceBusyError`, `ServiceTimeoutError`,
    `ServiceDeniedError`, or itself where the service fails or answers what cannot be; and, where the service meets an
    error of the library, that one.

    Args:
        connection: where the service is, and who calls.
        retry: what is tried again, and how often.
        streams: streams at once, at most, for each has a thread; others wait for one to end.

    Attributes:
        jobs: work on files of the server.
    """

    def __init__(self, connection: Connection, retry: RetryPolicy = _POLICY, streams: int = 64) -> None:
        self._calls = AsyncCalls(connection, retry, streams)
        self._stub = CompressionServiceStub(self._calls.channel)
        self.jobs = AsyncJobs(self._calls)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End all calls and close the connection."""
        await self._calls.close()

    async def compress(
        self, content: bytes, *, level: int = DEFAULT_LEVEL, model: str = "", timeout: float | None = None
    ) -> bytes:
        """Return content of any size as an archive."""
        target = bytearray()
        await self.compress_stream(_once(content), _into(target), level=level, model=model, timeout=timeout)
        return bytes(target)

    async def decompress(self, archive: bytes, *, timeout: float | None = None) -> bytes:
        """Return the content of an archive of any size."""
        target = bytearray()
        await self.decompress_stream(_once(archive), _into(target), timeout=timeout)
        return bytes(target)

    async def compress_stream(
        self,
        source: AsyncIterable[bytes],
        sink: Sink,
        *,
        level: int = DEFAULT_LEVEL,
        model: str = "",
        slot_tokens: int | None = None,
        group_frames: int | None = None,
        priority: Priority = "normal",
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> Summary:
        """Compress everything that `source` gives into `sink`. Options are those of `speccompact.compress_stream`.

        What `sink` has taken before this returns is no archive yet. Nothing is taken from the service while it works.
        An empty `model` is the service's default.

        Raises:
            ArgumentError: an option is out of range.
            Exception: whatever `source` or `sink` raise.
        """
        plan = plans.compress_plan(
            level=level,
            model=model,
            slot_tokens=slot_tokens,
            group_frames=group_frames,
            priority=priority,
            progress=progress,
        )
        return await self._calls.stream(self._calls.stub.Compress, plan, source, sink, timeout)

    async def decompress_stream(
        self,
        source: AsyncIterable[bytes],
        sink: Sink,
        *,
        max_output: int | None = None,
        byte_range: tuple[int, int] | None = None,
        salvage: bool = False,
        priority: Priority = "normal",
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> Summary:
        """Decode the archives that `source` gives into `sink`. Options are those of `speccompact.decompress_stream`.

        The content is compared with the checks in the archive, frame by frame, unless only a range or what a salvage
        can save is wanted.

        Raises:
            ArgumentError: a value makes no sense.
            FormatError: the archive is damaged.
            LimitError: it holds more than `max_output` bytes, or more than the service allows.
            Exception: whatever `source` or `sink` raise.
        """
        plan = plans.decompress_plan(
            max_output=max_output, byte_range=byte_range, salvage=salvage, priority=priority, progress=progress
        )
        return await self._calls.stream(self._calls.stub.Decompress, plan, source, sink, timeout)

    async def compress_text(
        self,
        content: bytes,
        *,
        level: int = DEFAULT_LEVEL,
        model: str = "",
        priority: Priority = "normal",
        timeout: float | None = None,
    ) -> bytes:
        """Return a small body as an archive, in one message each way. Raises LimitError where it is too large."""
        request = plans.text_request(content, level, model, priority)
        return plans.compressed_text(content, await self._calls.unary(self._stub.CompressText, request, timeout))

    async def decompress_text(
        self, archive: bytes, *, priority: Priority = "normal", timeout: float | None = None
    ) -> bytes:
        """Return the content of a small archive, in one message each way. Raises LimitError where it is too large."""
        request = plans.archive_request(archive, priority)
        return plans.decompressed_text(archive, await self._calls.unary(self._stub.DecompressText, request, timeout))

    async def compress_many(
        self,
        contents: Sequence[bytes],
        *,
        level: int = DEFAULT_LEVEL,
        model: str = "",
        priority: Priority = "normal",
        timeout: float | None = None,
    ) -> list[bytes | SpecCompactError]:
        """Return an archive for each small body, or the error that it met; `timeout` is for each message of them."""
        results: list[bytes | SpecCompactError] = []
        for request in plans.many_requests(contents, level, model, priority):
            answer = await self._calls.unary(self._stub.CompressMany, request, timeout)
            results += plans.many_compressed(request, answer, self._calls.address)
        return results

    async def inspect(self, archive: bytes | AsyncIterable[bytes], *, timeout: float | None = None) -> FileInfo:
        """Return what an archive says about itself. Raises FormatError where its structure is damaged."""
        source = _once(archive) if isinstance(archive, bytes) else archive
        return plans.inspected(
            *await self._calls.upload(self._calls.stub.Inspect, plans.inspect_plan(), source, timeout)
        )

    async def models(self, *, timeout: float | None = None) -> list[pb.Model]:
        """Return the models that the service offers."""
        return list((await self._calls.unary(self._stub.ListModels, pb.ListModelsRequest(), timeout)).models)


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data


def _into(target: bytearray) -> Sink:
    async def take(data: bytes) -> None:
        target.extend(data)

    return take
