"""Bytes that the model does not code: zstandard without its magic number, content size and checksum.

The container stores the sizes and checks, so that a frame of zstandard costs four bytes less than it says on its own:
prepend 28 B5 2F FD and any zstandard reads it.
"""

import zstandard

from speccompact.errors import DamagedError
from speccompact.params import MAX_FRAME_BYTES

_LEVEL = 19

_DESCRIPTOR = b"\0"
"""First byte of every such frame: no optional field follows. A content size above all: zstandard would allocate what
it says before decoding."""


def pack_zstd(content: bytes) -> bytes:
    """Return `content` as one zstandard frame at level 19, its window as wide as the content."""
    parameters = zstandard.ZstdCompressionParameters.from_level(
        _LEVEL,
        source_size=len(content),
        format=zstandard.FORMAT_ZSTD1_MAGICLESS,
        write_content_size=False,
        write_checksum=False,
        write_dict_id=False,
    )
    return zstandard.ZstdCompressor(compression_params=parameters).compress(content)


def unpack_zstd(payload: bytes, size: int) -> bytes:
    """Return the `size` bytes of content of a frame made by `pack_zstd`.

    Args:
        size: checked against the limits by the caller; no more is allocated.

    Raises:
        DamagedError: it is no such frame, or holds another number of bytes.
    """
    if payload[:1] != _DESCRIPTOR:
        raise DamagedError(f"its zstandard header begins with {payload[:1].hex() or 'nothing'}, not with 00")
    decompressor = zstandard.ZstdDecompressor(format=zstandard.FORMAT_ZSTD1_MAGICLESS, max_window_size=MAX_FRAME_BYTES)
    try:
        content = decompressor.decompress(payload, max_output_size=size, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise DamagedError(f"zstandard cannot decode it ({error})") from None
    if len(content) != size:
        raise DamagedError(f"it holds {len(content)} bytes of content but declares {size}")
    return content
