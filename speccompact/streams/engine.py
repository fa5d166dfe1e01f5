"""What the streams need of a model: one small protocol, so that a test or a service can bring its own.

The real codec lives in `speccompact.codec`; it is imported on the first slot that needs a model, not before: binary
data, inspection and archives without model slots never load torch.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from speccompact.errors import DamagedError
from speccompact.modelstore.store import locate
from speccompact.options import Options
from speccompact.speculative.effort import Effort

Symbols = npt.NDArray[np.int32]
Tick = Callable[[int], None]
"""Called with the number of tokens that were finished since the last call."""


@dataclass(frozen=True, slots=True)
class CodedSlot:
    """A model slot as read from a frame: its lane and how many symbols to take from it."""

    payload: bytes
    tokens: int


class EncodedSlot(Protocol):
    """A model slot as written: the lane and the ideal size of its symbols in bits."""

    @property
    def payload(self) -> bytes:
        """Bytes of the lane."""
        ...

    @property
    def bits(self) -> float:
        """Sum of -log2 p over the symbols."""
        ...


class DecodedSlot(Protocol):
    """What a lane held."""

    @property
    def symbols(self) -> Symbols:
        """(n,) int32, n as asked for."""
        ...

    @property
    def check(self) -> int:
        """The slot check (8 bits) that the lane's start state carried."""
        ...


class SlotVocabulary(Protocol):
    """Bytes of every symbol."""

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """(symbols,) bytes of every symbol."""
        ...

    def join(self, symbols: Symbols) -> bytes:
        """Return the bytes that (n,) symbols spell."""
        ...


class SlotTarget(Protocol):
    """The identity of a target; digests are 32 bytes."""

    @property
    def name(self) -> str:
        """Name for messages."""
        ...

    @property
    def digest(self) -> bytes:
        """SHA-256 of the exact model file."""
        ...

    @property
    def vocabulary_digest(self) -> bytes:
        """SHA-256 of the canonical token bytes."""
        ...

    @property
    def vocabulary(self) -> SlotVocabulary:
        """Bytes of the symbols."""
        ...

    @property
    def positions(self) -> int:
        """Longest slot (tokens) that it can hold."""
        ...


SlotMemory = Any
"""What the slots of a group share: opaque here, made by a codec and handed back to it, frame after frame."""


class SlotCodec(Protocol):
    """Symbols of slots to lanes and back. One call at a time; a lane depends on other slots through a memory only."""

    @property
    def target(self) -> SlotTarget:
        """The model."""
        ...

    @property
    def passes(self) -> int:
        """Target passes since the codec was made, counted once for each slot that took part."""
        ...

    @property
    def effort(self) -> Effort:
        """What those passes have cost, and what came of drafts."""
        ...

    def part(self, parts: int) -> "SlotCodec":
        """Return another codec of the same model, for one of so many threads that work at once.

        What both share (the model, a drafter) must bear that.
        """
        ...

    def begin_group(self, table_bits: int) -> SlotMemory:
        """Return an empty memory whose table has 2**table_bits entries."""
        ...

    def try_encode(
        self,
        slots: Sequence[Symbols],
        checks: Sequence[int],
        budget: int | None,
        tick: Tick | None = None,
        memory: SlotMemory | None = None,
    ) -> Sequence[EncodedSlot] | None:
        """Return a lane for every slot, each with its check (8 bits) in the start state. A memory goes on from them.

        None is returned when it becomes clear on the way that the lanes will have more bytes than the budget.
        """
        ...

    def decode(
        self, slots: Sequence[CodedSlot], tick: Tick | None = None, memory: SlotMemory | None = None
    ) -> Sequence[DecodedSlot | DamagedError]:
        """Return what every lane holds, or the error that stopped it; with a memory, one error spoils all slots."""
        ...


class TextTokenizer(Protocol):
    """Bytes to symbols of a vocabulary, lossless for every byte string."""

    @property
    def vocabulary(self) -> SlotVocabulary:
        """Bytes of the symbols."""
        ...

    def encode(self, data: bytes) -> Symbols:
        """Return (n,) symbols that join to `data`."""
        ...


@dataclass(frozen=True)
class Engine:
    """A loaded model, ready to code slots. `lock` is held while the codec works: it has state."""

    codec: SlotCodec
    tokenizer: TextTokenizer
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)


class Engines(Protocol):
    """Where models come from. Several threads may ask at once, where groups are decoded side by side."""

    def named(self, model: str) -> Engine:
        """Return the engine of a registered name or a path. Raises ModelError where there is none."""
        ...

    def for_digest(self, digest: bytes) -> Engine:
        """Return the engine whose digest starts with these 8 bytes. Raises ModelMissingError where there is none."""
        ...


@dataclass(frozen=True)
class StoredEngines:
    """Engines from the user's model store; the last two loaded stay in memory for the process."""

    options: Options

    def named(self, model: str) -> Engine:
        """Return the engine of a registered name or a path."""
        return _obtain(self.options, model)

    def for_digest(self, digest: bytes) -> Engine:
        """Return the engine whose digest starts with these 8 bytes."""
        return _obtain(self.options, digest)


class SharedEngines:
    """Engines of which several are used at once: each with its own codec and a part of the threads.

    Args:
        engines: where the models come from.
        parts: how many are used at once.
    """

    def __init__(self, engines: Engines, parts: int) -> None:
        self._engines, self._parts = engines, parts

    def named(self, model: str) -> Engine:
        """See `Engines`."""
        return self._part_of(self._engines.named(model))

    def for_digest(self, digest: bytes) -> Engine:
        """See `Engines`."""
        return self._part_of(self._engines.for_digest(digest))

    def _part_of(self, engine: Engine) -> Engine:
        return replace(engine, codec=engine.codec.part(self._parts), lock=threading.Lock())


_recent: deque[tuple[Options, str | bytes, Engine]] = deque(maxlen=2)
_loading = threading.Lock()


def _obtain(options: Options, model: str | bytes) -> Engine:
    """Return a loaded engine, under whatever name it was loaded, or load it."""
    with _loading:
        for known_options, name, engine in _recent:
            found = isinstance(model, bytes) and engine.codec.target.digest.startswith(model)
            if replace(known_options, groups=options.groups) == options and (found or name == model):
                return engine
        locate(model)  # a name that is wrong is told before what takes seconds to import
        from speccompact.codec import Codec
        from speccompact.modelstore.loading import load_target

        target, tokenizer = load_target(model, options)
        engine = Engine(Codec(target, options), tokenizer)
        _recent.append((options, model, engine))
        return engine
