"""FORMAT.md sections 2, 4 and 5: archives, parts and frames. Run as `python -m tests.reference.decoder`."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import zstandard

from tests.reference import charsets, coding
from tests.reference.container import (
    END,
    MAX_CONTENT,
    SYNC,
    TRAILER,
    FrameHead,
    Header,
    Identity,
    Kind,
    believe,
    read_frame_head,
    read_header,
)
from tests.reference.exactmodel import ExactModel, read_exact_model
from tests.reference.group import Group
from tests.reference.wire import Cursor, Refused, check

Models = Callable[[bytes], bytes]
"""From the model digest of an archive (8 bytes) to the bytes of an exact model file."""


def decode(archive: bytes, models: Models) -> bytes:
    """Return the content of an archive.

    Raises:
        Refused: the archive or the model is not valid.
    """
    cursor = Cursor(archive)
    library = Library(models)
    content = _part(cursor, library)
    while cursor.left():
        content += _part(cursor, library)
    return content


class Library:
    """Models that were read, by digest."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._read: dict[bytes, ExactModel] = {}

    def model(self, identity: Identity) -> ExactModel:
        """Return the model that a part names, or refuse it."""
        if (identity.exact_version, identity.precision) != (1, coding.PRECISION):
            raise Refused(f"exact version {identity.exact_version}, precision {identity.precision} are unknown")
        digest = identity.model_digest
        if digest not in self._read:
            data = self._models(digest)
            if check(8, data) != digest:
                raise Refused("the model file has another digest")
            self._read[digest] = read_exact_model(data)
        model = self._read[digest]
        if model.vocabulary_digest()[:2] != identity.vocabulary_digest:
            raise Refused("the vocabulary of the model is another one")
        return model


@dataclass
class Frame:
    """A frame that was read and checked."""

    size: int
    content: bytes


class Part:
    """A part that is being read."""

    def __init__(self, header: Header, library: Library) -> None:
        self.header = header
        self._library = library
        self._group: Group | None = None

    def model_slots(self, payloads: list[bytes], lengths: list[int], goes_on: bool) -> list[tuple[bytes, int]]:
        """Return the joined bytes and the slot check of each model slot of the next frame that has some."""
        if self.header.identity is None:
            raise Refused("a model slot in a part without model identity")
        if self._group is None:
            self._group = Group(self._library.model(self.header.identity), self.header.memory)
        return self._group.frame(payloads, lengths, goes_on)


def _part(cursor: Cursor, library: Library) -> bytes:
    """Section 2."""
    begin = cursor.position
    header = read_header(cursor)
    part = Part(header, library)
    if header.single:
        frames = [_single_frame(cursor, part)]
    else:
        cursor.expect(check(4, header.data), "header check")
        frames = []
        while cursor.data[cursor.position :][:4] != END:
            offset = sum(len(frame.content) for frame in frames)
            frames.append(_frame(cursor, part, len(frames), offset))
        if not frames:
            raise Refused("a multi-frame part without a frame")
    content = b"".join(frame.content for frame in frames)
    if not header.single:
        _end_block(cursor, begin, header, frames, content)
    return content


def _single_frame(cursor: Cursor, part: Part) -> Frame:
    """Section 2, single-frame part, behind the header."""
    header = part.header
    head = read_frame_head(cursor, header)
    cursor.expect(check(1, header.data, head.data), "head check")
    believe(head, header.memory is not None, 0, 0)
    section = cursor.take(head.payload_section(), "payload section")
    content = _frame_content(head, section, part)
    size = 4 if len(head.slots) <= 1 else 8
    cursor.expect(check(size, header.data, head.data, section, content), "frame check")
    return Frame(0, content)


