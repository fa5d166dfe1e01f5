"""The client for threads: each function is one RPC. Tries and streams are in `synccalls`, the rest is shared."""

import io
from collections.abc import Sequence
from types import TracebackType
from typing import BinaryIO, Self

from speccompact.client import plans
from speccompact.client.connecting import Connection
from speccompact.client.conversion import Priority
from speccompact.client.retrying import RetryPolicy
from speccompact.client.synccalls import Calls
from speccompact.client.syncjobs import Jobs
from speccompact.errors import SpecCompactError
from speccompact.params import DEFAULT_LEVEL
from speccompact.streams.inspecting import FileInfo
from speccompact.streams.summary import Progress, Summary
from speccompact_grpc.v1 import speccompact_pb2 as pb
from speccompact_grpc.v1.speccompact_pb2_grpc import CompressionServiceStub

_POLICY = RetryPolicy()


class Client:
    """A service, as functions. Threads may share a client.

    Every function takes `timeout`: seconds for all tries of the call together, None for any time. Besides what each one
    names, all raise `ServiceError`: `ServiceUnavailableError`, `ServiceBusyError`, `ServiceTimeoutError`,
    `ServiceDeniedError`, or itself where the service fails or answers what cannot be; and, where the service meets an
    error of the library, that one.

    Args:
        connection: where the service is, and who calls.
        retry: what is tried again, and how often.

    Attributes:
        jobs: work on files of the server.
    """

    def __init__(self, connection: Connection, retry: RetryPolicy = _POLICY) -> None:
        self._calls = Calls(connection, retry)
        self._stub = CompressionServiceStub(self._calls.channel)
        self.jobs = Jobs(self._calls)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End all calls and close the connection."""
        self._calls.close()

    def compress(
        self, content: bytes, *, level: int = DEFAULT_LEVEL, model: str = "", timeout: float | None = None
    ) -> bytes:
        """Return content of any size as an archive."""
        target = io.BytesIO()
        self.compress_stream(io.BytesIO(content), target, level=level, model=model, timeout=timeout)
        return target.getvalue()

    def decompress(self, archive: bytes, *, timeout: float | None = None) -> bytes:
        """Return the content of an archive of any size."""
        target = io.BytesIO()
        self.decompress_stream(io.BytesIO(archive), target, timeout=timeout)
        return target.getvalue()

    def compress_stream(
        self,
        source: BinaryIO,
        target: BinaryIO,
        *,
        level: int = DEFAULT_LEVEL,
        model: str = "",
        slot_tokens: int | None = None,
        group_frames: int | None = None,
        priority: Priority = "normal",
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> Summary:
        """Compress everything that `source` gives into `target`. Options are those of `speccompact.compress_stream`.

        What is written to `target` before this returns is no archive yet: write to a temporary name and rename. An
        empty `model` is the service's default.

        Raises:
            ArgumentError: an option is out of range.
            OSError: reading or writing fails.
        """
        plan = plans.compress_plan(
            level=level,
            model=model,
            slot_tokens=slot_tokens,
            group_frames=group_frames,
            priority=priority,
            progress=progress,
        )
        return self._calls.stream(self._stub.Compress, plan, source, target, timeout)

    def decompress_stream(
        self,
        source: BinaryIO,
        target: BinaryIO,
        *,
        max_output: int | None = None,
        byte_range: tuple[int, int] | None = None,
        salvage: bool = False,
        priority: Priority = "normal",
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> Summary:
        """Decode the archives that `source` gives into `target`. Options are those of `speccompact.decompress_stream`.

        The content is compared with the checks in the archive, frame by frame, unless only a range or what a salvage
        can save is wanted.

        Raises:
            ArgumentError: a value makes no sense.
            FormatError: the archive is damaged.
            LimitError: it holds more than `max_output` bytes, or more than the service allows.
            OSError: reading or writing fails.
        """
        plan = plans.decompress_plan(
            max_output=max_output, byte_range=byte_range, salvage=salvage, priority=priority, progress=progress
        )
        return self._calls.stream(self._stub.Decompress, plan, source, target, timeout)

    def compress_text(
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
        return plans.compressed_text(content, self._calls.unary(self._stub.CompressText, request, timeout))

    def decompress_text(self, archive: bytes, *, priority: Priority = "normal", timeout: float | None = None) -> bytes:
        """Return the content of a small archive, in one message each way. Raises LimitError where it is too large."""
        request = plans.archive_request(archive, priority)
        return plans.decompressed_text(archive, self._calls.unary(self._stub.DecompressText, request, timeout))

    def compress_many(
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
            answer = self._calls.unary(self._stub.CompressMany, request, timeout)
            results += plans.many_compressed(request, answer, self._calls.address)
        return results

    def inspect(self, archive: bytes | BinaryIO, *, timeout: float | None = None) -> FileInfo:
        """Return what an archive says about itself. Raises FormatError where its structure is damaged."""
        source = io.BytesIO(archive) if isinstance(archive, bytes) else archive
        return plans.inspected(*self._calls.upload(self._stub.Inspect, plans.inspect_plan(), source, timeout))

    def models(self, *, timeout: float | None = None) -> list[pb.Model]:
        """Return the models that the service offers."""
        return list(self._calls.unary(self._stub.ListModels, pb.ListModelsRequest(), timeout).models)
