"""The measurement itself: compress, decompress, compare, repeat; then the peers on the same bytes.

The report's keys are a stable contract (README.md): keys may be added, never renamed or removed. All times are wall
clock, with the model loaded and every compiled kernel warm; medians where a file is measured several times.
"""

import io
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from speccompact import api
from speccompact.bench.machine import describe_machine, peak_rss_bytes
from speccompact.bench.peers import Peer, PeerResult, measure_peer, rate
from speccompact.bench.roofline import roofline
from speccompact.errors import DamagedError, ModelMissingError
from speccompact.options import Options
from speccompact.streams.engine import Engines
from speccompact.streams.summary import Summary

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_WARM_UP = b"A short text that loads the model and compiles what has to be compiled.\n"

Watch = Callable[[str], None]
"""Called with a few words about what is being measured now."""


@dataclass(frozen=True)
class Setting:
    """How the files are compressed. The fields are those of ``api.compress_stream``."""

    level: int
    model: str
    slot_tokens: int | None = None
    group_frames: int | None = None
    options: Options = field(default_factory=Options)
    engines: Engines | None = None


@dataclass(frozen=True, slots=True)
class FileReport:
    """One file, measured.

    Attributes:
        path: as given.
        encoded, decoded: totals of the last compression and decompression; the latter None where it was left out.
        encode_s, decode_s: median seconds of each.
        repeat: how many times it was measured.
        peers: results by name.
    """

    path: str
    encoded: Summary
    decoded: Summary | None
    encode_s: float
    decode_s: float | None
    repeat: int
    peers: dict[str, PeerResult]

    def to_json(self) -> dict[str, object]:
        """Return the report's entry for this file."""
        done, megabytes = self.encoded, self.encoded.content_bytes / 1e6
        coded_bits = 8 * done.compressed_bytes
        passes = self.decoded.passes if self.decoded is not None else 0
        return {
            "path": self.path,
            "bytes": done.content_bytes,
            "compressed_bytes": done.compressed_bytes,
            "bpb": done.bpb,
            "tokens": done.tokens,
            "tokens_per_pass": done.tokens / passes if passes else 0.0,
            "effort": None if self.decoded is None else self.decoded.effort.to_json(),
            "encode_tokens_per_s": rate(done.tokens, self.encode_s),
            "decode_tokens_per_s": None if self.decode_s is None else rate(done.tokens, self.decode_s),
            "encode_mb_per_s": rate(megabytes, self.encode_s),
            "decode_mb_per_s": None if self.decode_s is None else rate(megabytes, self.decode_s),
            "encode_s": self.encode_s,
            "decode_s": self.decode_s,
            "repeat": self.repeat,
            "ideal_bits": done.ideal_bits,
            "model_bpb": done.tried_bits / done.tried_bytes if done.tried_bytes else 0.0,
            "overhead_percent": 100 * (coded_bits / done.ideal_bits - 1) if done.ideal_bits else 0.0,
            "payload_bytes": done.payload_bytes,
            "frames": done.frames,
            "slots": {"model": done.model_slots, "zstd": done.zstd_slots, "raw": done.raw_slots},
            "peers": {name: result.to_json() for name, result in self.peers.items()},
        }


@dataclass(frozen=True, slots=True)
class BenchReport:
    """All files of a run.

    Attributes:
        files: one report each, in the order given.
        setting: how they were compressed.
        load_s: seconds to load the model and warm up.
        peak_rss_bytes: most memory of the process before the peers ran.
        roofline: tokens/s that the int8 matrix products alone would allow, by tokens in a pass; empty where the model
            is not one of the store.
    """

    files: tuple[FileReport, ...]
    setting: Setting
    load_s: float
    peak_rss_bytes: int
    roofline: dict[str, float]

    def to_json(self) -> dict[str, object]:
        """Return the whole report."""
        return {
            "files": [report.to_json() for report in self.files],
            "peak_rss_bytes": self.peak_rss_bytes,
            "machine": describe_machine(),
            "model": self.setting.model,
            "level": self.setting.level,
            "slot_tokens": self.setting.slot_tokens,
            "group_frames": self.setting.group_frames,
            "threads": self.setting.options.threads,
            "device": self.setting.options.device,
            "drafter": self.setting.options.drafter,
            "load_s": self.load_s,
            "roofline_tokens_per_s": self.roofline,
        }


