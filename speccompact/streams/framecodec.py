"""One frame: content and plan to slots and payloads, and back. The inverse pair is `encode_frame`, `decode_frame`.

What the encoder chooses (which kind for which slot, which slots to merge) only changes the size; the decoder follows
the slot table. Every choice depends on the content and the parameters alone, so that the same input always gives the
same archive.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from speccompact.container.format import sha_prefix
from speccompact.container.frames import TOKENS_PER_BYTE, FrameHead, Kind, Slot, pack_frame_head
from speccompact.container.framing import locate_error
from speccompact.errors import DamagedError, UnsupportedError
from speccompact.speculative.effort import Effort
from speccompact.streams.engine import CodedSlot, DecodedSlot, Engine, SlotMemory, Symbols, Tick
from speccompact.streams.zstdslots import pack_zstd, unpack_zstd
from speccompact.text.charsets import from_utf8
from speccompact.text.slots import SlotPlan

_COLD_SLOT_BYTES = 16
"""A model slot that starts without any context costs more than this; what zstandard does for less needs no model."""

_TABLE_BYTES = 2
"""What a zstd or raw slot costs in the slot table, about; exact sizes decide between whole frames."""


@dataclass(frozen=True, slots=True)
class BuiltFrame:
    """A frame ready to be written.

    Attributes:
        head: without ordinal and start.
        payload: the payload section, check bytes included.
        bits: ideal size of the model slots (bits).
        passes: target passes spent, on slots that were dropped too.
        asked_model: whether the model has read text of the frame, kept or dropped: a memory has then gone on from it.
        tried_bits, tried_bytes: ideal size (bits) and content of all that the model coded to its end, kept or dropped.
    """

    head: FrameHead
    payload: bytes
    bits: float = 0.0
    passes: int = 0
    asked_model: bool = False
    tried_bits: float = 0.0
    tried_bytes: int = 0


@dataclass(frozen=True, slots=True)
class _Coded:
    """A candidate for content [start, stop) of the frame; `payload` without check byte."""

    start: int
    stop: int
    kind: Kind
    payload: bytes
    tokens: int = 0
    charset: int = 0
    bits: float = 0.0

    @property
    def cost(self) -> int:
        return len(self.payload) + (self.kind != Kind.MODEL) * (1 + _TABLE_BYTES)


_Plain = Callable[[int, int], _Coded]
"""Gives what a slot from one place of the content to another is without the model."""


def slot_check(content: bytes) -> int:
    """Return the 8-bit check of a slot's content; model slots carry it in the start state of their lane."""
    return sha_prefix(1, content)[0]


def encode_frame(
    content: bytes,
    plan: Sequence[SlotPlan],
    engine: Callable[[], Engine],
    tick: Tick | None = None,
    memory: Callable[[], SlotMemory] | None = None,
) -> BuiltFrame:
    """Code a frame as small as the three kinds of slots allow.

    With a memory, all text of the frame is coded by the model, or none of it: what a slot has left in the memory must
    be there for a reader, too. The model gives up on the way when it is going to lose the frame.

    Args:
        content: bytes of the frame.
        plan: its slots, covering `content` in order.
        engine: gives the engine; called only if a slot needs the model.
        tick: called with tokens as the model gets through them.
        memory: gives the memory of the group that the frame belongs to; called only if a slot needs the model.
    """
    if not content:
        return BuiltFrame(FrameHead((), 0), b"")
    plain = functools.cache(functools.partial(_plain, content))
    whole = plain(0, len(content))
    text = [slot for slot in plan if slot.symbols is not None]
    if not text or len(whole.payload) <= _COLD_SLOT_BYTES * len(text):
        return _build(content, [whole])
    alone = _build(content, [whole])
    if memory:
        left = len(whole.payload) - _other_bytes(plan, plain)
        if left <= 0:
            return alone
        tried, passes = _encode_model(content, text, engine(), tick, memory(), left)
    else:
        tried, passes = _encode_model(content, text, engine(), tick, None, None)
    if tried is None:
        return replace(alone, passes=passes, asked_model=True)
    if memory is None:
        model = {slot.start: slot for slot in tried if len(slot.payload) <= slot.stop - slot.start}
        chosen = [_smallest(plain(slot.start, slot.stop), model.get(slot.start)) for slot in plan]
    elif sum(len(slot.payload) for slot in tried) <= sum(slot.stop - slot.start for slot in tried):
        model = {slot.start: slot for slot in tried}
        chosen = [model.get(slot.start) or plain(slot.start, slot.stop) for slot in plan]
    else:
        chosen = [whole]
    built = _build(content, _merged(chosen, plain))
    best = min(built, alone, key=lambda frame: len(frame.payload) + len(pack_frame_head(frame.head, single=True)))
    return replace(
        best,
        passes=passes,
        asked_model=bool(tried),
        tried_bits=sum(slot.bits for slot in tried),
        tried_bytes=sum(slot.stop - slot.start for slot in tried),
    )


