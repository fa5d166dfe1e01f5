"""Frames with a memory on the tiny model: back again, smaller, and the same however they are computed."""

from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch

from speccompact.errors import DamagedError
from speccompact.exact.tables import log2_table
from speccompact.memory.group import GroupMemory, next_border
from speccompact.memory.logodds import FRAC_ODDS
from speccompact.options import DrafterName, Kernels, Options
from speccompact.slotbatch import DecodedSlot
from speccompact.speculative.drafter import Drafter
from speccompact.speculative.suffix import SuffixDrafter
from speccompact.streams.engine import CodedSlot
from tests.tiny_block import write_tiny_block
from tests.tiny_model import TINY_EXACT, tiny
from tests.tiny_slots import (
    QUIET,
    Adversary,
    PerfectDrafter,
    PlainCodec,
    RandomDrafter,
    Symbols,
    codec,
    coded,
    text_symbols,
    wild_symbols,
)

LOG2 = log2_table(12, FRAC_ODDS)
FRAMES = [
    [text_symbols(n, n % 3) for n in (70, 1, 33, 16)] + [wild_symbols(40)],
    [text_symbols(50, 1), wild_symbols(40), text_symbols(17, 0)],
]


def memory(coder: PlainCodec) -> GroupMemory:
    vocabulary = coder.target.vocabulary
    line_ends = np.array([b"\n" in vocabulary.join(np.array([s], np.int32)) for s in range(vocabulary.symbols)])
    return GroupMemory(coder.target.transformer.weights, line_ends, LOG2, 12)


def encode(coder: PlainCodec, frames: list[list[Symbols]]) -> list[list[bytes]]:
    group = memory(coder)
    return [[slot.payload for slot in coder.encode(slots, list(range(len(slots))), memory=group)] for slots in frames]


LANES = encode(codec(), FRAMES)


def check(coder: PlainCodec) -> None:
    group = memory(coder)
    for slots, lanes in zip(FRAMES, LANES, strict=True):
        for index, (slot, result) in enumerate(
            zip(slots, coder.decode(coded(slots, lanes), memory=group), strict=True)
        ):
            assert isinstance(result, DecodedSlot)
            assert (result.symbols.tolist(), result.check) == (slot.tolist(), index)


def test_there_and_back() -> None:
    check(codec())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU")
def test_a_gpu_gives_the_same_bytes_and_takes_them() -> None:
    options = Options(device="cuda")
    coder = PlainCodec(tiny(options)[0], options)
    assert encode(coder, FRAMES) == LANES
    check(coder)


@pytest.mark.parametrize("kernels", ["torch", "numba"])
@pytest.mark.parametrize(("window", "threads"), [(1, 1), (7, 3), (64, 2)])
def test_nothing_but_positions_counts(kernels: Kernels, window: int, threads: int) -> None:
    coder = codec(kernels=kernels, window=window, threads=threads)
    assert encode(coder, FRAMES) == LANES


@pytest.mark.parametrize("drafter", ["random", "half right", "adversary", "suffix"])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("kernels", ["torch", "numba"])
def test_drafts_change_nothing(drafter: str, threads: int, kernels: Kernels) -> None:
    slots = FRAMES[0] + FRAMES[1]
    drafters: dict[str, Drafter] = {
        "random": RandomDrafter(1),
        "half right": PerfectDrafter(slots, 8, 3),
        "adversary": Adversary(slots),
        "suffix": SuffixDrafter(),
    }
    check(codec(drafters[drafter], threads=threads, kernels=kernels))


@pytest.mark.parametrize("name", get_args(DrafterName))
def test_drafters_by_name_change_nothing(name: DrafterName, tmp_path: Path) -> None:
    block = str(write_tiny_block(tmp_path / "block"))
    file = {"block": block, "hybrid": block, "model": str(TINY_EXACT)}.get(name, "")
    check(PlainCodec(tiny(QUIET)[0], Options(threads=2, drafter=name, drafter_file=file)))


def test_what_is_repeated_costs_little() -> None:
    slots = [text_symbols(200, 5)] * 4
    coder = codec()
    first, second = encode(coder, [slots, slots])
    assert sum(map(len, second)) < sum(map(len, first)) / 3


def test_borders() -> None:
    borders, position = [], 0
    while position < 64:
        position = next_border(position)
        borders.append(position)
    assert borders == [1, 2, 3, 4, 6, 8, 12, 16, 32, 48, 64]
    assert [next_border(p) for p in (15, 16, 17, 31)] == [16, 32, 32, 32]


@pytest.mark.parametrize("symbols", range(1, 10))
def test_short_frames_can_be_given_up(symbols: int) -> None:
    slots = [text_symbols(symbols, 3)]
    (lane,) = codec().encode(slots, [0], memory=memory(codec()))
    for budget in range(len(lane.payload) + 3):
        coder = codec()
        tried = coder.try_encode(slots, [0], budget, memory=memory(coder))
        assert tried is None or tried[0].payload == lane.payload


@pytest.mark.parametrize(("window", "threads"), [(1, 1), (3, 1), (7, 3), (64, 2)])
def test_giving_up_depends_on_nothing_but_the_symbols(window: int, threads: int) -> None:
    slots = FRAMES[0]
    ideal = sum(slot.bits for slot in codec().encode(slots, [0] * len(slots), memory=memory(codec()))) / 8
    outcomes = []
    for coder in (codec(), codec(window=window, threads=threads)):
        budgets = [int(ideal * share / 20) for share in range(10, 26)]
        lanes = [coder.try_encode(slots, [0] * len(slots), budget, memory=memory(coder)) for budget in budgets]
        outcomes.append([tried is None for tried in lanes])
    assert outcomes[0] == outcomes[1]
    assert {True, False} == set(outcomes[0])


def test_without_a_memory_nothing_is_given_up() -> None:
    assert codec().try_encode(FRAMES[0], [0] * len(FRAMES[0]), 1) is not None


@pytest.mark.parametrize("lane", [b"", b"\x01\x00", bytes(range(1, 256))])
def test_a_damaged_lane_ends_the_frame(lane: bytes) -> None:
    slots = FRAMES[0]
    lanes = [*LANES[0][:2], lane, *LANES[0][3:]]
    coder = codec()
    results = coder.decode(coded(slots, lanes), memory=memory(coder))
    assert [isinstance(result, DamagedError) for result in results] == [False, False, True, False, False]
    assert coder.passes == 0


def test_a_slot_that_the_model_cannot_hold_ends_the_frame() -> None:
    coder = codec()
    slots = [*coded(FRAMES[0], LANES[0]), CodedSlot(b"abc", coder.target.positions + 1)]
    results = coder.decode(slots, memory=memory(coder))
    assert all(isinstance(result, DamagedError) for result in results)
