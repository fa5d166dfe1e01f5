"""Structures of a part (one file of a concatenation): header, end block, trailer, and every check. No I/O.

FORMAT.md is the specification; sections are named where they are implemented. Checks are leading bytes of SHA-256.
"""

import hashlib
import struct
from array import array
from dataclasses import dataclass

from speccompact.container.fields import Cursor, pack_varint
from speccompact.errors import DamagedError, NotSpecCompactError, TruncatedError, UnsupportedError

MAGIC = b"\xd3SPC"
"""First bytes of every part. D3 announces a two-byte UTF-8 character that an ASCII letter cannot finish: no text
begins like this."""

SYNC = b"\xd3\xc1\x96\xe4"
"""First bytes of every frame of a multi-frame part. C1 occurs in no UTF-8 text."""

END = b"\xd3\x3e\x69\x1b"
"""First bytes of the end block: SYNC with every bit after the first byte inverted, so that no small error turns one
into the other."""

TRAILER = b"\xd3END"
"""Last bytes of a multi-frame part."""

FORMAT_VERSION = 1

HEAD_CHECK_BYTES = 4
SINGLE_HEAD_CHECK_BYTES = 1
PAYLOAD_CHECK_BYTES = 4
FRAME_CHECK_BYTES = 8
ONE_SLOT_CHECK_BYTES = 4
CONTENT_CHECK_BYTES = 8
FILE_ID_BYTES = 4
MODEL_DIGEST_BYTES = 8
VOCABULARY_DIGEST_BYTES = 2
TRAILER_BYTES = 16

MAX_END_BLOCK_BYTES = 1 << 24
"""A reader takes no longer end block into memory: two million frames. It walks instead."""

NO_FRAMES = "the part ends without a frame, but has one or more"

_SINGLE, _MODEL, _MEMORY, _RESERVED = 1, 2, 4, 0x08
_TABLE_SHIFT = 5
_TRAILER_STRUCT = struct.Struct("<IQ4s")


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """What a decoder must have to decode model slots.

    Attributes:
        exact_version: version of the arithmetic.
        precision: log2 of the sum of all symbol frequencies.
        digest: first 8 bytes of the exact model file's SHA-256.
        vocabulary_digest: first 2 bytes of the vocabulary's.
    """

    exact_version: int
    precision: int
    digest: bytes
    vocabulary_digest: bytes


@dataclass(frozen=True, slots=True)
class MemoryIdentity:
    """How model slots share what they have seen.

    Attributes:
        version: version of the memory's arithmetic, below 8.
        table_bits: log2 of the entries of the table of contexts, below 32.
    """

    version: int
    table_bits: int


@dataclass(frozen=True, slots=True)
class FileHeader:
    """The header of a part.

    Attributes:
        level: level that the writer was asked for, 0 for none; tells a reader nothing that it needs.
        model: None where no slot needs a model.
        file_id: 4 bytes that tell frames of this part from those of others, or None in a single-frame part.
        memory: None where model slots share nothing.
    """

    level: int
    model: ModelIdentity | None
    file_id: bytes | None
    memory: MemoryIdentity | None = None

    @property
    def single(self) -> bool:
        """Whether the part is one frame, without sync marker, index and trailer."""
        return self.file_id is None


