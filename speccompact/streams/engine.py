"""What the streams need of a model: one small protocol, so that a test or a service can bring its own.

The real codec lives in `speccompact.codec`; it is imported on the first slot that needs a model, not before: binary
data, inspection and archives without model slots never load torch.
"""

import functools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from speccompact.errors import DamagedError
from speccompact.options import Options

DEFAULT_MODEL = "smollm2-135m"

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
    def payload(self) -> bytes: ...

    @property
    def bits(self) -> float: ...


class DecodedSlot(Protocol):
    """What a lane held: (n,) symbols, the slot check of its start state, target passes spent."""

    @property
    def symbols(self) -> Symbols: ...

    @property
    def check(self) -> int: ...


class SlotVocabulary(Protocol):
    """Bytes of every symbol."""

    @property
    def lengths(self) -> npt.NDArray[np.int32]: ...

    def join(self, symbols: Symbols) -> bytes: ...


class SlotTarget(Protocol):
    """The identity of a target; digests are 32 bytes."""

    @property
    def name(self) -> str: ...

    @property
    def digest(self) -> bytes: ...

    @property
    def vocabulary_digest(self) -> bytes: ...

    @property
    def vocabulary(self) -> SlotVocabulary: ...


class SlotCodec(Protocol):
    """Symbols of slots to lanes and back. One call at a time; a slot's lane does not depend on the other slots."""

    @property
    def target(self) -> SlotTarget: ...

    @property
    def passes(self) -> int: ...

    def encode(
        self, slots: Sequence[Symbols], checks: Sequence[int], tick: Tick | None = None
    ) -> Sequence[EncodedSlot]: ...

    def decode(
        self, slots: Sequence[CodedSlot], tick: Tick | None = None
    ) -> Sequence[DecodedSlot | DamagedError]: ...


class TextTokenizer(Protocol):
    """Bytes to symbols, lossless for every byte string."""

    def encode(self, data: bytes) -> Symbols: ...


@dataclass(frozen=True)
class Engine:
    """A loaded model, ready to code slots. `lock` is held while the codec works: it has state."""

    codec: SlotCodec
    tokenizer: TextTokenizer
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)


class Engines(Protocol):
    """Where models come from."""

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
        return _load(model, self.options)

    def for_digest(self, digest: bytes) -> Engine:
        return _load(digest, self.options)


@functools.lru_cache(maxsize=2)
def _load(model: str | bytes, options: Options) -> Engine:
    from speccompact.codec import Codec
    from speccompact.modelstore.loading import load_target

    target, tokenizer = load_target(model, options)
    return Engine(Codec(target, options), tokenizer)