def _encode_model(
    content: bytes,
    text: Sequence[SlotPlan],
    engine: Engine,
    tick: Tick | None,
    memory: SlotMemory | None,
    budget: int | None,
) -> tuple[list[_Coded] | None, int]:
    """Return what the model makes of each slot, and the passes spent. A plan that would not come back is left out.

    It is None where the model gave up, because all of the text would take more than `budget` bytes.
    """
    vocabulary = engine.codec.target.vocabulary
    sound: list[tuple[SlotPlan, Symbols, bytes]] = []
    for slot in text:
        piece = content[slot.start : slot.stop]
        if slot.symbols is not None and from_utf8(vocabulary.join(slot.symbols), slot.charset) == piece:
            sound.append((slot, slot.symbols, piece))
    if not sound:
        return [], 0
    with engine.lock:
        before = engine.codec.passes
        lanes = engine.codec.try_encode(
            [symbols for _, symbols, _ in sound], [slot_check(piece) for _, _, piece in sound], budget, tick, memory
        )
        passes = engine.codec.passes - before
    if lanes is None:
        return None, passes
    coded = [
        _Coded(slot.start, slot.stop, Kind.MODEL, lane.payload, len(symbols), slot.charset, lane.bits)
        for (slot, symbols, _), lane in zip(sound, lanes, strict=True)
    ]
    return coded, passes


def _plain(content: bytes, start: int, stop: int) -> _Coded:
    """Return the smaller of zstd and raw."""
    piece = content[start:stop]
    packed = pack_zstd(piece)
    if len(packed) < len(piece):
        return _Coded(start, stop, Kind.ZSTD, packed)
    return _Coded(start, stop, Kind.RAW, piece)


def _other_bytes(plan: Sequence[SlotPlan], plain: _Plain) -> int:
    """Return what the slots that are no text take beside those of the model (payload bytes)."""
    slots = [
        plain(slot.start, slot.stop) if slot.symbols is None else _Coded(slot.start, slot.stop, Kind.MODEL, b"")
        for slot in plan
    ]
    return sum(len(slot.payload) for slot in _merged(slots, plain))


def _smallest(plain: _Coded, model: _Coded | None) -> _Coded:
    return model if model is not None and model.cost <= plain.cost else plain


def _merged(slots: Sequence[_Coded], plain: _Plain) -> list[_Coded]:
    """Join neighbours that the model lost, where one zstd slot beats them."""
    merged: list[_Coded] = []
    run: list[_Coded] = []
    for slot in [*slots, None]:
        if slot is not None and slot.kind != Kind.MODEL:
            run.append(slot)
            continue
        if len(run) > 1:
            joined = plain(run[0].start, run[-1].stop)
            run = [joined] if joined.cost <= sum(part.cost for part in run) else run
        merged += run
        run = []
        if slot is not None:
            merged.append(slot)
    return merged


