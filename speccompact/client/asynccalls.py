"""Calls from an event loop: tries, and the two sides of a stream. What is decided is shared with `synccalls`."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import Any, TypeVar

import grpc
from grpc import aio

from speccompact.client.connecting import Connection, call_metadata, open_async_channel
from speccompact.client.exchanges import Exchange, Plan, Request
from speccompact.client.faults import Fault, read_fault
from speccompact.client.replaying import AsyncPieces
from speccompact.client.retrying import Retries, RetryPolicy
from speccompact.streams.summary import Summary

Sent = TypeVar("Sent")
Got = TypeVar("Got")
Sink = Callable[[bytes], Awaitable[None]]
"""Takes a piece of output. While it works, nothing more is taken from the service."""


class AsyncCalls:
    """Makes calls on one channel, within one event loop.

    Args:
        connection: where the service is, and who calls.
        policy: what is tried again, and how often.
        sleep: waits between two tries.
    """

    def __init__(
        self,
        connection: Connection,
        policy: RetryPolicy,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.address = connection.address
        self.channel = open_async_channel(connection)
        self._connection, self._policy, self._sleep = connection, policy, sleep

    async def unary(
        self, method: "aio.UnaryUnaryMultiCallable[Sent, Got]", request: Sent, timeout: float | None
    ) -> Got:
        """Return the answer to a call that may always be repeated."""

        async def attempt(left: float | None) -> Got:
            return await method(request, timeout=left, metadata=self._metadata())

        return await self._repeat(timeout, attempt, lambda: True)

    async def upload(
        self,
        method: "aio.StreamUnaryMultiCallable[Request, Got]",
        plan: Plan[Request],
        source: AsyncIterable[bytes],
        timeout: float | None,
    ) -> tuple[Got, Exchange[Request]]:
        """Send a stream and return the one answer, with what was sent."""
        async with aclosing(AsyncPieces(source)) as pieces:

            async def attempt(left: float | None) -> tuple[Got, Exchange[Request]]:
                with _trying(plan) as trying:
                    requests = _requests(trying, plan, pieces)
                    call = trying.call = method(requests, timeout=left, metadata=self._metadata())
                    with trying.failing():
                        return await call, trying.exchange

            return await self._repeat(timeout, attempt, lambda: pieces.log.replayable)

    async def stream(
        self,
        method: "aio.StreamStreamMultiCallable[Request, Any]",
        plan: Plan[Request],
        source: AsyncIterable[bytes],
        sink: Sink,
        timeout: float | None,
    ) -> Summary:
        """Send a stream, hand on what comes back, and return the totals once all of it is there and checked."""
        async with aclosing(AsyncPieces(source)) as pieces:

            async def attempt(left: float | None) -> Summary:
                with _trying(plan) as trying:
                    requests = _requests(trying, plan, pieces)
                    call = trying.call = method(requests, timeout=left, metadata=self._metadata())
                    with trying.failing():
                        async for answer in call:
                            data = trying.exchange.receive(answer)
                            if data:
                                pieces.log.forget()
                                await sink(data)
                    return trying.exchange.finish()

            return await self._repeat(timeout, attempt, lambda: pieces.log.replayable)

    async def watch(
        self,
        method: "aio.UnaryStreamMultiCallable[Sent, Got]",
        request: Sent,
        timeout: float | None,
        is_last: Callable[[Got], bool],
        broken: Fault,
    ) -> AsyncIterator[Got]:
        """Yield the answers to a call that may be begun anew at any time, up to the last one.

        Args:
            is_last: whether nothing has to follow an answer.
            broken: what it is called when the stream ends before.
        """
        retries = Retries(self._policy, timeout, self.address)
        while True:
            fault = broken
            call = method(request, timeout=retries.remaining(), metadata=self._metadata())
            try:
                async for answer in call:
                    retries.progressed()
                    yield answer
                    if is_last(answer):
                        return
            except grpc.RpcError as error:
                fault = read_fault(error)
            finally:
                call.cancel()
            await self._sleep(retries.after(fault, safe=True))

    async def _repeat(
        self, timeout: float | None, attempt: Callable[[float | None], Awaitable[Got]], safe: Callable[[], bool]
    ) -> Got:
        retries = Retries(self._policy, timeout, self.address)
        while True:
            try:
                return await attempt(retries.remaining())
            except grpc.RpcError as error:
                fault = read_fault(error)
            await self._sleep(retries.after(fault, safe=safe()))

    def _metadata(self) -> aio.Metadata:
        return aio.Metadata(*call_metadata(self._connection))


class _Trying:
    """One try, and its call once there is one."""

    def __init__(self, exchange: Exchange[Request]) -> None:
        self.exchange: Exchange[Any] = exchange
        self.call: aio.Call | None = None

    def fail(self, error: BaseException) -> None:
        """End the try for what has happened on the sending side."""
        self.exchange.failure = error
        if self.call is not None:
            self.call.cancel()

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Raise what has happened on the sending side, in place of what the call says about it."""
        try:
            yield
        except (grpc.RpcError, asyncio.CancelledError):
            if self.exchange.failure is not None:
                raise self.exchange.failure from None
            raise
        if self.exchange.failure is not None:
            raise self.exchange.failure


@contextmanager
def _trying(plan: Plan[Request]) -> Iterator[_Trying]:
    """Cancel what goes on when the block ends, whatever ends it: nobody would take its output."""
    trying = _Trying(Exchange(plan))
    try:
        yield trying
    finally:
        trying.exchange.closed = True
        if trying.call is not None:
            trying.call.cancel()


async def _requests(trying: _Trying, plan: Plan[Request], pieces: AsyncPieces) -> AsyncIterator[Request]:
    """Yield the messages of a try, in a task of gRPC's, which would only print what fails here."""
    try:
        yield plan.start
        index = 0
        while not trying.exchange.closed and (piece := await pieces.piece(index)):
            yield trying.exchange.send(piece)
            index += 1
    except Exception as error:
        trying.fail(error)
