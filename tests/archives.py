"""Archives for the tests of container, streams and facade, made with the fake model."""

import io
import random
from collections.abc import Sequence

from speccompact import api
from speccompact.container.format import FileHeader, ModelIdentity
from speccompact.container.frames import FrameHead, Kind, Slot
from speccompact.container.framing import pack_single
from speccompact.container.seekable import PartWriter
from speccompact.streams.framecodec import slot_check
from tests.fakes import FakeEngines, prose

MODEL = ModelIdentity(1, 28, b"digest_8", b"vd")

SLOT_TOKENS = 16
"""With these, a frame of prose is about 64 * 16 tokens, that is about 7 KB: many frames in a small file."""


def small(content: bytes, engines: FakeEngines | None = None) -> bytes:
    """Return content as an archive of many small frames, each on its own, if it is prose."""
    return api.compress(content, slot_tokens=SLOT_TOKENS, group_frames=0, engines=engines or FakeEngines())


def noise(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


def raw_frame(content: bytes) -> tuple[FrameHead, bytes]:
    """Return head and payload section of one raw slot, or of none."""
    if not content:
        return FrameHead((), 0), b""
    return FrameHead((Slot(Kind.RAW, len(content), len(content)),), len(content)), content + bytes(
        [slot_check(content)]
    )


def raw_single(content: bytes) -> bytes:
    """Return a single-frame part of one raw slot."""
    return pack_single(FileHeader(0, None, None), *raw_frame(content), content)


def raw_part(contents: Sequence[bytes], file_id: bytes = b"test") -> bytes:
    """Return a multi-frame part, one raw slot in each frame; readable without any model."""
    target = io.BytesIO()
    writer = PartWriter(target, FileHeader(0, None, file_id))
    for content in contents:
        writer.frame(*raw_frame(content), content)
    writer.close()
    return target.getvalue()


class Pipe(io.RawIOBase):
    """A readable stream that cannot seek and gives at most `step` bytes at a time."""

    def __init__(self, data: bytes, step: int = 7) -> None:
        super().__init__()
        self._data = data
        self._step = step
        self.position = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview | bytearray") -> int:  # type: ignore[override]
        piece = self._data[self.position : self.position + min(self._step, len(buffer))]
        buffer[: len(piece)] = piece
        self.position += len(piece)
        return len(piece)


MIXED = prose(9000) + noise(9000) + prose(3000, 1)
"""Text, data that is not text, text."""
