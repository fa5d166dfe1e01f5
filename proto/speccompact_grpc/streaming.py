"""Streams of messages as files: what a caller sends is read like a file, what is written like one goes to the caller.

Flow control works in both directions. A message is taken from the caller when the one before it has been used up; and
whoever writes waits while the caller has not read what is there.
"""

import contextlib
import io
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import BinaryIO, Generic, Protocol, TypeVar, cast

import grpc

from speccompact_grpc.calls import Call, Cancelled
from speccompact_grpc.refusals import Refusal

CHUNK_BYTES = 1 << 16
"""Bytes of one message to a caller, at most."""

_AHEAD_BYTES = 1 << 19
"""Bytes that wait for a caller who does not read."""

_LOOK_S = 0.25
"""How often one who waits for a caller looks whether the call is over."""

_Start = TypeVar("_Start", covariant=True)


class Request(Protocol[_Start]):
    """A message of a stream: the first holds `start`, the others `data`."""

    @property
    def start(self) -> _Start:
        """What is wanted."""
        ...

    @property
    def data(self) -> bytes:
        """A piece of the content or the archive."""
        ...


class RequestStream(io.RawIOBase, Generic[_Start]):
    """What a caller sends, as a file that cannot seek.

    Attributes:
        start: of the first message.
    """

    def __init__(self, requests: Iterator[Request[_Start]], kind: Callable[[object], str | None], limit: int) -> None:
        """Take the first message.

        Args:
            requests: of the caller.
            kind: returns which field of a message is set.
            limit: bytes of all data, at most; 0 for any number.

        Raises:
            Refusal: the first message has no `start`, or there is none.
        """
        self._requests, self._kind, self._limit = requests, kind, limit
        self._rest = memoryview(b"")
        self._taken = 0
        first = next(requests, None)
        if first is None or kind(first) != "start":
            raise _misplaced("the first message of a stream must hold start")
        self.start = first.start

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: "memoryview | bytearray") -> int:  # type: ignore[override]
        """Fill a part of the buffer with what comes next; 0 bytes at the end of the stream.

        Raises:
            Refusal: there is more than the limit, or a message that does not belong here.
        """
        while not self._rest:
            message = next(self._requests, None)
            if message is None:
                return 0
            if self._kind(message) != "data":
                raise _misplaced("all messages of a stream but the first must hold data")
            self._taken += len(message.data)
            if self._limit and self._taken > self._limit:
                raise Refusal(
                    grpc.StatusCode.RESOURCE_EXHAUSTED,
                    "SIZE",
                    f"the call sends more than the {self._limit} bytes that the service takes",
                )
            self._rest = memoryview(message.data)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


def _misplaced(message: str) -> Refusal:
    return Refusal(grpc.StatusCode.INVALID_ARGUMENT, "MESSAGE", message, field="payload")


class ResponseStream(io.RawIOBase):
    """What goes to a caller: one thread writes, another takes chunks."""

    def __init__(self, call: Call) -> None:
        """Bind the call; when it is over, writing fails."""
        self._call = call
        self._changed = threading.Condition()
        self._chunks: deque[bytes] = deque()
        self._waiting, self._ended = 0, False
        self._failure: BaseException | None = None

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: "bytes | bytearray | memoryview") -> int:  # type: ignore[override]
        """Queue all of the data, after a wait for room.

        Raises:
            CallEnded: the call is over.
        """
        view = memoryview(data)
        for start in range(0, len(view), CHUNK_BYTES):
            chunk = bytes(view[start : start + CHUNK_BYTES])
            with self._changed:
                while self._waiting >= _AHEAD_BYTES:
                    self._call.check()
                    self._changed.wait(_LOOK_S)
                self._chunks.append(chunk)
                self._waiting += len(chunk)
                self._changed.notify_all()
        return len(view)

    def end(self, failure: BaseException | None = None) -> None:
        """Say that nothing more comes, or why not."""
        with self._changed:
            self._ended, self._failure = True, failure
            self._changed.notify_all()

    def chunks(self) -> Iterator[bytes]:
        """Yield what is written until the end, small pieces joined; raise what `end` was told."""
        while True:
            with self._changed:
                while not self._chunks and not self._ended:
                    self._changed.wait()
                if not self._chunks:
                    break
                chunk = bytearray(self._chunks.popleft())
                while self._chunks and len(chunk) + len(self._chunks[0]) <= CHUNK_BYTES:
                    chunk += self._chunks.popleft()
                self._waiting -= len(chunk)
                self._changed.notify_all()
            yield bytes(chunk)
        failure, self._failure = self._failure, None
        try:
            if failure is not None:
                raise failure
        finally:
            del failure  # it would hold this frame until the next collection of garbage


_Result = TypeVar("_Result")


def run_streamed(call: Call, work: Callable[[BinaryIO], _Result], name: str) -> Iterator[bytes | _Result]:
    """Do work in a thread of its own, and yield what it writes while it does; last of all its result.

    Args:
        call: cancelled when nobody takes what is yielded any more.
        work: given a stream to write to.
        name: of the thread.

    Raises:
        whatever the work raises.
    """
    responses = ResponseStream(call)
    results: list[_Result] = []

    def run() -> None:
        try:
            results.append(work(cast(BinaryIO, responses)))
        except grpc.RpcError:  # from reading requests of a caller who has gone
            responses.end(Cancelled("the caller has gone"))
        except BaseException as error:
            responses.end(error)
        else:
            responses.end()

    threading.Thread(target=run, name=name, daemon=True).start()
    with contextlib.ExitStack() as stack:
        stack.callback(call.cancel)
        yield from responses.chunks()
        yield results[0]
