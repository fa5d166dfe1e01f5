"""Other compressors on the same bytes: zstd, xz, and those of the ``bench`` extra that are installed."""

import importlib
import lzma
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import zstandard

from speccompact.errors import DamagedError

Transform = Callable[[bytes], bytes]

_PPMD = {"max_order": 8, "mem_size": 1 << 28, "variant": "I"}
_BZIP3_BLOCK = (1 << 20, 1 << 26)
"""Smallest and largest block in bytes: the whole file where it fits, since bzip3 sees nothing beyond its block."""


@dataclass(frozen=True, slots=True)
class Peer:
    """One other compressor.

    Attributes:
        name: key in the report.
        setting: how it is run, in the words of its own command line.
        compress: bytes to compressed bytes.
        decompress: the inverse.
    """

    name: str
    setting: str
    compress: Transform
    decompress: Transform


@dataclass(frozen=True, slots=True)
class PeerResult:
    """What a peer made of a file: sizes in bytes, times in seconds."""

    bytes: int
    content_bytes: int
    encode_s: float
    decode_s: float

    def to_json(self) -> dict[str, object]:
        """Return the report's entry; rates are decimal megabytes of content per second."""
        return {
            "bytes": self.bytes,
            "bpb": 8 * self.bytes / self.content_bytes if self.content_bytes else 0.0,
            "encode_mb_per_s": rate(self.content_bytes / 1e6, self.encode_s),
            "decode_mb_per_s": rate(self.content_bytes / 1e6, self.decode_s),
        }


def rate(amount: float, seconds: float) -> float:
    """Return amount per second; 0 where no time passed."""
    return amount / seconds if seconds > 0 else 0.0


def available_peers() -> tuple[Peer, ...]:
    """Return the peers that can run here, in the order of the report."""
    peers = [
        Peer("zstd", "-19", zstandard.ZstdCompressor(level=19).compress, _zstd_decompress),
        Peer("xz", "-9e", lambda data: lzma.compress(data, preset=9 | lzma.PRESET_EXTREME), lzma.decompress),
    ]
    if brotli := _optional("brotli"):
        peers.append(Peer("brotli", "-q 11 -w 24", lambda data: brotli.compress(data, lgwin=24), brotli.decompress))
    if bzip3 := _optional("bz3"):
        peers.append(Peer("bzip3", "one block", lambda data: bzip3.compress(data, _block(data)), bzip3.decompress))
    if ppmd := _optional("pyppmd"):
        peers.append(
            Peer(
                "ppmd",
                "var.I -o8 -m256",
                lambda data: ppmd.compress(data, **_PPMD),
                lambda packed: ppmd.decompress(packed, **_PPMD),
            )
        )
    return tuple(peers)


def measure_peer(peer: Peer, data: bytes) -> PeerResult:
    """Run a peer over data, and back.

    Raises:
        DamagedError: it did not give the same bytes back.
    """
    began = time.perf_counter()
    packed = peer.compress(data)
    middle = time.perf_counter()
    restored = peer.decompress(packed)
    ended = time.perf_counter()
    if restored != data:
        raise DamagedError(f"{peer.name} did not give back the bytes that it was given")
    return PeerResult(len(packed), len(data), middle - began, ended - middle)


def _optional(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _zstd_decompress(packed: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompress(packed)


def _block(data: bytes) -> int:
    smallest, largest = _BZIP3_BLOCK
    return min(max(len(data), smallest), largest)
