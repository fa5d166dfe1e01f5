"""Calls from threads: tries, and the two sides of a stream. What is decided is shared with `asynccalls`."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, TypeVar

import grpc

from speccompact.client.connecting import Connection, call_metadata, open_channel
from speccompact.client.exchanges import Exchange, Plan, Request
from speccompact.client.faults import Fault, read_fault
from speccompact.client.replaying import Readable, StreamPieces
from speccompact.client.retrying import Retries, RetryPolicy
from speccompact.container.writing import write_all
from speccompact.errors import ServiceError
from speccompact.streams.summary import Summary

Sent = TypeVar("Sent")
Got = TypeVar("Got")
Began = Callable[[grpc.Call], None]


def _unwatched(_call: grpc.Call) -> None:
    """Take no notice of a call: no other thread will cancel it."""


class Calls:
    """Makes calls on one channel.

    Args:
        connection: where the service is, and who calls.
        policy: what is tried again, and how often.
        sleep: waits between two tries.
    """

    def __init__(
        self, connection: Connection, policy: RetryPolicy, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.address = connection.address
        self.channel = open_channel(connection)
        self._connection, self._policy, self._sleep = connection, policy, sleep

    def close(self) -> None:
        """End all calls and close the connection."""
        self.channel.close()

    def unary(self, method: "grpc.UnaryUnaryMultiCallable[Sent, Got]", request: Sent, timeout: float | None) -> Got:
        """Return the answer to a call that may always be repeated."""
        return self._repeat(
            timeout,
            lambda left: method(request, timeout=left, metadata=call_metadata(self._connection)),
            lambda: True,
        )

    def upload(
        self,
        method: "grpc.StreamUnaryMultiCallable[Request, Got]",
        plan: Plan[Request],
        source: Readable,
        timeout: float | None,
        began: Began = _unwatched,
    ) -> tuple[Got, Exchange[Request]]:
        """Send a stream and return the one answer, with what was sent. `began` as in `stream`."""
        pieces = StreamPieces(source)

        def attempt(left: float | None) -> tuple[Got, Exchange[Request]]:
            with _exchange(plan) as exchange, _cancelling() as cancelling:
                requests = _requests(exchange, plan, pieces, cancelling.cancel)
                call = method.future(requests, timeout=left, metadata=call_metadata(self._connection))
                cancelling.call = call
                began(call)
                with _failing(exchange):
                    return call.result(), exchange

        return self._repeat(timeout, attempt, lambda: pieces.log.replayable)

    def stream(
        self,
        method: "grpc.StreamStreamMultiCallable[Request, Any]",
        plan: Plan[Request],
        source: Readable,
        target: BinaryIO,
        timeout: float | None,
        began: Began = _unwatched,
    ) -> Summary:
        """Send a stream, write what comes back, and return the totals once all of it is there and checked.

        Args:
            began: is told each call that is made, so that another thread can cancel it.
        """
        pieces = StreamPieces(source)

        def attempt(left: float | None) -> Summary:
            with _exchange(plan) as exchange, _cancelling() as cancelling:
                requests = _requests(exchange, plan, pieces, cancelling.cancel)
                call = method(requests, timeout=left, metadata=call_metadata(self._connection))
                cancelling.call = call
                began(call)
                with _failing(exchange):
                    for answer in call:
                        data = exchange.receive(answer)
                        if data:
                            pieces.log.forget()
                            write_all(target, data)
                return exchange.finish()

        return self._repeat(timeout, attempt, lambda: pieces.log.replayable)

    def watch(
        self,
        method: "grpc.UnaryStreamMultiCallable[Sent, Got]",
        request: Sent,
        timeout: float | None,
        is_last: Callable[[Got], bool],
        broken: Fault,
    ) -> Iterator[Got]:
        """Yield the answers to a call that may be begun anew at any time, up to the last one.

        Args:
            is_last: whether nothing has to follow an answer.
            broken: what it is called when the stream ends before.
        """
        retries = Retries(self._policy, timeout, self.address)
        while True:
            fault = broken
            with _cancelling() as cancelling:
                try:
                    call = method(request, timeout=retries.remaining(), metadata=call_metadata(self._connection))
                    cancelling.call = call
                    for answer in call:
                        retries.progressed()
                        yield answer
                        if is_last(answer):
                            return
                except grpc.RpcError as error:
                    fault = read_fault(error)
            self._sleep(retries.after(fault, safe=True))

    def _repeat(self, timeout: float | None, attempt: Callable[[float | None], Got], safe: Callable[[], bool]) -> Got:
        retries = Retries(self._policy, timeout, self.address)
        while True:
            try:
                return attempt(retries.remaining())
            except grpc.RpcError as error:
                fault = read_fault(error)
            self._sleep(retries.after(fault, safe=safe()))


class _Cancelling:
    """A call that may have to be cancelled, by a thread that can be there before the call is."""

    def __init__(self) -> None:
        self.call: grpc.Call | None = None

    def cancel(self) -> None:
        if self.call is not None:
            self.call.cancel()


@contextmanager
def _cancelling() -> Iterator[_Cancelling]:
    """Cancel what goes on when the block ends, whatever ends it: nobody would take its output."""
    cancelling = _Cancelling()
    try:
        yield cancelling
    finally:
        cancelling.cancel()


@contextmanager
def _exchange(plan: Plan[Request]) -> Iterator[Exchange[Request]]:
    exchange = Exchange(plan)
    try:
        yield exchange
    finally:
        exchange.closed = True


def _requests(
    exchange: Exchange[Request], plan: Plan[Request], pieces: StreamPieces, cancel: Callable[[], None]
) -> Iterator[Request]:
    """Yield the messages of a try, in a thread of gRPC's.

    What fails here is kept for the thread that made the call: gRPC would print it.
    """
    try:
        yield plan.start
        index = 0
        while not exchange.closed and (piece := pieces.piece(index)):
            yield exchange.send(piece)
            index += 1
    except Exception as error:
        exchange.failure = error
        cancel()


@contextmanager
def _failing(exchange: Exchange[Any]) -> Iterator[None]:
    """Raise what has happened on the sending side, in place of what the call says about it."""
    try:
        yield
    except (grpc.RpcError, grpc.FutureCancelledError) as error:
        if exchange.failure is not None:
            raise exchange.failure from None
        if isinstance(error, grpc.FutureCancelledError):
            raise ServiceError("the call was given up") from None
        raise
    if exchange.failure is not None:
        raise exchange.failure
