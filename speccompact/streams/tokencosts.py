"""What each token of a text costs in an archive: engines that remember the intervals of the symbols that they code.

The costs are those of the archive that is being written, not a second opinion: the same slots, the same memory, the
same passes.
"""

import codecs
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from speccompact.errors import DamagedError
from speccompact.params import PRECISION
from speccompact.speculative.effort import Effort
from speccompact.streams.engine import (
    CodedSlot,
    DecodedSlot,
    EncodedSlot,
    Engine,
    Engines,
    SlotCodec,
    SlotMemory,
    SlotTarget,
    SlotVocabulary,
    Symbols,
    Tick,
)

Bits = npt.NDArray[np.float64]


@runtime_checkable
class _WithFrequencies(Protocol):
    """A lane whose codec tells how wide the intervals of its symbols are."""

    @property
    def frequencies(self) -> npt.NDArray[np.int64]: ...


@dataclass(frozen=True, slots=True)
class CostedSlot:
    """A slot that the model has coded, whether it was kept or zstandard was smaller.

    Attributes:
        content: UTF-8 bytes of its tokens, joined.
        lengths: (n,) bytes of each token.
        bits: (n,) what each costs.
    """

    content: bytes
    lengths: npt.NDArray[np.int64]
    bits: Bits


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text, for people: a token, or a few that share a character.

    Attributes:
        text: its characters.
        bits: what it costs; None where the model has not coded it.
    """

    text: str
    bits: float | None


class CostedEngines:
    """Engines that remember what the symbols cost that are encoded with them. For one run at a time.

    Attributes:
        slots: coded so far, in the order of the text.
    """

    def __init__(self, engines: Engines) -> None:
        """Bind the engines that do the work."""
        self._engines = engines
        self.slots: list[CostedSlot] = []

    def named(self, model: str) -> Engine:
        """See `Engines`."""
        engine = self._engines.named(model)
        return replace(engine, codec=_CostedCodec(engine.codec, self.slots))

    def for_digest(self, digest: bytes) -> Engine:
        """See `Engines`."""
        return self._engines.for_digest(digest)


class _CostedCodec:
    """A codec, and an ear at what it encodes."""

    def __init__(self, codec: SlotCodec, slots: list[CostedSlot]) -> None:
        self._codec, self._slots = codec, slots

    @property
    def target(self) -> SlotTarget:
        return self._codec.target

    @property
    def passes(self) -> int:
        return self._codec.passes

    @property
    def effort(self) -> Effort:
        return self._codec.effort

    def part(self, parts: int) -> SlotCodec:
        return self._codec.part(parts)

    def begin_group(self, table_bits: int) -> SlotMemory:
        return self._codec.begin_group(table_bits)

    def try_encode(
        self,
        slots: Sequence[Symbols],
        checks: Sequence[int],
        budget: int | None,
        tick: Tick | None = None,
        memory: SlotMemory | None = None,
    ) -> Sequence[EncodedSlot] | None:
        lanes = self._codec.try_encode(slots, checks, budget, tick, memory)
        for symbols, lane in zip(slots, lanes or (), strict=False):
            if isinstance(lane, _WithFrequencies) and len(lane.frequencies) == len(symbols):
                self._slots.append(_costed(self.target.vocabulary, symbols, lane.frequencies))
        return lanes

    def decode(
        self, slots: Sequence[CodedSlot], tick: Tick | None = None, memory: SlotMemory | None = None
    ) -> Sequence[DecodedSlot | DamagedError]:
        return self._codec.decode(slots, tick, memory)


def _costed(vocabulary: SlotVocabulary, symbols: Symbols, frequencies: npt.NDArray[np.int64]) -> CostedSlot:
    bits = PRECISION - np.log2(frequencies)
    return CostedSlot(vocabulary.join(symbols), np.asarray(vocabulary.lengths)[symbols], bits)


def pieces(content: bytes, slots: Sequence[CostedSlot]) -> list[Piece]:
    """Return a text in pieces that join to it, each with what it costs.

    Tokens that end within a character are one piece with those that end it; bytes that are no UTF-8 are shown as
    U+FFFD. What no slot holds (zstandard has coded it, or the model has read it in another charset) has no bits.

    Args:
        content: the text.
        slots: as `CostedEngines` has them.
    """
    found: list[Piece] = []
    at = 0
    for slot in slots:
        start = content.find(slot.content, at)
        if start < 0:
            continue
        if start > at:
            found.append(Piece(content[at:start].decode("utf-8", "replace"), None))
        found += _slot_pieces(slot)
        at = start + len(slot.content)
    if at < len(content):
        found.append(Piece(content[at:].decode("utf-8", "replace"), None))
    return found


def _slot_pieces(slot: CostedSlot) -> list[Piece]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    found: list[Piece] = []
    at, bits = 0, 0.0
    for length, cost in zip(slot.lengths.tolist(), slot.bits.tolist(), strict=True):
        text = decoder.decode(slot.content[at : at + length])
        at, bits = at + length, bits + cost
        if text:
            found.append(Piece(text, bits))
            bits = 0.0
    if rest := decoder.decode(b"", final=True):
        found.append(Piece(rest, bits))
    return found
