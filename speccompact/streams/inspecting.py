"""What an archive says about itself, without decoding it."""

import dataclasses
from dataclasses import dataclass
from typing import Any, BinaryIO

from speccompact.container.format import FORMAT_VERSION, FileHeader
from speccompact.container.frames import Kind
from speccompact.container.framing import Frame
from speccompact.container.limits import Limits
from speccompact.container.seekable import FrameReader
from speccompact.container.source import Source
from speccompact.errors import LimitError
from speccompact.streams.advising import advising


@dataclass(frozen=True, slots=True)
class FrameInfo:
    """A frame.

    Attributes:
        part, ordinal: its part and its number there, from 0.
        offset: where it starts in the archive (bytes).
        compressed_bytes: its length there; `payload_bytes` of it are the slots' payloads.
        content_start: its first content byte, counted over the whole archive.
        content_bytes: bytes of content.
        model_slots, zstd_slots, raw_slots: slots by kind.
        tokens: symbols of the model slots.
        charsets: charset numbers of the model slots, ascending.
        goes_on: whether its model slots need those of the frames before it, back to one that does not go on.
    """

    part: int
    ordinal: int
    offset: int
    compressed_bytes: int
    payload_bytes: int
    content_start: int
    content_bytes: int
    model_slots: int
    zstd_slots: int
    raw_slots: int
    tokens: int
    charsets: tuple[int, ...]
    goes_on: bool


@dataclass(frozen=True, slots=True)
class PartInfo:
    """A part: one file of a concatenation.

    Attributes:
        single_frame: whether it is one frame without an index.
        level: level it was written at, 0 if not recorded.
        exact_version, precision, model_digest, vocabulary_digest: what model slots need (digests in hexadecimal,
            shortened to what is recorded); None where none does.
        memory_version, memory_entries: of the memory that model slots share, and entries of its table of contexts; None
            where they share none.
    """

    single_frame: bool
    level: int
    exact_version: int | None
    precision: int | None
    model_digest: str | None
    vocabulary_digest: str | None
    memory_version: int | None
    memory_entries: int | None


@dataclass(frozen=True, slots=True)
class FileInfo:
    """An archive.

    Attributes:
        format_version: version of FORMAT.md.
        compressed_bytes: bytes of the archive.
        content_bytes: bytes of content.
        parts: its parts, in order; one unless files were concatenated or binary data precedes text.
        frames: the frames of all parts, in order.
    """

    format_version: int
    compressed_bytes: int
    content_bytes: int
    parts: tuple[PartInfo, ...]
    frames: tuple[FrameInfo, ...]

    @property
    def bpb(self) -> float:
        """Compressed bits per content byte, everything counted; 0 for empty content."""
        return 8 * self.compressed_bytes / self.content_bytes if self.content_bytes else 0.0

    @property
    def level(self) -> int:
        """Level of the last part."""
        return self.parts[-1].level

    @property
    def model_digests(self) -> tuple[str, ...]:
        """Digest prefixes of all models needed, in order of first use."""
        return tuple(dict.fromkeys(part.model_digest for part in self.parts if part.model_digest))

    @property
    def slots(self) -> int:
        """Slots of every kind."""
        return sum(frame.model_slots + frame.zstd_slots + frame.raw_slots for frame in self.frames)

    @property
    def groups(self) -> int:
        """Groups of frames: in a part without a memory each frame with model slots is one."""
        return sum(frame.model_slots > 0 and not frame.goes_on for frame in self.frames)

    @property
    def tokens(self) -> int:
        """Symbols of all model slots."""
        return sum(frame.tokens for frame in self.frames)

    @property
    def payload_bytes(self) -> int:
        """Bytes of all payloads; the rest of `compressed_bytes` is headers, tables, checks and index."""
        return sum(frame.payload_bytes for frame in self.frames)

    def to_json(self) -> dict[str, Any]:
        """Return plain dictionaries, lists, numbers and strings, totals first."""
        return {
            "format_version": self.format_version,
            "compressed_bytes": self.compressed_bytes,
            "content_bytes": self.content_bytes,
            "payload_bytes": self.payload_bytes,
            "bpb": round(self.bpb, 6),
            "level": self.level,
            "model_digests": list(self.model_digests),
            "groups": self.groups,
            "slots": self.slots,
            "tokens": self.tokens,
            "parts": [dataclasses.asdict(part) for part in self.parts],
            "frames": [{**dataclasses.asdict(frame), "charsets": list(frame.charsets)} for frame in self.frames],
        }


def inspect_file(stream: BinaryIO, limits: Limits) -> FileInfo:
    """Read the structure of an archive from where `stream` stands to its end.

    Raises:
        FormatError: the structure is damaged. Payload and content checks are not compared.
        LimitError: a frame is larger than the limits allow, or there are too many.
    """
    source = Source(stream)
    reader = FrameReader(source, limits)
    parts: list[PartInfo] = []
    frames: list[FrameInfo] = []
    with advising(source):
        while (frame := reader.next()) is not None:
            if len(parts) == frame.part:
                parts.append(_part_info(frame.header))
            if frame.head.slots:
                frames.append(_frame_info(frame))
            if limits.frames is not None and len(parts) + len(frames) > limits.frames:
                raise LimitError(f"it has more than {limits.frames} frames and parts, which is the limit")
            reader.pass_over(frame)
    return FileInfo(FORMAT_VERSION, reader.source.offset, reader.base, tuple(parts), tuple(frames))


def _part_info(header: FileHeader) -> PartInfo:
    model, memory = header.model, header.memory
    return PartInfo(
        header.single,
        header.level,
        model.exact_version if model else None,
        model.precision if model else None,
        model.digest.hex() if model else None,
        model.vocabulary_digest.hex() if model else None,
        memory.version if memory else None,
        1 << memory.table_bits if memory else None,
    )


def _frame_info(frame: Frame) -> FrameInfo:
    head = frame.head
    return FrameInfo(
        part=frame.part,
        ordinal=head.ordinal,
        offset=frame.offset,
        compressed_bytes=frame.compressed_bytes,
        payload_bytes=sum(slot.payload_bytes for slot in head.slots),
        content_start=frame.content_start,
        content_bytes=head.content_bytes,
        model_slots=head.count(Kind.MODEL),
        zstd_slots=head.count(Kind.ZSTD),
        raw_slots=head.count(Kind.RAW),
        tokens=head.tokens,
        charsets=tuple(sorted({slot.charset for slot in head.slots if slot.kind == Kind.MODEL})),
        goes_on=head.goes_on,
    )
