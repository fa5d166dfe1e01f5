"""What the page shows about a text: sizes beside those of others and what each token costs, and then, of the archive,
what drafts were worth in decompressing it.
"""

import base64
import hashlib
import io
import lzma
import time
from typing import Any, Final

import zstandard

from speccompact.api import compress_stream, decompress_stream
from speccompact.container.limits import Limits
from speccompact.streams.engine import Engines
from speccompact.streams.tokencosts import CostedEngines, pieces

_ZSTD_LEVEL: Final = 19

Found = dict[str, Any]
"""A JSON object."""


def analyse(content: bytes, level: int, model: str, engines: Engines) -> Found:
    """Compress a text and look at what it costs.

    Args:
        content: the text, or any other bytes.
        level: 1 to 9.
        model: name of the target.
        engines: where models come from.

    Returns:
        `content_bytes`, `compressed_bytes`, `xz_bytes`, `zstd_bytes`; `level`, `model`; `seconds`; `tokens` that the
        model has coded, and whether the archive has `kept` all of that; `pieces` of the text, each with its bits or
        None; `sha256` of the content; and the `archive` in base 64.

    Raises:
        SpecCompactError: as compressing does.
    """
    costed, archive = CostedEngines(engines), io.BytesIO()
    began = time.monotonic()
    made = compress_stream(io.BytesIO(content), archive, level=level, model=model, engines=costed)
    seconds = time.monotonic() - began
    tokens = sum(len(slot.bits) for slot in costed.slots)
    return {
        "content_bytes": len(content),
        "compressed_bytes": made.compressed_bytes,
        "xz_bytes": len(lzma.compress(content, preset=9 | lzma.PRESET_EXTREME)),
        "zstd_bytes": len(zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(content)),
        "level": level,
        "model": model,
        "seconds": seconds,
        "tokens": tokens,
        "kept": made.tokens == tokens,
        "pieces": [
            [piece.text, None if piece.bits is None else round(piece.bits, 3)]
            for piece in pieces(content, costed.slots)
        ],
        "sha256": hashlib.sha256(content).hexdigest(),
        "archive": base64.b64encode(archive.getvalue()).decode(),
    }


def restore(archive: bytes, most_bytes: int, engines: Engines) -> Found:
    """Decompress an archive and look at what that has taken.

    Args:
        archive: one, or several.
        most_bytes: of content; more is refused.
        engines: where models come from.

    Returns:
        `content_bytes` and `sha256` of the content; `seconds`; `tokens_per_pass` of a slot; `acceptance`, the share of
        proposed tokens that were right; and `drafts`, for each drafter its name and, by place in the draft, how often a
        token there was `reached` and `right`. Ratios are 0 where there is nothing to divide.

    Raises:
        SpecCompactError: as decompressing does.
    """
    content = io.BytesIO()
    began = time.monotonic()
    limits = Limits(output_bytes=most_bytes)
    decoded = decompress_stream(io.BytesIO(archive), content, limits=limits, engines=engines)
    drafts = decoded.effort.drafts
    proposed = sum(sum(made.proposed) for made in drafts.values())
    right = sum(sum(made.right) for made in drafts.values())
    return {
        "content_bytes": decoded.content_bytes,
        "sha256": hashlib.sha256(content.getvalue()).hexdigest(),
        "seconds": time.monotonic() - began,
        "tokens_per_pass": decoded.tokens / decoded.passes if decoded.passes else 0.0,
        "acceptance": right / proposed if proposed else 0.0,
        "drafts": [
            {"drafter": name, "reached": [*made.reached], "right": [*made.right]}
            for name, made in drafts.items()
            if sum(made.proposed)
        ],
    }
