"""Content to archive, frame by frame, in bounded memory: the window that plans need, and one coded frame."""

import errno
import functools
from collections.abc import Callable
from dataclasses import replace
from typing import BinaryIO, cast

from speccompact.container.format import (
    FILE_ID_BYTES,
    MODEL_DIGEST_BYTES,
    VOCABULARY_DIGEST_BYTES,
    FileHeader,
    MemoryIdentity,
    ModelIdentity,
    sha_prefix,
)
from speccompact.container.frames import Kind
from speccompact.container.framing import pack_single
from speccompact.container.seekable import PartWriter
from speccompact.container.writing import write_all
from speccompact.errors import ModelError
from speccompact.params import (
    EXACT_VERSION,
    MEMORY_VERSION,
    MIN_SLOT_TOKENS,
    MIN_TABLE_BITS,
    PRECISION,
    CodecParams,
    level_params,
)
from speccompact.streams.engine import Engine, Engines, SlotMemory, SlotVocabulary, Symbols
from speccompact.streams.framecodec import BuiltFrame, encode_frame
from speccompact.streams.summary import Progress, Summary, Tally
from speccompact.text.slots import FRAME_WINDOW, FramePlan, plan_frame
from speccompact.text.tokenizer import Tokenizer

_ENTRIES_PER_SYMBOL = 16
"""The memory has an entry for each context of a position, at most."""