def _build(content: bytes, coded: Sequence[_Coded]) -> BuiltFrame:
    slots, payload = [], bytearray()
    for slot in coded:
        payload += slot.payload
        size = slot.stop - slot.start
        if slot.kind == Kind.MODEL:
            slots.append(Slot(slot.kind, len(slot.payload), None, slot.tokens, slot.charset))
        else:
            slots.append(Slot(slot.kind, len(slot.payload), size))
            payload.append(slot_check(content[slot.start : slot.stop]))
    return BuiltFrame(FrameHead(tuple(slots), len(content)), bytes(payload), sum(slot.bits for slot in coded))


def decode_frame(
    head: FrameHead,
    payload: bytes,
    engine: Callable[[], Engine],
    tick: Tick | None = None,
    memory: Callable[[], SlotMemory] | None = None,
) -> tuple[bytes, Effort]:
    """Return the content of a frame and what it has cost, the inverse of `encode_frame`.

    Args:
        head: checked against the limits.
        payload: its payload section, `head.payload_bytes` long.
        engine: gives the engine that the part names; called only if a slot needs it.
        tick: called with tokens as the model gets through them.
        memory: gives the memory at the start of the frame, for parts that have one; called only if a slot needs it.

    Raises:
        DamagedError: a slot cannot be decoded; the message names it.
        UnsupportedError: a charset is unknown.
    """
    pieces: list[bytes] = []
    model: dict[int, CodedSlot] = {}
    at = 0
    for index, slot in enumerate(head.slots):
        stop = at + slot.payload_bytes
        if slot.kind == Kind.MODEL:
            model[index] = CodedSlot(payload[at:stop], slot.tokens)
            pieces.append(b"")
            at = stop
        else:
            pieces.append(_decode_plain(index, slot, payload[at:stop], payload[stop]))
            at = stop + 1
    if not model:
        return b"".join(pieces), Effort()
    left = head.content_bytes - sum(map(len, pieces))
    loaded = engine()
    with loaded.lock:
        before = loaded.codec.effort
        decoded = loaded.codec.decode(list(model.values()), tick, memory() if memory else None)
        effort = loaded.codec.effort - before
    sound: list[tuple[int, DecodedSlot]] = []
    for index, result in zip(model, decoded, strict=True):
        if isinstance(result, DamagedError):
            raise DamagedError(f"slot {index} (model) is damaged: {result}")
        sound.append((index, result))
    for index, result in sound:
        pieces[index] = _decode_text(index, head.slots[index].charset, result, loaded, left)
        left -= len(pieces[index])
    return b"".join(pieces), effort


def _decode_plain(index: int, slot: Slot, payload: bytes, check: int) -> bytes:
    try:
        piece = payload if slot.kind == Kind.RAW else unpack_zstd(payload, slot.content_bytes or 0)
        if slot_check(piece) != check:
            raise DamagedError("its check fails")
    except DamagedError as error:
        raise DamagedError(f"slot {index} ({slot.kind.name.lower()}) is damaged: {error}") from None
    return piece


def _decode_text(index: int, charset: int, result: DecodedSlot, engine: Engine, left: int) -> bytes:
    """Return the content of a model slot, of which `left` bytes at most can belong to the frame."""
    vocabulary = engine.codec.target.vocabulary
    if int(vocabulary.lengths[result.symbols].sum()) > TOKENS_PER_BYTE * left:
        raise DamagedError(
            f"slot {index} (model) is damaged: its symbols spell more than the {left} bytes left in the frame"
        )
    try:
        piece = from_utf8(vocabulary.join(result.symbols), charset)
    except (DamagedError, UnsupportedError) as error:
        raise locate_error(error, f"slot {index} (model)") from None
    if slot_check(piece) != result.check:
        raise DamagedError(f"slot {index} (model) is damaged: its check fails")
    return piece
