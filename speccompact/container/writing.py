"""Writing all of it: raw streams may take less than they are given, and say so only in what `write` returns."""

import errno
from typing import BinaryIO, cast


def write_all(stream: BinaryIO, data: bytes) -> None:
    """Write `data` to its last byte, in as many calls as the stream needs.

    Raises:
        BlockingIOError: the stream is in non-blocking mode and takes nothing now.
    """
    left = memoryview(data)
    while left:
        taken = cast(int | None, stream.write(left))
        if not taken:
            raise BlockingIOError(errno.EAGAIN, "the output is in non-blocking mode and takes nothing now")
        left = left[taken:]