def sha_prefix(size: int, *parts: bytes) -> bytes:
    """Return the first `size` bytes of the SHA-256 of all `parts` in a row."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.digest()[:size]


def frame_check_bytes(*, single: bool, slots: int) -> int:
    """Return the length of a frame check: short only where a part is one slot and every byte counts."""
    return ONE_SLOT_CHECK_BYTES if single and slots <= 1 else FRAME_CHECK_BYTES


def pack_header(header: FileHeader) -> bytes:
    """Return the bytes of a header without its check (FORMAT.md section 3)."""
    flags = (_SINGLE if header.single else 0) | (_MODEL if header.model else 0) | (_MEMORY if header.memory else 0)
    flags |= header.level << 4
    out = MAGIC + bytes([FORMAT_VERSION, flags]) + (header.file_id or b"")
    if header.model:
        model = header.model
        out += bytes([model.exact_version, model.precision]) + model.digest + model.vocabulary_digest
    if header.memory:
        out += bytes([header.memory.version << _TABLE_SHIFT | header.memory.table_bits])
    return out


def parse_header(cursor: Cursor) -> FileHeader:
    """Take a header off the cursor, the inverse of `pack_header`. The versions inside the model section are not judged.

    Raises:
        TruncatedError: the data ends inside it.
        NotSpecCompactError: it does not start with MAGIC.
        UnsupportedError: the format version is unknown, or a reserved bit is set.
    """
    magic = b""
    for expected in MAGIC:
        magic += bytes([cursor.byte("magic number")])
        if magic[-1] != expected:
            raise NotSpecCompactError(f"it starts with {magic.hex(' ')}, not with the magic number {MAGIC.hex(' ')}")
    version = cursor.byte("format version")
    flags = cursor.byte("flags")
    if version != FORMAT_VERSION:
        raise UnsupportedError(f"format version is {version}; this release reads {FORMAT_VERSION}: use a newer one")
    if flags & _RESERVED or (flags & _MEMORY and not flags & _MODEL):
        raise UnsupportedError(f"flags are {flags:#04x}: a newer release wrote it, or it is damaged")
    file_id = None if flags & _SINGLE else cursor.take(FILE_ID_BYTES, "file id")
    model = None
    if flags & _MODEL:
        model = ModelIdentity(
            cursor.byte("exact version"),
            cursor.byte("precision"),
            cursor.take(MODEL_DIGEST_BYTES, "model digest"),
            cursor.take(VOCABULARY_DIGEST_BYTES, "vocabulary digest"),
        )
    memory = None
    if flags & _MEMORY:
        packed = cursor.byte("memory")
        memory = MemoryIdentity(packed >> _TABLE_SHIFT, packed & (1 << _TABLE_SHIFT) - 1)
    return FileHeader(flags >> 4, model, file_id, memory)


@dataclass(slots=True)
class SeekIndex:
    """Sizes of every frame of a part, in order: compressed (sync marker to frame check) and content bytes."""

    compressed: "array[int]"
    content: "array[int]"

    @classmethod
    def empty(cls) -> "SeekIndex":
        """Return an index of no frames."""
        return cls(array("Q"), array("Q"))

    def add(self, compressed: int, content: int) -> None:
        """Append a frame."""
        self.compressed.append(compressed)
        self.content.append(content)


@dataclass(frozen=True, slots=True)
class EndBlock:
    """What follows the last frame of a multi-frame part.

    Attributes:
        index: sizes of the frames.
        header: the header of the part again, so that a damaged beginning does not cost the rest.
        content_check: first 8 bytes of the SHA-256 of the part's content.
    """

    index: SeekIndex
    header: bytes
    content_check: bytes


def pack_end_block(block: EndBlock) -> bytes:
    """Return the end block with its check and the trailer (FORMAT.md section 5)."""
    out = bytearray(END + pack_varint(len(block.index.content)))
    for compressed, content in zip(block.index.compressed, block.index.content, strict=True):
        out += pack_varint(compressed) + pack_varint(content)
    out += block.header + block.content_check
    out += sha_prefix(HEAD_CHECK_BYTES, block.header, bytes(out))
    frames = sum(block.index.compressed)
    file_bytes = len(block.header) + HEAD_CHECK_BYTES + frames + len(out) + TRAILER_BYTES
    return bytes(out) + _TRAILER_STRUCT.pack(len(out), file_bytes, TRAILER)


def parse_end_block(cursor: Cursor) -> EndBlock:
    """Take an end block with its check, without the trailer, off the cursor.

    Raises:
        TruncatedError: the data ends inside it.
        DamagedError: it has another marker, counts no frame, or its check fails.
    """
    if cursor.take(len(END), "end marker") != END:
        raise DamagedError('field "end marker" is wrong')
    index = SeekIndex.empty()
    packed = bytearray(END)
    count = cursor.varint("frame count")
    if not count:
        raise DamagedError(NO_FRAMES)
    packed += pack_varint(count)
    for _ in range(count):
        compressed, content = cursor.varint("frame size"), cursor.varint("frame content size")
        packed += pack_varint(compressed) + pack_varint(content)
        index.add(compressed, content)
    try:
        header = pack_header(parse_header(cursor))
    except NotSpecCompactError:
        raise DamagedError('field "header copy" is wrong') from None
    content_check = cursor.take(CONTENT_CHECK_BYTES, "content check")
    check = cursor.take(HEAD_CHECK_BYTES, "index check")
    if check != sha_prefix(HEAD_CHECK_BYTES, header, bytes(packed), header, content_check):
        raise DamagedError("the index check fails")
    return EndBlock(index, header, content_check)


def parse_trailer(data: bytes) -> tuple[int, int]:
    """Return (bytes of the end block, bytes of the part) from the 16 bytes of a trailer.

    Raises:
        TruncatedError: there are fewer than 16.
        DamagedError: they do not end in TRAILER.
    """
    if len(data) < TRAILER_BYTES:
        raise TruncatedError('the data ends inside field "trailer"')
    block_bytes, file_bytes, magic = _TRAILER_STRUCT.unpack(data)
    if magic != TRAILER:
        raise DamagedError('field "trailer" is wrong')
    return block_bytes, file_bytes
