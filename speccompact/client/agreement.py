"""An archive and its content, compared frame by frame while both go by: neither side has to be believed.

Compressing, the content is what was sent and the archive what came back; decompressing, the other way round. A frame
check covers header, head, payload and content (FORMAT.md section 2), so that a service that mixes up its callers,
leaves something out or decodes wrongly is found out without a model.
"""

import io
from threading import Lock

from speccompact.container.framing import Frame
from speccompact.container.limits import Limits
from speccompact.container.seekable import FrameReader
from speccompact.container.source import Source
from speccompact.errors import DamagedError, ServiceError, TruncatedError

MOST_UNMATCHED_BYTES = 128 << 20
"""Bytes that are held, at most, until the other side of their frame arrives; a frame has 8 MiB of content at most."""


class Agreement:
    """Takes both sides in pieces, from two threads if need be.

    Attributes:
        archive_bytes, content_bytes: what was taken so far.
        matched_archive, matched_content: what of it has proved to belong together.
    """

    def __init__(self) -> None:
        self.archive_bytes = self.content_bytes = 0
        self.matched_archive = self.matched_content = 0
        self._arriving = _Arriving()
        self._reader = FrameReader(self._arriving, Limits())
        self._content = bytearray()
        self._frame: Frame | None = None
        self._lock = Lock()

    def take_archive(self, data: bytes) -> None:
        """Take more of the archive.

        Raises:
            FormatError: it is no archive, or damaged.
            ServiceError: a frame has other content; or too much has to be held.
        """
        with self._lock:
            self.archive_bytes += len(data)
            self._arriving.add(data)
            self._match()

    def take_content(self, data: bytes) -> None:
        """Take more of the content. Raises as `take_archive`."""
        with self._lock:
            self.content_bytes += len(data)
            self._content += data
            self._match()

    def finish(self) -> None:
        """Say that both sides are complete.

        Raises:
            FormatError: the archive is cut short.
            ServiceError: one side has more than the other.
        """
        with self._lock:
            if self._frame is not None and self._arriving.held >= self._frame.compressed_bytes:
                raise ServiceError(f"the content ends at byte {self.content_bytes}, and the archive goes on")
            if self._frame is not None or self._arriving.held or self._reader.header or not self._reader.part:
                self._reader.next()
                raise TruncatedError(f"the archive ends at byte {self.archive_bytes}, in the middle of a structure")
            if self._content:
                raise ServiceError(f"the archive ends after {self.matched_content} bytes of content, and there is more")

    def _match(self) -> None:
        while self._frame is not None or self._arriving.held:
            frame = self._frame = self._frame or self._next()
            if frame is None or self._arriving.held < frame.compressed_bytes:
                break
            size = frame.head.content_bytes
            if len(self._content) < size:
                break
            try:
                self._reader.accept(frame, self._reader.data(frame), bytes(self._content[:size]))
            except DamagedError as error:
                raise ServiceError(f"the service's answer does not belong to what it was sent: {error}") from None
            del self._content[:size]
            self._frame = None
            self.matched_content += size
            self.matched_archive = self._arriving.offset
        if self._arriving.held + len(self._content) > MOST_UNMATCHED_BYTES:
            raise ServiceError(f"the service has taken {MOST_UNMATCHED_BYTES} bytes and given nothing back for them")

    def _next(self) -> Frame | None:
        """Return the next frame, or None where more of the archive is needed to tell."""
        try:
            frame = self._reader.next()
        except TruncatedError:
            return None
        self.matched_archive = self._arriving.offset if frame is None else self.matched_archive
        return frame


class _Arriving(Source):
    """A source of what has arrived: its end is no end."""

    def __init__(self) -> None:
        super().__init__(_Pipe())

    @property
    def held(self) -> int:
        """Bytes that have arrived and were not passed."""
        return len(self._buffer)

    def add(self, data: bytes) -> None:
        """Let more arrive."""
        self._buffer += data

    def peek(self, size: int) -> bytes:
        """Return the next `size` bytes without passing them; fewer where they have not arrived."""
        return bytes(self._buffer[:size])


class _Pipe(io.BytesIO):
    """A stream that has nothing and cannot seek."""

    def seekable(self) -> bool:
        return False
