"""The head of a frame: what its slots are and how long each is. FORMAT.md section 4 lists the fields.

Invariants, all enforced while parsing, before anything is allocated from the values:

1. At most MAX_FRAME_SLOTS slots, each with at least one byte of content and, in model slots, 1 to MAX_SLOT_TOKENS
   symbols.
2. The contents of zstd and raw slots add up to at most `content_bytes`, to exactly that where no slot needs the model.
3. No payload is larger than its content (raw is always available), nor all model payloads together than what the other
   slots leave of `content_bytes`.
4. Model slots have at most TOKENS_PER_BYTE symbols for each byte of what is left to them.
"""

import itertools
from dataclasses import dataclass
from enum import IntEnum

from speccompact.container.fields import Cursor, pack_varint
from speccompact.container.rice import BitReader, BitWriter, pop_rice, push_rice
from speccompact.errors import DamagedError, UnsupportedError
from speccompact.params import MAX_FRAME_SLOTS, MAX_SLOT_TOKENS

TOKENS_PER_BYTE = 3
"""One byte of a legacy charset is at most three bytes of UTF-8, each of which at worst is a symbol of its own."""

MAX_HEAD_BYTES = 1 << 17
"""No head is longer: 4,096 slots at their worst stay below."""

_MIXED = 3
_CHARSET_SHIFT = 2
_ONE_SLOT = 1 << 4
_GOES_ON = 1 << 5
_RESERVED = 0xC0


class Kind(IntEnum):
    """How a slot is coded; the numbers are on the wire."""

    MODEL = 0
    ZSTD = 1
    RAW = 2


@dataclass(frozen=True, slots=True)
class Slot:
    """One row of the slot table.

    Attributes:
        kind: how the payload is coded.
        payload_bytes: bytes of the payload, without the check byte that follows those of zstd and raw slots.
        content_bytes: bytes of content; None in model slots, where the table does not say.
        tokens: symbols of a model slot, else 0.
        charset: charset number of a model slot (FORMAT.md section 6.3), else 0.
    """

    kind: Kind
    payload_bytes: int
    content_bytes: int | None = None
    tokens: int = 0
    charset: int = 0


@dataclass(frozen=True, slots=True)
class FrameHead:
    """The head of a frame.

    Attributes:
        slots: in the order of their content.
        content_bytes: bytes of content of the whole frame.
        ordinal: number of the frame in its part, from 0; 0 in a single-frame part, where it is not stored.
        start: content bytes of the part before this frame; likewise.
        goes_on: whether its slots begin with the memory that the model slots before them in the part have left.
    """

    slots: tuple[Slot, ...]
    content_bytes: int
    ordinal: int = 0
    start: int = 0
    goes_on: bool = False

    @property
    def payload_bytes(self) -> int:
        """Bytes of the payload section: payloads, and one check byte for each zstd and raw slot."""
        return sum(slot.payload_bytes + (slot.kind != Kind.MODEL) for slot in self.slots)

    @property
    def tokens(self) -> int:
        """Symbols of all model slots."""
        return sum(slot.tokens for slot in self.slots)

    def count(self, kind: Kind) -> int:
        """Return the number of slots of one kind."""
        return sum(slot.kind == kind for slot in self.slots)


def pack_frame_head(head: FrameHead, *, single: bool) -> bytes:
    """Return the bytes of a head; `single` leaves out what a single-frame part does not store."""
    slots = head.slots
    kinds = {slot.kind for slot in slots}
    charsets = {slot.charset for slot in slots if slot.kind == Kind.MODEL}
    shared = kinds.pop() if len(kinds) == 1 else _MIXED if kinds else Kind.RAW
    mode = 0 if charsets <= {0} else 1 if len(charsets) == 1 else 2
    more = (_ONE_SLOT if len(slots) == 1 else 0) | (_GOES_ON if head.goes_on else 0)
    out = bytearray([shared | mode << _CHARSET_SHIFT | more])
    if not single:
        out += pack_varint(head.ordinal) + pack_varint(head.start)
    if len(slots) != 1:
        out += pack_varint(len(slots))
    if not slots:
        return bytes(out)
    out += pack_varint(head.content_bytes)
    if shared == _MIXED:
        writer = BitWriter()
        for slot in slots:
            writer.push(slot.kind, 2)
        out += writer.close()
    for slot in slots:
        if slot.kind == Kind.ZSTD or (slot.kind == Kind.RAW and len(slots) > 1):
            out += pack_varint(slot.payload_bytes)
        if slot.kind == Kind.ZSTD and len(slots) > 1:
            out += pack_varint(slot.content_bytes or 0)
    model = [slot for slot in slots if slot.kind == Kind.MODEL]
    if model:
        if mode:
            out += bytes([slot.charset for slot in model[: 1 if mode == 1 else None]])
        out += _pack_model_table(model)
    return bytes(out)


