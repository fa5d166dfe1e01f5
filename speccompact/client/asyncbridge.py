"""Streams of an event loop, driven by a thread.

gRPC's own streams for asyncio lose the status of a call that the service ends while something is being sent: what is
left says "internal error", and neither why nor whether to come back. Calls from threads keep it. So a thread makes the
call, and asks the loop for input and hands it output, one piece at a time.
"""

import asyncio
import concurrent.futures
import threading
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import grpc

from speccompact.errors import ServiceError

Sink = Callable[[bytes], Awaitable[None]]
"""Takes a piece of output. While it works, nothing more is taken from the service."""

T = TypeVar("T")


class Bridge:
    """What a thread needs of the loop, until the loop's side goes away. Made in the loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._closed = False
        self._call: grpc.Call | None = None
        self._waiting: set[concurrent.futures.Future[Any]] = set()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Return what a coroutine gives, or raise what it raises. For the thread.

        Raises:
            ServiceError: nobody waits for the call any more.
        """
        with self._lock:
            if self._closed:
                coroutine.close()
                raise ServiceError("the call was given up")
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
            self._waiting.add(future)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise ServiceError("the call was given up") from None
        finally:
            with self._lock:
                self._waiting.discard(future)

    def began(self, call: grpc.Call) -> None:
        """Note the call that is to be cancelled when the loop's side goes away. For the thread."""
        with self._lock:
            self._call = call
            closed = self._closed
        if closed:
            call.cancel()

    def close(self) -> None:
        """Go away: end the call, and whatever the thread waits for. For the loop."""
        with self._lock:
            self._closed = True
            call, waiting = self._call, [*self._waiting]
        if call is not None:
            call.cancel()
        for future in waiting:
            future.cancel()


class BridgedSource:
    """Reads an asynchronous iterable of bytes like a file."""

    def __init__(self, bridge: Bridge, source: AsyncIterable[bytes]) -> None:
        self._bridge, self._pieces = bridge, aiter(source)
        self._left = b""

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes; empty at the end."""
        while not self._left:
            piece = self._bridge.run(_next(self._pieces))
            if piece is None:
                return b""
            self._left = piece
        data, self._left = self._left[:size], self._left[size:]
        return data


class BridgedTarget:
    """Writes to a sink like to a file."""

    def __init__(self, bridge: Bridge, sink: Sink) -> None:
        self._bridge, self._sink = bridge, sink

    def write(self, data: bytes | memoryview) -> int:
        """Write all of it."""
        self._bridge.run(_take(self._sink, bytes(data)))
        return len(data)


async def _next(pieces: AsyncIterator[bytes]) -> bytes | None:
    return await anext(pieces, None)


async def _take(sink: Sink, data: bytes) -> None:
    await sink(data)
