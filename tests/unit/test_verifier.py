"""Whatever a drafter says, the same symbols come out; good drafts only save passes."""

from collections.abc import Sequence

import numpy as np
import pytest

from speccompact.exact.transformer import START_TOKEN
from speccompact.slotbatch import DecodedSlot
from speccompact.speculative.drafter import Drafter
from speccompact.speculative.verifier import inputs_of
from tests.tiny_slots import (
    Forgetful,
    PerfectDrafter,
    RandomDrafter,
    Symbols,
    codec,
    coded,
    encode,
    text_symbols,
    wild_symbols,
)

SLOTS = [text_symbols(60), wild_symbols(41, 1), text_symbols(1, 2), wild_symbols(9, 3), text_symbols(33, 4)]
SYMBOLS = sum(map(len, SLOTS))
LANES = encode(SLOTS)


def decode(drafter: Drafter | None) -> int:
    """Decode SLOTS, compare, and return the passes that it took, added up over the slots."""
    coder = codec(drafter)
    for index, (slot, result) in enumerate(zip(SLOTS, coder.decode(coded(SLOTS, LANES)), strict=True)):
        assert isinstance(result, DecodedSlot)
        assert (result.symbols.tolist(), result.check) == (slot.tolist(), index)
    return coder.passes


def test_inputs_begin_with_what_came_last() -> None:
    proposal = np.array([7, 8], np.int32)
    assert inputs_of(np.array([5, 6], np.int32), proposal).tolist() == [6, 7, 8]
    assert inputs_of(np.empty(0, np.int32), proposal).tolist() == [START_TOKEN, 7, 8]


def test_without_drafts_a_pass_settles_one_symbol_of_each_slot() -> None:
    assert decode(None) == SYMBOLS


@pytest.mark.parametrize("seed", range(4))
def test_random_drafts_change_nothing(seed: int) -> None:
    assert decode(RandomDrafter(seed)) <= SYMBOLS


@pytest.mark.parametrize("length", [1, 3, 7, 8, 100])
def test_perfect_drafts_save_passes(length: int) -> None:
    assert decode(PerfectDrafter(SLOTS, length)) == sum(-(-len(slot) // (length + 1)) for slot in SLOTS)


@pytest.mark.parametrize("wrong", [1, 2, 3])
def test_half_right_drafts_are_corrected(wrong: int) -> None:
    passes = decode(PerfectDrafter(SLOTS, 8, wrong))
    assert SYMBOLS / 9 < passes < SYMBOLS


class Overlong(Forgetful):
    """Proposes right symbols and goes on beyond the limit with whatever it is given."""

    def __init__(self, tail: int) -> None:
        self._tail = np.full(500, tail, np.int32)

    def guess(self, histories: Sequence[Symbols], limits: Sequence[int]) -> list[Symbols]:
        drafts = PerfectDrafter(SLOTS, 1000).guess(histories, limits)
        return [np.concatenate([draft, self._tail]) for draft in drafts]


@pytest.mark.parametrize("tail", [70, -1, 1 << 30])
def test_a_draft_beyond_the_limit_is_cut(tail: int) -> None:
    assert decode(Overlong(tail)) == len(SLOTS)


class Nonsense(Forgetful):
    """Proposes ids that no vocabulary has."""

    def guess(self, histories: Sequence[Symbols], limits: Sequence[int]) -> list[Symbols]:
        return [np.array([-5, 1 << 30, -(1 << 31)], np.int32)[:limit] for limit in limits]


def test_impossible_symbols_in_a_draft_change_nothing() -> None:
    assert decode(Nonsense()) == SYMBOLS
