import io
from typing import Any

import pytest

from speccompact import api
from speccompact.container.writing import write_all
from tests.archives import MIXED, SLOT_TOKENS, noise, small
from tests.fakes import FakeEngines, prose


class Reluctant(io.RawIOBase):
    """A raw stream that takes at most five bytes at a time, and after `room` bytes `refusal`."""

    def __init__(self, room: int = 1 << 40, refusal: int | None = None) -> None:
        super().__init__()
        self.data = bytearray()
        self._room = room
        self._refusal = refusal

    def writable(self) -> bool:
        return True

    def write(self, data: "bytes | bytearray | memoryview") -> int | None:  # type: ignore[override]
        if len(self.data) >= self._room:
            return self._refusal
        piece = bytes(data)[:5]
        self.data += piece
        return len(piece)


def test_all_of_it_is_written() -> None:
    target = Reluctant()
    write_all(target, b"")  # type: ignore[arg-type]
    write_all(target, b"twelve bytes")  # type: ignore[arg-type]
    assert target.data == b"twelve bytes"


@pytest.mark.parametrize("refusal", [None, 0])
def test_a_stream_that_takes_nothing_is_an_error(refusal: int | None) -> None:
    target = Reluctant(10, refusal)
    with pytest.raises(BlockingIOError, match="non-blocking"):
        write_all(target, b"twelve bytes")  # type: ignore[arg-type]
    assert target.data == b"twelve byt"


@pytest.mark.parametrize("content", [b"", MIXED, noise(50), prose(9000)], ids=["empty", "mixed", "small", "frames"])
def test_an_archive_through_short_writes(content: bytes) -> None:
    target = Reluctant()
    api.compress_stream(
        io.BytesIO(content),
        target,  # type: ignore[arg-type]
        slot_tokens=SLOT_TOKENS,
        group_frames=0,
        engines=FakeEngines(),
    )
    assert target.data == small(content)


@pytest.mark.parametrize("arguments", [{}, {"salvage": True}, {"byte_range": (0, 1 << 20)}])
def test_content_through_short_writes(arguments: dict[str, Any]) -> None:
    target = Reluctant()
    api.decompress_stream(io.BytesIO(small(MIXED)), target, engines=FakeEngines(), **arguments)  # type: ignore[arg-type]
    assert target.data == MIXED