class StreamCompressor:
    """One run. Whether the archive is a single frame is known once the first frame is planned and the content ended.

    A part whose frames need no model says so in its header. When the first frame comes that needs one, the part is
    closed and another begun: concatenation is part of the format, and a header cannot be changed on a pipe.
    """

    def __init__(
        self,
        target: BinaryIO,
        level: int,
        params: CodecParams,
        model: str,
        engines: Engines,
        progress: Progress | None,
    ) -> None:
        self._target = target
        self._level = level
        self._params = params
        self._engine = functools.cache(lambda: engines.named(model))
        self._progress = progress or (lambda done: None)
        self._part: PartWriter | None = None
        self._tally = Tally()
        self._group = _Group(params, self._engine)

    def run(self, source: BinaryIO) -> Summary:
        """Compress `source` to its end."""
        tokenizer = cast(Tokenizer, _LazyTokenizer(self._engine))  # a stand-in with what planning uses
        buffer, ended = b"", False
        while True:
            buffer, ended = _fill(source, buffer, ended)
            plan = self._plan(buffer, ended, tokenizer)
            content, buffer = buffer[: plan.consumed], buffer[plan.consumed :]
            symbols = sum(len(slot.symbols) for slot in plan.slots if slot.symbols is not None)
            last = ended and not buffer
            if self._part is None:
                self._group.size(symbols if last else None)
            tick = self._ticker(len(content), symbols)
            built = encode_frame(content, plan.slots, self._engine, tick, self._group.memory)
            self._write(self._group.add(built), content, last)
            self._progress(self._tally.content_bytes)
            if last:
                return self._tally.summary()

    def _plan(self, buffer: bytes, ended: bool, tokenizer: Tokenizer) -> FramePlan:
        """Plan a frame, with shorter slots from the first text on if the model holds fewer tokens than asked for."""
        wanted = self._params.slot_tokens
        plan = plan_frame(
            buffer,
            final=ended,
            tokenizer=tokenizer,
            slot_tokens=wanted,
            frame_slots=self._params.frame_slots,
        )
        if all(slot.symbols is None for slot in plan.slots):
            return plan
        target = self._engine().codec.target
        if wanted <= target.positions:
            return plan
        if target.positions < MIN_SLOT_TOKENS:
            raise ModelError(f"{target.name} holds {target.positions} tokens; slots have {MIN_SLOT_TOKENS} or more")
        self._params = level_params(self._level, target.positions, self._params.group_frames)
        return self._plan(buffer, ended, tokenizer)

    def _ticker(self, size: int, symbols: int) -> Callable[[int], None]:
        """Return a callback that turns tokens done into content bytes done, within one frame."""
        before, done = self._tally.content_bytes, 0

        def tick(tokens: int) -> None:
            nonlocal done
            done = min(done + tokens, symbols)
            self._progress(before + size * done // max(symbols, 1))

        return tick

    def _write(self, built: BuiltFrame, content: bytes, last: bool) -> None:
        needs_model = bool(built.head.count(Kind.MODEL))
        if self._part is not None and needs_model and self._part.header.model is None:
            self._close_part()
        self._tally.add_frame(built.head, built.passes, built.bits)
        self._tally.add_tried(built.tried_bits, built.tried_bytes)
        if self._part is None and last:
            data = pack_single(self._header(needs_model, None), built.head, built.payload, content)
            write_all(self._target, data)
            self._tally.add_part(len(data))
            return
        if self._part is None:
            header = self._header(needs_model, sha_prefix(FILE_ID_BYTES, content))
            self._part = PartWriter(self._target, header)
        self._part.frame(built.head, built.payload, content)
        if last:
            self._close_part()

    def _close_part(self) -> None:
        assert self._part is not None
        self._part.close()
        self._tally.add_part(self._part.written)
        self._part = None

    def _header(self, needs_model: bool, file_id: bytes | None) -> FileHeader:
        model = None
        if needs_model:
            target = self._engine().codec.target
            model = ModelIdentity(
                EXACT_VERSION,
                PRECISION,
                target.digest[:MODEL_DIGEST_BYTES],
                target.vocabulary_digest[:VOCABULARY_DIGEST_BYTES],
            )
        return FileHeader(self._level, model, file_id, self._group.identity if needs_model else None)


class _Group:
    """The frames that share a memory, as they come.

    Attributes:
        identity: of the memory, for the header.
    """

    def __init__(self, params: CodecParams, engine: Callable[[], Engine]) -> None:
        self._frames, self._table_bits, self._engine = params.group_frames, params.table_bits, engine
        self._memory: SlotMemory | None = None
        self._count = 0
        self.identity: MemoryIdentity | None = None

    @property
    def memory(self) -> Callable[[], SlotMemory] | None:
        """Gives the memory that the next frame begins with; None where slots share nothing."""
        return self._obtain if self._frames else None

    def size(self, symbols: int | None) -> None:
        """Choose the size of the table before a part begins: for the symbols that are all there are, or for any number.

        A new part begins a new group.
        """
        self._memory, self._count = None, 0
        if self._frames:
            enough = self._table_bits if symbols is None else (_ENTRIES_PER_SYMBOL * symbols).bit_length()
            self.identity = MemoryIdentity(MEMORY_VERSION, max(MIN_TABLE_BITS, min(self._table_bits, enough)))

    def add(self, built: BuiltFrame) -> BuiltFrame:
        """Return the frame as a member of its group, and end the group if it is full or the frame has spoiled it."""
        if self._memory is None:
            return built
        if not built.head.count(Kind.MODEL):
            if built.asked_model:  # a reader will not have what the model has read in vain
                self._memory, self._count = None, 0
            return built
        goes_on, self._count = self._count > 0, self._count + 1
        if self._count == self._frames:
            self._memory, self._count = None, 0
        return replace(built, head=replace(built.head, goes_on=goes_on))

    def _obtain(self) -> SlotMemory:
        if self._memory is None:
            assert self.identity is not None
            self._memory = self._engine().codec.begin_group(self.identity.table_bits)
        return self._memory


class _LazyTokenizer:
    """Loads the engine at the first text, so that other data never does."""

    def __init__(self, engine: Callable[[], Engine]) -> None:
        self._engine = engine

    @property
    def vocabulary(self) -> SlotVocabulary:
        return self._engine().tokenizer.vocabulary

    def encode(self, data: bytes) -> Symbols:
        return self._engine().tokenizer.encode(data)


def _fill(source: BinaryIO, buffer: bytes, ended: bool) -> tuple[bytes, bool]:
    """Read until the buffer holds more than a window (so that its end is known to come later) or the source ends."""
    parts, size = [buffer], len(buffer)
    while not ended and size <= FRAME_WINDOW:
        chunk = cast(bytes | None, source.read(FRAME_WINDOW + 1 - size))
        if chunk is None:
            raise BlockingIOError(errno.EAGAIN, "the input is in non-blocking mode and has nothing to read yet")
        parts.append(chunk)
        size += len(chunk)
        ended = not chunk
    return b"".join(parts), ended
