"""A model that is none: the codec's interface at a byte for each word or character, fast and without torch.

It beats zstandard on texts made by `prose`, loses on everything else, and counts what it is asked.
"""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from speccompact.errors import DamagedError, ModelMissingError
from speccompact.speculative.effort import Effort
from speccompact.streams.engine import CodedSlot, Engine
from speccompact.text.vocabulary import Vocabulary

_WORD_LINES = (
    "about above after again against because before being between both during each further having himself itself "
    "other ourselves should some such than that their themselves then there these they this those through under "
    "until very what when where which while whom with would your yourself archive compressor language prediction "
    "surprise entropy message transcript ticket document sentence paragraph chapter knowledge question answer"
)
WORDS = _WORD_LINES.split()

_ESCAPED = 255  # tokens of a FakeTarget; escapes follow

Symbols = npt.NDArray[np.int32]


def prose(size: int, seed: int = 0) -> bytes:
    """Return `size` bytes of WORDS in lines of eight; the same for the same seed."""
    words = random.Random(seed).choices(WORDS, k=size // 4 + 1)
    lines = (" ".join(words[at : at + 8]) for at in range(0, len(words), 8))
    return "\n".join(lines).encode()[:size].ljust(size, b"\n")


@dataclass(frozen=True)
class FakeSlot:
    """Serves as encoded and as decoded slot."""

    payload: bytes = b""
    bits: float = 0.0
    symbols: Symbols = field(default_factory=lambda: np.zeros(0, np.int32))
    check: int = 0
    passes: int = 0


class FakeTarget:
    """ASCII characters are tokens, and WORDS with what follows them; NUL and all bytes from 128 on are escapes."""

    positions = 1 << 14

    def __init__(self, name: str = "fake") -> None:
        self.name = name
        self.digest = (name.encode() + bytes(32))[:32]
        tokens = [bytes([value]) for value in range(1, 128)]
        self.vocabulary = Vocabulary(tokens + [word.encode() + end for word in WORDS for end in (b" ", b"\n")])
        self.vocabulary_digest = self.vocabulary.digest()


class FakeTokenizer:
    """Words where they match, else one symbol for each byte."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._tokens = {vocabulary.token_bytes(token): token for token in range(127, vocabulary.size)}
        self._pattern = re.compile(b"(" + b"|".join(map(re.escape, self._tokens)) + b")")

    def encode(self, data: bytes) -> Symbols:
        parts = [
            np.array([self._tokens[piece]], np.int32) if index % 2 else self.vocabulary.spell_bytes(piece)
            for index, piece in enumerate(self._pattern.split(data))
        ]
        return np.concatenate(parts)


class FakeMemory:
    """Counts the symbols that its group has seen."""

    def __init__(self, table_bits: int) -> None:
        self.table_bits = table_bits
        self.seen = 0


class FakeCodec:
    """A lane is the check, with a memory what it has seen, then a byte for each token, two for each escape.

    Attributes:
        passes: as `SlotCodec` counts: one for each slot encoded, all its positions at once, and each symbol decoded.
        encoded, decoded: slots asked for so far.
        calls: how often `try_encode` or `decode` was called.
        given_up: how often `try_encode` exceeded its budget.
    """

    def __init__(self, target: FakeTarget) -> None:
        self.target = target
        self.passes = 0
        self.calls = 0
        self.given_up = 0
        self.encoded = 0
        self.decoded = 0

    @property
    def effort(self) -> Effort:
        return Effort(self.passes)

    def part(self, parts: int) -> "FakeCodec":
        return self

    def begin_group(self, table_bits: int) -> FakeMemory:
        return FakeMemory(table_bits)

    def try_encode(
        self,
        slots: Sequence[Symbols],
        checks: Sequence[int],
        budget: int | None,
        tick: Callable[[int], None] | None = None,
        memory: FakeMemory | None = None,
    ) -> list[FakeSlot] | None:
        self.calls += 1
        self.encoded += len(slots)
        self.passes += len(slots)
        lanes = []
        for symbols, check in zip(slots, checks, strict=True):
            assert len(symbols) <= self.target.positions
            lane = bytearray([check])
            if memory is not None:
                lane += memory.seen.to_bytes(4, "little")
            for symbol in symbols.tolist():
                lane += bytes([symbol]) if symbol < _ESCAPED else bytes([_ESCAPED, symbol - _ESCAPED])
            lanes.append(FakeSlot(bytes(lane), bits=8.0 * (len(lane) - 1)))
            if tick:
                tick(len(symbols))
        if memory is not None:
            memory.seen += sum(map(len, slots))
        if budget is not None and sum(len(lane.payload) for lane in lanes) > budget:
            self.given_up += 1
            return None
        return lanes

    def decode(
        self,
        slots: Sequence[CodedSlot],
        tick: Callable[[int], None] | None = None,
        memory: FakeMemory | None = None,
    ) -> list[FakeSlot | DamagedError]:
        self.calls += 1
        self.decoded += len(slots)
        self.passes += sum(slot.tokens for slot in slots)
        found: list[FakeSlot | DamagedError] = []
        for slot in slots:
            lane = iter(slot.payload)
            check = next(lane, 0)
            if memory is not None and [next(lane, -1) for _ in range(4)] != [*memory.seen.to_bytes(4, "little")]:
                found.append(DamagedError("the lane is of another memory"))
                continue
            symbols = [byte if byte < _ESCAPED else _ESCAPED + next(lane, _ESCAPED) for byte in lane]
            if len(symbols) != slot.tokens or max(symbols) >= self.target.vocabulary.symbols:
                found.append(DamagedError("the lane is damaged"))
                continue
            found.append(FakeSlot(symbols=np.array(symbols, np.int32), check=check))
            if tick:
                tick(slot.tokens)
        if memory is not None:
            memory.seen += sum(slot.tokens for slot in slots)
        return found


class FakeEngines:
    """One fake model, by any name; the digest must be its own.

    Attributes:
        codec: its codec, with the counts.
        loads: how often the model was asked for.
    """

    def __init__(self, name: str = "fake") -> None:
        self.codec = FakeCodec(FakeTarget(name))
        self.engine = Engine(self.codec, FakeTokenizer(self.codec.target.vocabulary))
        self.loads = 0

    def named(self, model: str) -> Engine:
        self.loads += 1
        return self.engine

    def for_digest(self, digest: bytes) -> Engine:
        self.loads += 1
        if not self.codec.target.digest.startswith(digest):
            raise ModelMissingError(f"model {digest.hex()} is missing")
        return self.engine
