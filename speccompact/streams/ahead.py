"""Groups of frames decoded side by side, ahead of a reader that goes through them in order.

The reader stays the only one that judges the structure of an archive: it asks for each frame's content as it comes to
it, and compares all checks. Where structure is damaged, reading ahead just ends; what goes wrong while a frame is
decoded ahead is raised when the reader asks for it.
"""

import io
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import BinaryIO, cast

from speccompact.container.frames import Kind
from speccompact.container.framing import Frame
from speccompact.container.limits import Limits
from speccompact.container.rawreading import PositionedReader
from speccompact.container.seekable import FrameReader
from speccompact.container.source import Source
from speccompact.errors import SpecCompactError
from speccompact.speculative.effort import Effort
from speccompact.streams.engine import Engines, SharedEngines
from speccompact.streams.framedecoding import FrameDecoder, held_bytes

Tick = Callable[[int], None]

_ROOM_BYTES = 1 << 25
"""Content of a group that is held for the reader at most, beside one frame; decoding waits for it."""

_PATIENCE = 0.1
"""Seconds after which a thread that waits looks whether it is still wanted."""

_GROUP_BYTES = 1 << 26
"""Bytes that the frames take of the largest group that is decoded ahead, before they are decoded."""


@dataclass(slots=True)
class _Waiting:
    """A frame that is being decoded ahead, or will be."""

    frame: Frame
    data: bytes
    result: "Future[tuple[bytes, Effort]]"


class GroupsAhead:
    """Decodes the next groups of a seekable archive in threads of their own, each with a part of the CPU threads.

    Use as a context manager: at the end, what is still being decoded is given up.
    """

    def __init__(self, stream: BinaryIO, limits: Limits, engines: Engines, groups: int) -> None:
        """Begin where `stream` stands.

        Args:
            stream: seekable. Its position is kept between calls.
            groups: how many are decoded at once.
        """
        self._reader = FrameReader(Source(cast(BinaryIO, _View(stream))), limits)
        self._engines, self._groups = engines, groups
        self._pool = ThreadPoolExecutor(groups, "speccompact-group")
        self._stopped = threading.Event()
        self._found: deque[list[_Waiting]] = deque()
        self._running: deque[Future[None]] = deque()
        self._frames: dict[int, tuple[_Waiting, _Room]] = {}
        self._next: _Waiting | None = None
        self._ended = False

    def __enter__(self) -> "GroupsAhead":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def take(self, frame: Frame, tick: Tick) -> tuple[bytes, Effort] | None:
        """Return the content of the reader's next frame and what it has cost; None if it was not decoded ahead.

        Raises:
            FormatError: it cannot be decoded.
            ModelError: its model is missing or damaged.
        """
        self._submit()
        entry = self._frames.pop(frame.offset, None)
        if entry is None:
            return None
        waiting, room = entry
        try:
            content, effort = waiting.result.result()
        except CancelledError:
            return None
        finally:
            room.give(frame.head.content_bytes)
        tick(frame.head.tokens)
        return content, effort

    def _submit(self) -> None:
        """Keep as many groups going as wanted."""
        while self._running and self._running[0].done():
            self._running.popleft()
        while not self._ended and len(self._running) + len(self._found) < self._groups:
            group = self._read_group()
            if group:
                self._found.append(group)
        parts = len(self._running) + len(self._found)
        while self._found:
            group, room = self._found.popleft(), _Room(_ROOM_BYTES, self._stopped)
            self._frames |= {waiting.frame.offset: (waiting, room) for waiting in group}
            self._running.append(self._pool.submit(self._decode, group, room, parts))

    def _read_group(self) -> list[_Waiting]:
        """Return the frames with model slots up to the next that begins a group; none where there is no more.

        A group that is too large is passed over; the reader decodes it.
        """
        group: list[_Waiting] = []
        size = 0
        while (waiting := self._next or self._read()) is not None:
            self._next = None
            if size and not waiting.frame.head.goes_on:
                self._next, size = waiting, 0
                if group:
                    return group
                continue
            size += held_bytes(waiting.frame, waiting.data)
            group.append(waiting)
            if size > _GROUP_BYTES:
                group.clear()
        self._ended = True
        return group

    def _read(self) -> _Waiting | None:
        """Return the next frame with model slots; None where there is none, or damage."""
        try:
            while (frame := self._reader.next()) is not None:
                data = self._reader.data(frame) if frame.head.count(Kind.MODEL) else b""
                self._reader.pass_over(frame)
                if data:
                    return _Waiting(frame, data, Future())
        except SpecCompactError:
            pass
        return None

    def _decode(self, group: list[_Waiting], room: "_Room", parts: int) -> None:
        decoder = FrameDecoder(SharedEngines(self._engines, parts))
        for waiting in group:
            room.take(waiting.frame.head.content_bytes)
            if self._stopped.is_set():
                waiting.result.cancel()
                continue
            try:
                waiting.result.set_result(decoder.decode(waiting.frame, waiting.data, self._go_on))
            except BaseException as error:  # for the reader, whatever it is
                waiting.result.set_exception(_without_traces(error))  # which would keep the decoder alive
            waiting.data = b""

    def _go_on(self, tokens: int) -> None:
        """Leave a frame that nobody waits for any more."""
        if self._stopped.is_set():
            raise CancelledError


def _without_traces(error: BaseException) -> BaseException:
    """Return an error; it and what led to it forget where they were raised."""
    each: BaseException | None = error
    while each is not None:
        each.__traceback__ = None
        each = each.__cause__ or each.__context__
    return error


class _Room:
    """Bytes that may be held; one taker waits until enough were given back."""

    def __init__(self, size: int, stopped: threading.Event) -> None:
        self._size = self._left = size
        self._stopped = stopped
        self._changed = threading.Condition()

    def take(self, size: int) -> None:
        """Wait until `size` bytes are free, or all are, or nobody wants them any more."""
        with self._changed:
            while self._left < min(size, self._size) and not self._stopped.is_set():
                self._changed.wait(_PATIENCE)
            self._left -= size

    def give(self, size: int) -> None:
        """Return bytes."""
        with self._changed:
            self._left += size
            self._changed.notify()


class _View(PositionedReader):
    """A stream with a position of its own: reading leaves the position of the other as it was."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__()
        self._stream = stream
        before = self._position = stream.tell()
        self._size = stream.seek(0, io.SEEK_END)
        stream.seek(before)

    def end(self) -> int:
        """See `PositionedReader`."""
        return self._size

    def read_from(self, position: int, size: int) -> bytes:
        """See `PositionedReader`."""
        before = self._stream.tell()
        self._stream.seek(position)
        data = self._stream.read(size)
        self._stream.seek(before)
        return data
