"""What a finished run reports, and how a running one tells how far it is."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields

from speccompact.container.frames import FrameHead, Kind
from speccompact.speculative.effort import Effort

Progress = Callable[[int], None]
"""Called with the number of input bytes done so far (content bytes when compressing, compressed bytes when
decompressing): never decreases, may repeat, ends at the size of the input. Within a frame it is an estimate."""


@dataclass(frozen=True, slots=True)
class LostRange:
    """Content bytes that a salvage could not recover.

    Attributes:
        start: first lost content byte, counted over the whole input as if nothing were lost. Behind a loss of unknown
            length, counting goes on as if that loss were empty.
        stop: the byte after the last lost one; None where the damage hides how long the loss is.
        reason: the error that made the range unreadable.
    """

    start: int
    stop: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Summary:
    """Totals of one compress, decompress or verify call.

    Attributes:
        content_bytes: uncompressed bytes, read or written (with a byte range: those written).
        compressed_bytes: bytes of the archive, written or read.
        parts: concatenated files in the archive.
        frames: frames written, or decoded.
        model_slots, zstd_slots, raw_slots: slots by kind, of those frames.
        tokens: symbols of the model slots.
        passes: target passes that this call needed, counted once for each slot that took part.
        ideal_bits: sum of -log2 p over the symbols of the model slots kept, in the integer distribution (compressing
            only, else 0).
        tried_bits, tried_bytes: ideal size (bits) and content of all that the model coded, whether it was kept or
            zstandard was smaller (compressing only, else 0): a measure of the model alone.
        payload_bytes: bytes of the slots' payloads; the rest of compressed_bytes is headers, tables and checks.
        effort: the same passes and what they took, and what came of drafts (decompressing only, else nothing).
        lost: what a salvage could not recover, ascending; empty without salvage, because damage then raises.
    """

    content_bytes: int
    compressed_bytes: int
    parts: int = 0
    frames: int = 0
    model_slots: int = 0
    zstd_slots: int = 0
    raw_slots: int = 0
    tokens: int = 0
    passes: int = 0
    ideal_bits: float = 0.0
    tried_bits: float = 0.0
    tried_bytes: int = 0
    payload_bytes: int = 0
    effort: Effort = field(default_factory=Effort)
    lost: tuple[LostRange, ...] = field(default=())

    @property
    def bpb(self) -> float:
        """Compressed bits per content byte, everything counted; 0 for empty content."""
        return 8 * self.compressed_bytes / self.content_bytes if self.content_bytes else 0.0

    @property
    def slots(self) -> int:
        """Slots of every kind."""
        return self.model_slots + self.zstd_slots + self.raw_slots


@dataclass(slots=True)
class Tally:
    """Adds up a Summary while a run goes on. Attributes as there."""

    content_bytes: int = 0
    compressed_bytes: int = 0
    parts: int = 0
    frames: int = 0
    model_slots: int = 0
    zstd_slots: int = 0
    raw_slots: int = 0
    tokens: int = 0
    passes: int = 0
    ideal_bits: float = 0.0
    tried_bits: float = 0.0
    tried_bytes: int = 0
    payload_bytes: int = 0
    effort: Effort = field(default_factory=Effort)
    lost: list[LostRange] = field(default_factory=list)

    def add_frame(self, head: FrameHead, passes: int, bits: float = 0.0) -> None:
        """Count a frame."""
        self.content_bytes += head.content_bytes
        self.frames += 1
        self.model_slots += head.count(Kind.MODEL)
        self.zstd_slots += head.count(Kind.ZSTD)
        self.raw_slots += head.count(Kind.RAW)
        self.tokens += head.tokens
        self.passes += passes
        self.ideal_bits += bits
        self.payload_bytes += sum(slot.payload_bytes for slot in head.slots)

    def add_decoded(self, head: FrameHead, effort: Effort) -> None:
        """Count a frame that was decoded."""
        self.add_frame(head, effort.passes)
        self.effort += effort

    def add_tried(self, bits: float, content_bytes: int) -> None:
        """Count what the model coded of a frame that was written."""
        self.tried_bits += bits
        self.tried_bytes += content_bytes

    def add_part(self, compressed_bytes: int) -> None:
        """Count a part that was written."""
        self.parts += 1
        self.compressed_bytes += compressed_bytes

    def summary(self) -> Summary:
        """Return the totals so far."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return Summary(**{**values, "lost": tuple(self.lost)})