def _frame(cursor: Cursor, part: Part, ordinal: int, offset: int) -> Frame:
    """Section 4."""
    begin, header = cursor.position, part.header
    cursor.expect(SYNC, "sync marker")
    head = read_frame_head(cursor, header)
    cursor.expect(check(4, header.data, head.data), "head check")
    believe(head, header.memory is not None, ordinal, offset)
    section = cursor.take(head.payload_section(), "payload section")
    cursor.expect(check(4, section), "payload check")
    content = _frame_content(head, section, part)
    cursor.expect(check(8, header.data, head.data, section, content), "frame check")
    return Frame(cursor.position - begin, content)


def _end_block(cursor: Cursor, begin: int, header: Header, frames: list[Frame], content: bytes) -> None:
    """Section 5, field by field."""
    block = cursor.position
    cursor.expect(END, "end marker")
    _expect_number(len(frames), cursor.varint("frame count"), "frame count")
    for frame in frames:
        _expect_number(frame.size, cursor.varint("frame size"), "frame size")
        _expect_number(len(frame.content), cursor.varint("content size"), "content size")
    cursor.expect(header.data, "header copy")
    cursor.expect(check(8, content), "content check")
    cursor.expect(check(4, header.data, cursor.data[block : cursor.position]), "index check")
    _expect_number(cursor.position - block, cursor.fixed(4, "block bytes"), "block bytes")
    _expect_number(cursor.position + 12 - begin, cursor.fixed(8, "part bytes"), "part bytes")
    cursor.expect(TRAILER, "trailer")


def _expect_number(expected: int, found: int, field: str) -> None:
    if found != expected:
        raise Refused(f"{field} is {found}, not {expected}")


def _frame_content(head: FrameHead, section: bytes, part: Part) -> bytes:
    """Section 4.4."""
    cursor = Cursor(section)
    payloads: list[bytes] = []
    checks: list[int] = []
    for slot in head.slots:
        payloads.append(cursor.take(slot.payload, "payload"))
        checks.append(0 if slot.kind is Kind.MODEL else cursor.byte("slot check"))
    models = [index for index, slot in enumerate(head.slots) if slot.kind is Kind.MODEL]
    decoded: dict[int, bytes] = {}
    if models:
        lengths = [head.slots[index].symbols for index in models]
        results = part.model_slots([payloads[index] for index in models], lengths, head.goes_on)
        for index, (joined, checks[index]) in zip(models, results, strict=True):
            decoded[index] = charsets.transcode(joined, head.slots[index].charset)
    contents = []
    for index, slot in enumerate(head.slots):
        if slot.kind is Kind.MODEL:
            content = decoded[index]
        else:
            content = payloads[index] if slot.kind is Kind.RAW else _zstd_content(payloads[index], slot.content)
        if checks[index] != check(1, content)[0]:
            raise Refused(f"slot {index}: the slot check does not agree")
        contents.append(content)
    if sum(map(len, contents)) != head.content:
        raise Refused("the slots do not add up to the frame's content")
    return b"".join(contents)


def _zstd_content(payload: bytes, size: int) -> bytes:
    """Return the content of a zstd slot: a frame without magic number and optional fields of its header."""
    if payload[0] != 0:
        raise Refused("a zstd slot has content size, checksum or dictionary id")
    if len(payload) < 2 or (8 + (payload[1] & 7)) << (7 + (payload[1] >> 3)) > MAX_CONTENT:
        raise Refused("the window of a zstd slot is too large")
    decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_CONTENT).decompressobj()
    try:
        content = decompressor.decompress(b"\x28\xb5\x2f\xfd" + payload)
    except zstandard.ZstdError as error:
        raise Refused(f"a zstd slot is damaged: {error}") from None
    if not decompressor.eof or decompressor.unused_data or len(content) != size:
        raise Refused("a zstd slot is not one frame of its content bytes")
    return content


def main() -> int:
    """Decode an archive with a model file and write the content to standard output."""
    if len(sys.argv) != 3:
        sys.stderr.write("usage: python -m tests.reference.decoder ARCHIVE MODEL > OUT\n")
        return 2
    archive, model = (Path(name).read_bytes() for name in sys.argv[1:])
    try:
        sys.stdout.buffer.write(decode(archive, lambda _digest: model))
    except Refused as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