def bench(
    paths: Sequence[str],
    setting: Setting,
    *,
    repeat: int = 1,
    decode: bool = True,
    peers: Sequence[Peer] = (),
    watch: Watch | None = None,
) -> BenchReport:
    """Measure files one after another, then the peers, so that their memory is not taken for ours.

    Args:
        paths: regular files.
        setting: how to compress.
        repeat: times each file is measured; medians are reported. Peers run once.
        decode: decompress and compare too; without it, sizes come in half of the time or less, and unproven.
        peers: what to compare with.
        watch: is told what is going on.

    Raises:
        DamagedError: a round trip did not give the same bytes back.
        OSError: a file cannot be read.
        SpecCompactError: as the facade raises.
    """
    tell = watch or (lambda words: None)
    for path in paths:
        with open(path, "rb"):  # a name that is wrong is better known before minutes of work
            pass
    tell("loading the model")
    began = time.perf_counter()
    _warm_up(setting)
    load_s = time.perf_counter() - began
    own = []
    for path in paths:
        tell(path)
        own.append(_measure(path, setting, repeat, decode))
    peak = peak_rss_bytes()
    tell("matrix products alone")
    best = _roofline(setting)
    reports = []
    for report in own:
        data = Path(report.path).read_bytes() if peers else b""
        for peer in peers:
            tell(f"{report.path}: {peer.name} {peer.setting}")
            report.peers[peer.name] = measure_peer(peer, data)
        reports.append(report)
    return BenchReport(tuple(reports), setting, load_s, peak, best)


def _measure(path: str, setting: Setting, repeat: int, decode: bool) -> FileReport:
    encode_s, decode_s = [], []
    decoded = None
    for _ in range(max(1, repeat)):
        with open(path, "rb") as source, tempfile.TemporaryFile() as packed:
            began = time.perf_counter()
            encoded = _compress(source, packed, setting)
            encode_s.append(time.perf_counter() - began)
            if not decode:
                continue
            source.seek(0)
            packed.seek(0)
            check = io.BufferedWriter(_Comparison(source, path))
            began = time.perf_counter()
            decoded = api.decompress_stream(packed, check, options=setting.options, engines=setting.engines)
            check.flush()
            decode_s.append(time.perf_counter() - began)
            if source.read(1):
                raise DamagedError(f"{path}: the round trip ends {decoded.content_bytes} bytes into the content")
    decode_median = statistics.median(decode_s) if decode_s else None
    return FileReport(path, encoded, decoded, statistics.median(encode_s), decode_median, len(encode_s), {})


class _Comparison(io.RawIOBase):
    """A sink that holds what it is given against the original, so that nothing has to be kept."""

    def __init__(self, original: BinaryIO, path: str) -> None:
        self._original = original
        self._path = path
        self._done = 0

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, data: "ReadableBuffer") -> int:
        """Compare the next bytes.

        Raises:
            DamagedError: they differ from the original.
        """
        given = bytes(data)
        if given != self._original.read(len(given)):
            raise DamagedError(f"{self._path}: the round trip differs within {len(given)} bytes from {self._done} on")
        self._done += len(given)
        return len(given)


def _warm_up(setting: Setting) -> None:
    packed = io.BytesIO()
    _compress(io.BytesIO(_WARM_UP), packed, setting)
    packed.seek(0)
    api.decompress_stream(packed, io.BytesIO(), options=setting.options, engines=setting.engines)


def _roofline(setting: Setting) -> dict[str, float]:
    try:
        return roofline(setting.model, setting.options.device)
    except ModelMissingError:  # brought in from elsewhere: a path, a test
        return {}


def _compress(source: BinaryIO, target: BinaryIO, setting: Setting) -> Summary:
    return api.compress_stream(
        source,
        target,
        level=setting.level,
        model=setting.model,
        slot_tokens=setting.slot_tokens,
        group_frames=setting.group_frames,
        options=setting.options,
        engines=setting.engines,
    )