def parse_frame_head(cursor: Cursor, *, single: bool) -> FrameHead:
    """Take a head off the cursor, the inverse of `pack_frame_head`.

    Raises:
        TruncatedError: the data ends inside it.
        UnsupportedError: a reserved bit or value is set.
        DamagedError: a field breaks an invariant of this module.
    """
    first = cursor.byte("frame kind")
    shared, mode, one, goes_on = first & 3, first >> _CHARSET_SHIFT & 3, bool(first & _ONE_SLOT), bool(first & _GOES_ON)
    if first & _RESERVED or mode == 3:
        raise UnsupportedError(f"frame kind is {first:#04x}: a newer release wrote it, or it is damaged")
    ordinal, start = (0, 0) if single else (cursor.varint("frame ordinal"), cursor.varint("content offset"))
    count = 1 if one else cursor.varint("slot count")
    if count > MAX_FRAME_SLOTS or (count == 1 and not one) or (count == 0 and (not single or first != Kind.RAW)):
        raise DamagedError(f'field "slot count" is {count}, which is impossible here')
    if not count:
        return FrameHead((), 0)
    content_bytes = cursor.varint("content bytes")
    kinds = _parse_kinds(cursor, count) if shared == _MIXED else [Kind(shared)] * count
    plain = [_parse_plain(cursor, kind, content_bytes, one) for kind in kinds]
    left = content_bytes - sum(slot.content_bytes for slot in plain if slot and slot.content_bytes is not None)
    model_count = kinds.count(Kind.MODEL)
    if left < model_count or (left and not model_count):
        raise DamagedError(f'field "content bytes" is {content_bytes}, which does not fit the slots')
    if not model_count:
        if mode or goes_on:
            raise DamagedError('field "frame kind" names a charset or a memory, but no slot needs it')
        return FrameHead(tuple(slot for slot in plain if slot), content_bytes, ordinal, start)
    charsets = list(cursor.take((0, 1, model_count)[mode], "charsets"))
    charsets *= model_count if len(charsets) == 1 else 1
    model = iter(_parse_model_table(cursor, charsets or [0] * model_count, left))
    return FrameHead(tuple(slot or next(model) for slot in plain), content_bytes, ordinal, start, goes_on)


def _parse_kinds(cursor: Cursor, count: int) -> list[Kind]:
    reader = BitReader(cursor, "slot kinds")
    kinds = [reader.pop(2) for _ in range(count)]
    reader.close()
    if max(kinds) > Kind.RAW:
        raise UnsupportedError('field "slot kinds" has an unknown kind: a newer release wrote it, or it is damaged')
    return [Kind(kind) for kind in kinds]


def _parse_plain(cursor: Cursor, kind: Kind, frame_bytes: int, one: bool) -> Slot | None:
    """Return a zstd or raw slot, or None for a model slot, whose fields come in a table of their own."""
    if kind == Kind.MODEL:
        return None
    payload = frame_bytes if one and kind == Kind.RAW else cursor.varint("payload bytes")
    content = payload if kind == Kind.RAW else frame_bytes if one else cursor.varint("slot content bytes")
    if not 0 < payload <= content <= frame_bytes:
        raise DamagedError(f'field "payload bytes" is {payload} for {content} bytes of content, which is impossible')
    return Slot(kind, payload, content)


def _pack_model_table(model: list[Slot]) -> bytes:
    """Token and payload totals, then the deviation of every cut and length from what the totals predict."""
    tokens = sum(slot.tokens for slot in model)
    payload = sum(slot.payload_bytes for slot in model)
    out = pack_varint(tokens) + pack_varint(payload)
    if len(model) == 1:
        return out
    cuts, cut = [], 0
    for index, slot in enumerate(model[:-1]):
        cut += slot.tokens
        cuts.append(cut - balanced_cut(index + 1, len(model), tokens))
    lengths = [slot.payload_bytes - payload * slot.tokens // tokens for slot in model[:-1]]
    writer = BitWriter()
    push_rice(writer, cuts)
    push_rice(writer, lengths)
    return out + writer.close()


def _parse_model_table(cursor: Cursor, charsets: list[int], content_bytes: int) -> list[Slot]:
    count = len(charsets)
    tokens = cursor.varint("token total")
    payload = cursor.varint("payload total")
    if not count <= tokens <= TOKENS_PER_BYTE * content_bytes:
        raise DamagedError(f'field "token total" is {tokens} for {content_bytes} bytes, which is impossible')
    if payload > content_bytes:
        raise DamagedError(f'field "payload total" is {payload} for {content_bytes} bytes, which is impossible')
    sizes, lengths = [tokens], [payload]
    if count > 1:
        reader = BitReader(cursor, "slot table")
        offsets = pop_rice(reader, count - 1)
        cuts = [0, *(offset + balanced_cut(i + 1, count, tokens) for i, offset in enumerate(offsets)), tokens]
        sizes = [stop - start for start, stop in itertools.pairwise(cuts)]
        deltas = pop_rice(reader, count - 1)
        lengths = [delta + payload * size // tokens for delta, size in zip(deltas, sizes, strict=False)]
        lengths.append(payload - sum(lengths))
        reader.close()
    for index, (size, length) in enumerate(zip(sizes, lengths, strict=True)):
        if not 0 < size <= MAX_SLOT_TOKENS or length < 0:
            raise DamagedError(f'field "slot table" gives model slot {index} {size} tokens in {length} bytes')
    return [
        Slot(Kind.MODEL, length, None, size, charset)
        for size, length, charset in zip(sizes, lengths, charsets, strict=True)
    ]


def balanced_cut(index: int, count: int, tokens: int) -> int:
    """Return where slot `index` of `count` starts when `tokens` symbols are spread evenly."""
    return index * tokens // count
