"""What the page shows about a text: sizes beside those of others, what each token costs, and what drafts were worth."""

import io
import lzma
import time
from dataclasses import dataclass
from typing import Any

import zstandard

from speccompact.api import compress_stream, decompress_stream
from speccompact.container.limits import Limits
from speccompact.streams.engine import Engines
from speccompact.streams.summary import Summary
from speccompact.streams.tokencosts import CostedEngines, Piece, pieces

_ZSTD_LEVEL = 19


@dataclass(frozen=True, slots=True)
class Analysis:
    """A text, compressed and decompressed.

    Attributes:
        content_bytes, compressed_bytes, xz_bytes, zstd_bytes: sizes.
        level, model: how it was compressed.
        compress_seconds, decompress_seconds: how long each took.
        tokens: that the model has coded.
        kept: whether the archive holds what the model has coded, all of it.
        pieces: of the text, with their bits.
        decoded: totals of decompressing.
    """

    content_bytes: int
    compressed_bytes: int
    xz_bytes: int
    zstd_bytes: int
    level: int
    model: str
    compress_seconds: float
    decompress_seconds: float
    tokens: int
    kept: bool
    pieces: tuple[Piece, ...]
    decoded: Summary

    def as_json(self) -> dict[str, Any]:
        """Return it as a JSON object. `reached` and `right` of a drafter count by place in the draft."""
        effort = self.decoded.effort
        drafts = [
            {"drafter": name, "reached": [*made.reached], "right": [*made.right]}
            for name, made in effort.drafts.items()
            if sum(made.proposed)
        ]
        proposed = sum(sum(made.proposed) for made in effort.drafts.values())
        right = sum(sum(made.right) for made in effort.drafts.values())
        return {
            "content_bytes": self.content_bytes,
            "compressed_bytes": self.compressed_bytes,
            "xz_bytes": self.xz_bytes,
            "zstd_bytes": self.zstd_bytes,
            "level": self.level,
            "model": self.model,
            "compress_seconds": self.compress_seconds,
            "decompress_seconds": self.decompress_seconds,
            "tokens": self.tokens,
            "kept": self.kept,
            "pieces": [[piece.text, None if piece.bits is None else round(piece.bits, 3)] for piece in self.pieces],
            "tokens_per_pass": self.decoded.tokens / self.decoded.passes if self.decoded.passes else 0.0,
            "acceptance": right / proposed if proposed else 0.0,
            "drafts": drafts,
        }


def analyse(content: bytes, level: int, model: str, engines: Engines) -> Analysis:
    """Compress a text, decompress it again, compare, and look at what it has cost.

    Args:
        content: the text, or any other bytes.
        level: 1 to 9.
        model: name of the target.
        engines: where models come from.

    Raises:
        SpecCompactError: as compressing and decompressing do.
    """
    costed, archive, restored = CostedEngines(engines), io.BytesIO(), io.BytesIO()
    began = time.monotonic()
    made = compress_stream(io.BytesIO(content), archive, level=level, model=model, engines=costed)
    compressed = time.monotonic()
    archive.seek(0)
    limits = Limits(output_bytes=len(content))
    decoded = decompress_stream(archive, restored, limits=limits, engines=engines)
    done = time.monotonic()
    if restored.getvalue() != content:
        raise AssertionError("the content that came back is another")
    tokens = sum(len(slot.bits) for slot in costed.slots)
    return Analysis(
        len(content),
        made.compressed_bytes,
        len(lzma.compress(content, preset=9 | lzma.PRESET_EXTREME)),
        len(zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(content)),
        level,
        model,
        compressed - began,
        done - compressed,
        tokens,
        made.tokens == tokens,
        tuple(pieces(content, costed.slots)),
        decoded,
    )
