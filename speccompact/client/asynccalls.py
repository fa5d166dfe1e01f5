"""Calls from an event loop. What is decided is shared with `synccalls`, and streams are driven by it, in threads."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO, TypeVar, cast

import grpc
from grpc import aio

from speccompact.client.asyncbridge import Bridge, BridgedSource, BridgedTarget, Sink
from speccompact.client.connecting import Connection, call_metadata, open_async_channel
from speccompact.client.exchanges import Exchange, Plan, Request
from speccompact.client.faults import Fault, read_fault
from speccompact.client.retrying import Retries, RetryPolicy
from speccompact.client.synccalls import Calls
from speccompact.streams.summary import Summary
from speccompact_grpc.v1.speccompact_pb2_grpc import CompressionServiceStub

Sent = TypeVar("Sent")
Got = TypeVar("Got")


class AsyncCalls:
    """Makes calls within one event loop.

    Args:
        connection: where the service is, and who calls.
        policy: what is tried again, and how often.
        streams: streams at once, at most; others wait for one to end.
        sleep: waits between two tries.

    Attributes:
        address: of the service.
        channel: for calls from the loop.
        threads: streams, which are driven by threads, on a channel of their own.
    """

    def __init__(
        self,
        connection: Connection,
        policy: RetryPolicy,
        streams: int,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.address = connection.address
        self.channel = open_async_channel(connection)
        self._connection, self._policy, self._sleep = connection, policy, sleep
        self._threads = Calls(connection, policy)
        self.stub = CompressionServiceStub(self._threads.channel)
        self._pool = ThreadPoolExecutor(streams, "speccompact-client")

    async def close(self) -> None:
        """End all calls and close the connection."""
        self._threads.close()
        self._pool.shutdown(wait=False, cancel_futures=True)
        await self.channel.close()

    async def unary(
        self, method: "aio.UnaryUnaryMultiCallable[Sent, Got]", request: Sent, timeout: float | None
    ) -> Got:
        """Return the answer to a call that may always be repeated."""
        retries = Retries(self._policy, timeout, self.address)
        while True:
            try:
                return await method(request, timeout=retries.remaining(), metadata=self._metadata())
            except grpc.RpcError as error:
                fault = read_fault(error)
            await self._sleep(retries.after(fault, safe=True))

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

    async def upload(
        self,
        method: "grpc.StreamUnaryMultiCallable[Request, Got]",
        plan: Plan[Request],
        source: AsyncIterable[bytes],
        timeout: float | None,
    ) -> tuple[Got, Exchange[Request]]:
        """Send a stream and return the one answer, with what was sent."""
        return await self._in_thread(
            lambda bridge: self._threads.upload(method, plan, BridgedSource(bridge, source), timeout, bridge.began)
        )

    async def stream(
        self,
        method: "grpc.StreamStreamMultiCallable[Request, Any]",
        plan: Plan[Request],
        source: AsyncIterable[bytes],
        sink: Sink,
        timeout: float | None,
    ) -> Summary:
        """Send a stream, hand on what comes back, and return the totals once all of it is there and checked."""
        return await self._in_thread(
            lambda bridge: self._threads.stream(
                method,
                plan,
                BridgedSource(bridge, source),
                cast(BinaryIO, BridgedTarget(bridge, sink)),
                timeout,
                bridge.began,
            )
        )

    async def _in_thread(self, work: Callable[[Bridge], Got]) -> Got:
        """Return what a thread makes of a bridge; the thread gives up when this is cancelled."""
        bridge = Bridge()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work, bridge)
        finally:
            bridge.close()

    def _metadata(self) -> aio.Metadata:
        return aio.Metadata(*call_metadata(self._connection))
