"""The other direction, for archives that no product would write: parts from their fields, lanes from symbols."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.reference.coding import PRECISION, interval_starts
from tests.reference.container import END, MAGIC, SYNC, TRAILER
from tests.reference.exactmodel import ALIGNMENT, ExactModel, compact_json
from tests.reference.memory import Memory, Row
from tests.reference.network import Network
from tests.reference.wire import check

SINGLE, WITH_MODEL, WITH_MEMORY = 1, 2, 4
"""Bits of the flags."""

FILE_ID = b"four"


def varint(value: int) -> bytes:
    """FORMAT.md section 1."""
    low, high = value & 127, value >> 7
    return bytes([low | 128]) + varint(high) if high else bytes([low])


def header(flags: int, identity: bytes = b"") -> bytes:
    """FORMAT.md section 3."""
    return MAGIC + bytes([1, flags]) + (b"" if flags & SINGLE else FILE_ID) + identity


def single_part(
    flags: int, head: bytes, section: bytes, content: bytes, slots: int = 1, identity: bytes = b""
) -> bytes:
    """Return a single-frame part (FORMAT.md section 2) with valid checks."""
    begin = header(flags | SINGLE, identity)
    size = 4 if slots <= 1 else 8
    return begin + head + check(1, begin, head) + section + check(size, begin, head, section, content)


def raw_section(content: bytes) -> bytes:
    """Return the payload section of a raw slot."""
    return content + check(1, content)


def multi_part(contents: Sequence[bytes], places: Sequence[tuple[int, int]] | None = None) -> bytes:
    """Return a multi-frame part of raw slots with valid checks; `places` are ordinals and content offsets."""
    begin = header(0)
    part = begin + check(4, begin)
    index = varint(len(contents))
    offset = 0
    for ordinal, content in enumerate(contents):
        place = places[ordinal] if places else (ordinal, offset)
        head = b"\x12" + varint(place[0]) + varint(place[1]) + varint(len(content))
        section = raw_section(content)
        frame = SYNC + head + check(4, begin, head) + section + check(4, section)
        frame += check(8, begin, head, section, content)
        index += varint(len(frame)) + varint(len(content))
        part += frame
        offset += len(content)
    block = END + index + begin + check(8, *contents)
    block += check(4, begin, block)
    part += block + len(block).to_bytes(4, "little")
    return part + (len(part) + 12).to_bytes(8, "little") + TRAILER


def identity(model: ExactModel, digest: bytes) -> bytes:
    """Return the model identity of a header."""
    return bytes([1, PRECISION]) + digest[:8] + model.vocabulary_digest()[:2]


def write_lane(model: ExactModel, symbols: Sequence[int], slot_check: int) -> bytes:
    """Return the lane of a slot without a memory."""
    network = Network(model)
    escapes = len(model.symbols) - model.vocab
    intervals = []
    for before, symbol in zip([None, *symbols], symbols, strict=False):
        starts = interval_starts(network.scores(before), escapes, model.exp2)
        intervals.append((starts[symbol], starts[symbol + 1] - starts[symbol]))
    return _lane(intervals, slot_check)


def write_lanes(
    memory: Memory, slots: Sequence[Sequence[int]], slot_checks: Sequence[int], claimed: bool = True
) -> list[bytes]:
    """Return the lanes of a frame's model slots with a memory, which learns from them.

    Claimed symbols are coded by their claims, as a writer must; if `claimed` is false, by what they have beside them.
    """
    intervals: list[list[tuple[int, int]]] = [[] for _ in slots]

    def choose(slot: int, row: Row) -> int:
        symbol = slots[slot][len(intervals[slot])]
        flagged = [flag.symbol for flag in row.flags]
        number = flagged.index(symbol) if claimed and symbol in flagged else len(flagged) + symbol
        intervals[slot].append((row.starts[number], row.starts[number + 1] - row.starts[number]))
        return number

    memory.frame([len(symbols) for symbols in slots], choose)
    return [_lane(coded, slot_check) for coded, slot_check in zip(intervals, slot_checks, strict=True)]


def _lane(intervals: Sequence[tuple[int, int]], slot_check: int) -> bytes:
    """Return the lane of a slot whose symbols have these starts and frequencies (EXACT.md section 6, writing)."""
    state = (1 << 8) + slot_check
    words: list[int] = []
    for start, frequency in reversed(intervals):
        if state >> (64 - PRECISION) >= frequency:
            words.append(state & (2**32 - 1))
            state >>= 32
        state = ((state // frequency) << PRECISION) + state % frequency + start
    lane = state.to_bytes((state.bit_length() + 7) // 8, "little")
    return lane + b"".join(word.to_bytes(4, "little") for word in reversed(words))


def changed_model(data: bytes, changes: Mapping[str, Any]) -> bytes:
    """Return an exact model file with other metadata; keys are paths with slashes, like linears/head/k1."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    metadata = json.loads(header["__metadata__"]["speccompact"])
    for key, value in changes.items():
        *path, last = key.split("/")
        place = metadata
        for step in path:
            place = place[step]
        place[last] = value
    header["__metadata__"]["speccompact"] = compact_json(metadata)
    text = compact_json(header).encode("ascii")
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text + data[8 + size :]


def changed_tensor(data: bytes, name: str, offset: int, entries: bytes) -> bytes:
    """Return an exact model file with some bytes of a tensor replaced, from `offset` within it."""
    size = int.from_bytes(data[:8], "little")
    start = 8 + size + json.loads(data[8 : 8 + size])[name]["data_offsets"][0] + offset
    return data[:start] + entries + data[start + len(entries) :]
