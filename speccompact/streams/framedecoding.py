"""Frames to content, with the engine that their part names and the memory that their group has so far."""

import functools
from collections.abc import Callable

from speccompact.container.format import ModelIdentity
from speccompact.container.frames import Kind
from speccompact.container.framing import Frame
from speccompact.container.limits import Limits
from speccompact.container.locating import FrameMap, frame_at, head_at
from speccompact.container.source import Source
from speccompact.errors import DamagedError, FormatError, ModelDamagedError, UnsupportedError
from speccompact.params import EXACT_VERSION, MAX_TABLE_BITS, MEMORY_VERSION, MIN_TABLE_BITS, PRECISION
from speccompact.speculative.effort import Effort
from speccompact.streams.engine import Engine, Engines, SlotMemory, Tick
from speccompact.streams.framecodec import decode_frame

_FRAME_BYTES = 2048
_SLOT_BYTES = 256
"""What the objects of a frame and of a slot take in memory, at most about."""


def held_bytes(frame: Frame, data: bytes) -> int:
    """Return what a frame takes in memory with its compressed bytes: small ones take far more than these."""
    return len(data) + _FRAME_BYTES + _SLOT_BYTES * len(frame.head.slots)


class FrameDecoder:
    """Turns frames into content, with the engine that their part names.

    Frames of a group must come in order, from its first one on; frames without model slots may be left out. A group
    never goes on from one part into another.
    """

    def __init__(self, engines: Engines) -> None:
        self._find = functools.cache(functools.partial(_find_engine, engines))
        self._memory: SlotMemory | None = None
        self._part = -1  # of the last frame with model slots

    def decode(self, frame: Frame, data: bytes, tick: Tick | None = None) -> tuple[bytes, Effort]:
        """Return the content of a frame, whose frame check the caller compares, and what it has cost.

        Args:
            data: the compressed bytes of the frame.

        Raises:
            FormatError: it cannot be decoded; the message names the frame.
            ModelError: its model is missing or damaged.
        """
        payload = frame.split_payload(data)
        memory = functools.partial(self._begin, frame) if frame.header.memory else None
        try:
            return decode_frame(frame.head, payload, lambda: self._find(frame.header.model), tick, memory)
        except BaseException as error:
            if frame.head.count(Kind.MODEL):
                self._memory = None
            if isinstance(error, FormatError):
                raise type(error)(f"{frame.name}, {error}") from error
            raise

    def forget(self) -> None:
        """Note that a frame with model slots is left out."""
        self._memory = None

    def restart(self) -> None:
        """Begin anew: the next frame is the first of a group."""
        self._memory, self._part = None, -1

    def _begin(self, frame: Frame) -> SlotMemory:
        """Return the memory that a frame with model slots begins with."""
        identity = frame.header.memory
        assert identity is not None
        if identity.version != MEMORY_VERSION:
            raise UnsupportedError(f"memory version is {identity.version}; this release reads {MEMORY_VERSION}")
        if not MIN_TABLE_BITS <= identity.table_bits <= MAX_TABLE_BITS:
            raise UnsupportedError(
                f"the memory has 2**{identity.table_bits} entries; {MIN_TABLE_BITS} to {MAX_TABLE_BITS} is possible"
            )
        first = frame.part != self._part
        if first or not frame.head.goes_on:
            self._memory = None  # before the next one takes its room
        self._part = frame.part
        if not frame.head.goes_on:
            self._memory = self._find(frame.header.model).codec.begin_group(identity.table_bits)
        elif first:
            raise DamagedError("it goes on, but before it there is no frame with model slots in its part")
        elif self._memory is None:
            raise DamagedError("it goes on from a frame that could not be decoded")
        return self._memory


class SeekingDecoder:
    """Decodes any frame of a seekable archive: from the start of its group on, or from where the last one has led."""

    def __init__(self, source: Source, limits: Limits, frames: FrameMap, engines: Engines) -> None:
        self._source, self._limits, self._frames = source, limits, frames
        self._decoder = FrameDecoder(engines)
        self._last = -1  # the frame with model slots that was decoded last: the memory stands at its end

    def decode(self, number: int, ticker: Callable[[Frame], Tick] | None = None) -> tuple[Frame, bytes, Effort]:
        """Return a frame, its content, checked, and what all frames have cost that had to be decoded.

        Args:
            number: of the frame.
            ticker: gives for each frame that is decoded what is called with its tokens as the model gets through them.

        Raises:
            FormatError: it, or one before it in its group, is damaged.
            ModelError: its model is missing or damaged.
        """
        frame, data = self._frame(number)
        effort = Effort()
        needed, stands = self._needed(number, frame)
        if frame.head.goes_on and not stands:
            self._decoder.restart()
        for before in needed:
            effort += self._decode(before, *self._frame(before), ticker)[1]
        content, own = self._decode(number, frame, data, ticker)
        return frame, content, effort + own

    def _needed(self, number: int, frame: Frame) -> tuple[list[int], bool]:
        """Return the frames before one that have to be decoded first, in order, and whether they follow the memory."""
        needed: list[int] = []
        goes_on, part = frame.head.goes_on, frame.part
        while goes_on and number:
            number -= 1
            if number == self._last:
                return needed[::-1], True
            before = head_at(self._source, self._limits, self._frames, number)
            if before.part != part:
                break
            if before.head.count(Kind.MODEL):
                needed.append(number)
                goes_on = before.head.goes_on
        return needed[::-1], False

    def _frame(self, number: int) -> tuple[Frame, bytes]:
        return frame_at(self._source, self._limits, self._frames, number)

    def _decode(
        self, number: int, frame: Frame, data: bytes, ticker: Callable[[Frame], Tick] | None
    ) -> tuple[bytes, Effort]:
        last, self._last = self._last, -1
        content, effort = self._decoder.decode(frame, data, ticker(frame) if ticker else None)
        frame.verify(data, content)
        self._last = number if frame.head.count(Kind.MODEL) else last
        return content, effort


def _find_engine(engines: Engines, model: ModelIdentity | None) -> Engine:
    if model is None:
        raise UnsupportedError("a slot needs a model, but the header names none")
    if model.exact_version != EXACT_VERSION:
        raise UnsupportedError(f"exact version is {model.exact_version}; this release reads {EXACT_VERSION}")
    if model.precision != PRECISION:
        raise UnsupportedError(f"precision is {model.precision}; this release reads {PRECISION}")
    engine = engines.for_digest(model.digest)
    target = engine.codec.target
    if not target.digest.startswith(model.digest) or not target.vocabulary_digest.startswith(model.vocabulary_digest):
        raise ModelDamagedError(
            f'model "{target.name}" is not the one that the archive names (digest {model.digest.hex()}, vocabulary '
            f"{model.vocabulary_digest.hex()})"
        )
    return engine
