"""Slots of symbols, drafters and codecs on the tiny model."""

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from speccompact.codec import Codec
from speccompact.memory.group import GroupMemory
from speccompact.options import Kernels, Options
from speccompact.slotbatch import EncodedSlot
from speccompact.speculative.drafter import Draft, Drafter, NoDrafter, Slot
from speccompact.speculative.drafting import Drafting
from speccompact.streams.engine import CodedSlot
from tests.tiny_model import babble, integers, tiny

Symbols = npt.NDArray[np.int32]

QUIET = Options(threads=1)
"""Slots of one kind each would wait for threads that a loaded machine does not have."""


@cache
def text_symbols(count: int, seed: int = 0) -> Symbols:
    """Return symbols of readable text."""
    return tiny(QUIET)[1].encode(babble(4 * count + 20, seed).encode())[:count]


@cache
def wild_symbols(count: int, seed: int = 0) -> Symbols:
    """Return symbols from everywhere, control tokens and escapes too."""
    source, symbols = integers(seed), tiny(QUIET)[0].vocabulary.symbols
    return np.array([next(source) % symbols for _ in range(count)], np.int32)


class PlainCodec(Codec):
    """A codec that never gives up."""

    def encode(
        self,
        slots: Sequence[Symbols],
        checks: Sequence[int],
        tick: Callable[[int], None] | None = None,
        memory: GroupMemory | None = None,
    ) -> list[EncodedSlot]:
        found = self.try_encode(slots, checks, None, tick, memory)
        assert found is not None
        return found


def codec(
    drafter: Drafter | None = None, *, kernels: Kernels = "auto", window: int = 0, threads: int = 1
) -> PlainCodec:
    """Return a codec that tries all that a drafter proposes."""
    options = Options(kernels=kernels, window=window, threads=threads)
    chosen = drafter or NoDrafter()
    return PlainCodec(tiny(Options(kernels=kernels, threads=1))[0], options, lambda: Drafting(chosen, "test"))


def encode(slots: Sequence[Symbols], coder: PlainCodec | None = None) -> list[bytes]:
    return [slot.payload for slot in (coder or codec()).encode(slots, [i % 256 for i in range(len(slots))])]


def coded(slots: Sequence[Symbols], lanes: Sequence[bytes]) -> list[CodedSlot]:
    return [CodedSlot(lane, len(symbols)) for symbols, lane in zip(slots, lanes, strict=True)]


def sure(symbols: Symbols) -> Draft:
    """Return a draft that claims to be right."""
    return Draft(symbols, np.ones(len(symbols), np.float32))


class Forgetful(NoDrafter):
    """What drafters of tests have in common: they learn nothing."""

    def propose(self, slots: Sequence[Slot], limits: Sequence[int]) -> list[Draft]:
        return [sure(symbols) for symbols in self.guess([slot.symbols for slot in slots], limits)]

    def guess(self, histories: Sequence[Symbols], limits: Sequence[int]) -> list[Symbols]:
        raise NotImplementedError


class RandomDrafter(Forgetful):
    """Proposes anything at all, escapes too, at any length."""

    def __init__(self, seed: int) -> None:
        self._source = integers(seed)
        self._symbols = tiny(QUIET)[0].vocabulary.symbols

    def guess(self, histories: Sequence[Symbols], limits: Sequence[int]) -> list[Symbols]:
        lengths = [min(next(self._source) % 9, limit) for limit in limits]
        return [np.array([next(self._source) % self._symbols for _ in range(n)], np.int32) for n in lengths]


class PerfectDrafter(Forgetful):
    """Knows the slots; proposes what follows, and where `wrong` is n, a mistake in every n-th proposal."""

    def __init__(self, slots: Sequence[Symbols], length: int, wrong: int = 0) -> None:
        self._slots, self._length, self._wrong = slots, length, wrong
        self._calls = 0

    def guess(self, histories: Sequence[Symbols], limits: Sequence[int]) -> list[Symbols]:
        drafts = []
        for history, limit in zip(histories, limits, strict=True):
            length = len(history) + limit + 1
            fitting = [s for s in self._slots if len(s) >= length and (s[: len(history)] == history).all()]
            slot = min(fitting, key=len)  # the limit tells the length of the slot, unless a memory sets it
            draft = slot[len(history) : len(history) + min(self._length, limit)].copy()
            self._calls += 1
            if self._wrong and len(draft) and self._calls % self._wrong == 0:
                draft[len(draft) // 2] ^= 1
            drafts.append(draft)
        return drafts


class Adversary(Forgetful):
    """Proposes, in turn, what cannot be and what is always wrong, at great length, and calls it certain."""

    def __init__(self, slots: Sequence[Symbols]) -> None:
        self._perfect = PerfectDrafter(slots, 1000)
        self._calls = 0

    def guess(self, histories: Sequence[Symbols], limits: Sequence[int]) -> list[Symbols]:
        self._calls += 1
        right = self._perfect.guess(histories, limits)
        match self._calls % 4:
            case 0:
                return [symbols ^ 1 for symbols in right]
            case 1:
                return [np.concatenate([symbols, np.full(300, 1 << 30, np.int32)]) for symbols in right]
            case 2:
                return [np.full(limit + 5, -7, np.int32) for limit in limits]
            case _:
                return [np.concatenate([symbols[: len(symbols) // 2], symbols ^ 3]) for symbols in right]
