"""FORMAT.md sections 3 and 4.1 to 4.5: header and frame head, and what a reader must refuse in them."""

from dataclasses import dataclass
from enum import IntEnum

from tests.reference import charsets
from tests.reference.wire import BitString, Cursor, Refused

MAGIC = b"\xd3SPC"
SYNC = bytes.fromhex("d3c196e4")
END = bytes.fromhex("d33e691b")
TRAILER = b"\xd3END"

MAX_SLOTS = 4096
MAX_CONTENT = 8_388_608
MAX_TOKENS = 262_144
MAX_SLOT_TOKENS = 8192


class Kind(IntEnum):
    """Bits 0 and 1 of the frame kind, and the two bits of a slot."""

    MODEL = 0
    ZSTD = 1
    RAW = 2
    MIXED = 3


@dataclass(frozen=True)
class Identity:
    """Model identity of a header."""

    exact_version: int
    precision: int
    model_digest: bytes
    vocabulary_digest: bytes


@dataclass(frozen=True)
class Header:
    """A part's header, and its bytes without their check."""

    single: bool
    identity: Identity | None
    memory: int | None
    data: bytes


@dataclass(frozen=True)
class Slot:
    """One slot as the frame head has it: `content` bytes of zstd and raw, `symbols` and `charset` of a model slot."""

    kind: Kind
    payload: int
    content: int = 0
    symbols: int = 0
    charset: int = 0


@dataclass(frozen=True)
class FrameHead:
    """A frame head, not yet believed, and its bytes."""

    slots: tuple[Slot, ...]
    content: int
    ordinal: int
    offset: int
    tokens: int
    model_payload: int
    goes_on: bool
    data: bytes

    def payload_section(self) -> int:
        """Return the length of the payload section (4.4): zstd and raw slots have a check behind them."""
        return sum(slot.payload + (slot.kind is not Kind.MODEL) for slot in self.slots)


def read_header(cursor: Cursor) -> Header:
    """Section 3."""
    begin = cursor.position
    cursor.expect(MAGIC, "magic number")
    version, flags = cursor.byte("format version"), cursor.byte("flags")
    if version != 1:
        raise Refused(f"format version {version} is unknown")
    if flags & 8 or flags & 6 == 4:
        raise Refused(f"flags {flags:02x} are reserved")
    if not flags & 1:
        cursor.take(4, "file id")
    identity = None
    if flags & 2:
        identity = Identity(
            cursor.byte("exact version"),
            cursor.byte("precision"),
            cursor.take(8, "model digest"),
            cursor.take(2, "vocabulary digest"),
        )
    memory = cursor.byte("memory") if flags & 4 else None
    return Header(bool(flags & 1), identity, memory, cursor.data[begin : cursor.position])


def read_frame_head(cursor: Cursor, header: Header) -> FrameHead:
    """Section 4.1. Numbers that depend on others are worked out only where these allow it; see `believe`."""
    begin, single = cursor.position, header.single
    frame_kind = cursor.byte("frame kind")
    all_kinds, charset_mode, one_slot = Kind(frame_kind & 3), frame_kind >> 2 & 3, frame_kind >> 4 & 1
    goes_on = bool(frame_kind & 32)
    if frame_kind >> 6 or charset_mode == 3 or (goes_on and header.memory is None):
        raise Refused(f"frame kind {frame_kind:02x} is reserved")
    ordinal = 0 if single else cursor.varint("ordinal")
    offset = 0 if single else cursor.varint("content offset")
    count = 1 if one_slot else cursor.varint("slot count")
    if count == 0 and single and frame_kind == 2:
        return FrameHead((), 0, 0, 0, 0, 0, False, cursor.data[begin : cursor.position])
    if count > MAX_SLOTS or (count < 2 and not one_slot):
        raise Refused(f"slot count {count}")
    content = cursor.varint("content bytes")
    kinds = [all_kinds] * count
    if all_kinds is Kind.MIXED:
        bits = BitString(cursor, "slot kinds")
        kinds = [Kind(bits.bits(2)) for _ in range(count)]
        bits.close()
        if Kind.MIXED in kinds:
            raise Refused("slot kind 3 is reserved")
    plain = _plain_sizes(cursor, kinds, content)
    models = kinds.count(Kind.MODEL)
    if goes_on and not models:
        raise Refused("a frame goes on, but has no model slot")
    numbers = _charsets(cursor, charset_mode, models)
    tokens = payload = 0
    table: list[tuple[int, int]] = []
    if models:
        tokens, payload = cursor.varint("token total"), cursor.varint("payload total")
        table = _model_table(cursor, models, tokens, payload)
    next_model = iter(
        [Slot(Kind.MODEL, size, 0, symbols, n) for (symbols, size), n in zip(table, numbers, strict=True)]
    )
    next_plain = iter(plain)
    slots = tuple(next(next_model) if kind is Kind.MODEL else next(next_plain) for kind in kinds)
    data = cursor.data[begin : cursor.position]
    return FrameHead(slots, content, ordinal, offset, tokens, payload, goes_on, data)


def _plain_sizes(cursor: Cursor, kinds: list[Kind], frame_content: int) -> list[Slot]:
    """Section 4.2."""
    slots = []
    alone = len(kinds) == 1
    for kind in kinds:
        if kind is Kind.ZSTD:
            payload = cursor.varint("zstd payload bytes")
            slots.append(Slot(kind, payload, frame_content if alone else cursor.varint("zstd content bytes")))
        elif kind is Kind.RAW:
            payload = frame_content if alone else cursor.varint("raw payload bytes")
            slots.append(Slot(kind, payload, payload))
    return slots


def _charsets(cursor: Cursor, mode: int, models: int) -> list[int]:
    """Return the charset numbers of the model slots (4.1, 6.3)."""
    if mode and not models:
        raise Refused("a charset mode, but no model slot")
    if mode == 2:
        numbers = list(cursor.take(models, "charsets"))
    else:
        numbers = [cursor.byte("charset") if mode == 1 else 0] * models
    if any(number > charsets.LAST for number in numbers):
        raise Refused("a charset number is reserved")
    return numbers


def _model_table(cursor: Cursor, models: int, tokens: int, payload: int) -> list[tuple[int, int]]:
    """Return symbols and payload bytes of each model slot (4.3)."""
    cuts = lengths = [0] * (models - 1)
    if models > 1:
        bits = BitString(cursor, "deviations")
        cuts, lengths = bits.rice_list(models - 1), bits.rice_list(models - 1)
        bits.close()
    ends = [0, *(i * tokens // models + cuts[i - 1] for i in range(1, models)), tokens]
    symbols = [ends[i + 1] - ends[i] for i in range(models)]
    # tokens = 0 is refused by `believe`; until then nothing may be divided by it
    sizes = [payload * symbols[i] // max(1, tokens) + lengths[i] for i in range(models - 1)]
    return list(zip(symbols, [*sizes, payload - sum(sizes)], strict=True))


def believe(head: FrameHead, memory: bool, expected_ordinal: int, expected_offset: int) -> None:
    """Section 4.5: refuse a head, good check or not, by its numbers."""
    if not head.slots:
        return
    models = [slot for slot in head.slots if slot.kind is Kind.MODEL]
    plain = [slot for slot in head.slots if slot.kind is not Kind.MODEL]
    left = head.content - sum(slot.content for slot in plain)
    valid = {
        "1: content": 1 <= head.content <= MAX_CONTENT,
        "1: tokens": head.tokens <= MAX_TOKENS and all(1 <= slot.symbols <= MAX_SLOT_TOKENS for slot in models),
        "2: plain sizes": all(1 <= slot.payload <= slot.content for slot in plain),
        "3: plain contents": left >= len(models) if models else left == 0,
        "4: token total": not models or len(models) <= head.tokens <= 3 * left,
        "4: payload total": head.model_payload <= left,
        "4: payload bytes": all(slot.payload >= 0 for slot in models),
        "6: tokens side by side": not (memory and models)
        or len(models) * max(slot.symbols for slot in models) <= MAX_TOKENS,
        "5: order": (head.ordinal, head.offset) == (expected_ordinal, expected_offset),
    }
    broken = [rule for rule, holds in valid.items() if not holds]
    if broken:
        raise Refused(f"frame {expected_ordinal} breaks the rules of FORMAT.md section 4.5: {', '.join(broken)}")
