"""What a slot becomes depends on its symbols alone: not on threads, company, order, windows, kernels or drafts."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from speccompact.codec import Codec
from speccompact.entropy.cdf import Tiling
from speccompact.exact.cache import Cache, Rows, Span
from speccompact.exact.transformer import Transformer, choose_kernels
from speccompact.memory.predictor import Asked, Predictor
from speccompact.options import DrafterName, Kernels, Options
from speccompact.params import PRECISION
from speccompact.slotbatch import DecodedSlot
from speccompact.speculative.block import BlockDrafter
from speccompact.speculative.causal import ModelDrafter
from speccompact.speculative.controller import Controller
from speccompact.speculative.drafter import Draft, Drafter, NoDrafter, Slot
from speccompact.speculative.drafting import Drafting
from speccompact.speculative.hybrid import HybridDrafter
from speccompact.speculative.suffix import SuffixDrafter
from tests.exact_inputs import weights
from tests.tiny_block import tiny_block, write_tiny_block
from tests.tiny_model import TINY_EXACT, tiny
from tests.tiny_slots import (
    QUIET,
    Adversary,
    PerfectDrafter,
    RandomDrafter,
    Symbols,
    codec,
    coded,
    encode,
    text_symbols,
    wild_symbols,
)

WINDOWS = (1, 2, 7, 8, 9, 16, 63, 64, 65, 1000)
EDGES = (1, 2, 7, 8, 9, 15, 16, 17, 63, 64, 65, 127, 128, 129)
SLOTS = [text_symbols(n, n) for n in EDGES] + [wild_symbols(n, n) for n in (8, 9, 40)]
LONG = text_symbols(1100, 5)
"""Beyond the 1,024 keys whose products are summed in one go."""


@cache
def lanes() -> list[bytes]:
    return encode(SLOTS)


def decoded(
    slots: Sequence[Symbols],
    payloads: Sequence[bytes],
    drafter: Drafter | None,
    threads: int = 1,
    kernels: Kernels = "auto",
) -> None:
    coder = codec(drafter, threads=threads, kernels=kernels)
    for slot, result in zip(slots, coder.decode(coded(slots, payloads)), strict=True):
        assert isinstance(result, DecodedSlot)
        assert result.symbols.tolist() == slot.tolist()


@pytest.mark.parametrize("window", WINDOWS)
def test_windows(window: int) -> None:
    assert encode(SLOTS, codec(window=window)) == lanes()


@pytest.mark.parametrize("window", [2, 9, 64])
def test_kernels(window: int) -> None:
    assert encode(SLOTS, codec(kernels="torch", window=window)) == lanes()


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_threads(threads: int) -> None:
    slots = SLOTS[:8]
    assert encode(slots, codec(threads=threads)) == lanes()[:8]
    decoded(slots, lanes()[:8], None, threads)


def test_alone_or_in_company() -> None:
    for index, slot in enumerate(SLOTS):
        assert codec().encode([slot], [index])[0].payload == lanes()[index]


def test_a_slot_among_63_others() -> None:
    slot = text_symbols(66)
    alone = encode([slot])[0]
    company = [wild_symbols(n + 1, n) if n % 2 else text_symbols(2 * n + 1, n) for n in range(63)]
    for place in (0, 31, 63):
        batch = [*company[:place], slot, *company[place:]]
        assert codec().encode(batch, [0] * 64)[place].payload == alone


@given(st.permutations(range(len(SLOTS))), st.integers(1, len(SLOTS)), st.integers(1, 70))
def test_order_and_choice(order: list[int], count: int, window: int) -> None:
    chosen = order[:count]
    found = codec(window=window).encode([SLOTS[i] for i in chosen], chosen)
    assert [slot.payload for slot in found] == [lanes()[i] for i in chosen]


@pytest.mark.parametrize(
    "drafter", ["none", "random", "perfect", "half right", "adversary", "suffix", "block", "model", "hybrid"]
)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kernels", ["torch", "numba"])
def test_drafters(drafter: str, threads: int, kernels: Kernels) -> None:
    target = tiny(QUIET)[0]

    def block() -> BlockDrafter:
        return BlockDrafter(tiny_block(), target.vocabulary, floor=0.0)

    drafters: dict[str, Drafter | None] = {
        "none": None,
        "random": RandomDrafter(7),
        "perfect": PerfectDrafter(SLOTS, 8),
        "half right": PerfectDrafter(SLOTS, 9, wrong=2),
        "adversary": Adversary(SLOTS),
        "suffix": SuffixDrafter(),
        "block": block(),
        "model": ModelDrafter(target.transformer.weights, target.transformer.kernels),
        "hybrid": HybridDrafter(SuffixDrafter(), block()),
    }
    decoded(SLOTS, lanes(), drafters[drafter], threads, kernels)


@pytest.fixture(scope="module")
def block_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Weights of a block drafter for the tiny model."""
    return str(write_tiny_block(tmp_path_factory.mktemp("weights") / "block"))


@pytest.mark.parametrize("name", get_args(DrafterName))
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_drafters_by_name(name: DrafterName, threads: int, block_file: str) -> None:
    """With a controller, which goes by the time that passes take; a second batch finds what the first has left."""
    file = {"block": block_file, "hybrid": block_file, "model": str(TINY_EXACT)}.get(name, "")
    coder = Codec(tiny(QUIET)[0], Options(threads=threads, drafter=name, drafter_file=file))
    for _ in range(2):
        results = coder.decode(coded(SLOTS, lanes()))
        assert [result.symbols.tolist() for result in results if isinstance(result, DecodedSlot)] == [
            slot.tolist() for slot in SLOTS
        ]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("claimed", [1.0, np.nan])
def test_an_adversary_that_a_controller_believes(threads: int, claimed: float) -> None:
    class Lying(Adversary):
        def propose(self, slots: Sequence[Slot], limits: Sequence[int]) -> list[Draft]:
            drafts = super().propose(slots, limits)
            return [replace(draft, chances=np.full(len(draft), claimed, np.float32)) for draft in drafts]

    coder = Codec(tiny(QUIET)[0], Options(threads=threads), lambda: Drafting(Lying(SLOTS), "lying", Controller()))
    for _ in range(2):
        for slot, result in zip(SLOTS, coder.decode(coded(SLOTS, lanes())), strict=True):
            assert isinstance(result, DecodedSlot)
            assert result.symbols.tolist() == slot.tolist()


class Scribbling(NoDrafter):
    """Tries to change what has been decoded."""

    def __init__(self) -> None:
        self.refused = 0

    def propose(self, slots: Sequence[Slot], limits: Sequence[int]) -> list[Draft]:
        for slot in slots:
            try:
                slot.symbols[:] = 7
            except ValueError:
                self.refused += 1
        return super().propose(slots, limits)

    def learn(self, slots: Sequence[Slot], drafts: Sequence[Draft], settled: Sequence[int]) -> None:
        self.propose(slots, settled)


def test_a_drafter_cannot_write_into_what_is_decoded() -> None:
    drafter = Scribbling()
    decoded(SLOTS[:4], lanes()[:4], drafter)
    assert drafter.refused > 0


def test_a_lane_of_the_reference_decodes_with_the_fused_kernels_and_back() -> None:
    slots = SLOTS[4:7]
    for maker, reader in (("torch", "numba"), ("numba", "torch")):
        made = encode(slots, codec(kernels=maker))  # type: ignore[arg-type]
        for slot, result in zip(slots, codec(kernels=reader).decode(coded(slots, made)), strict=True):  # type: ignore[arg-type]
            assert isinstance(result, DecodedSlot)
            assert result.symbols.tolist() == slot.tolist()


@pytest.mark.parametrize("kernels", ["torch", "numba"])
def test_a_long_slot_in_any_windows(kernels: Kernels) -> None:
    wanted = encode([LONG], codec(window=256))
    for window in (7, 8, 1000, 1023, 1024, 1025) if kernels == "numba" else (1000,):
        assert encode([LONG], codec(kernels=kernels, window=window)) == wanted


def test_a_long_slot_decodes_with_drafts() -> None:
    made = encode([LONG])
    decoded([LONG], made, PerfectDrafter([LONG], 31, wrong=3))
    decoded([LONG], made, PerfectDrafter([LONG], 200))


def rows_of(symbols: Symbols, sizes: Sequence[int], kernels: Kernels, company: int = 0) -> list[np.ndarray]:
    """Hidden rows, scales and intervals of a slot computed in pieces of the given sizes, among other slots."""
    transformer = Transformer(weights(), choose_kernels(kernels, "cpu"))
    capacity = len(symbols)
    memory = Cache(weights(), company + 1, capacity)
    predictor = Predictor(transformer, Tiling(460, 19, PRECISION))
    tokens = torch.from_numpy(np.concatenate([[0], symbols[:-1]]).astype(np.int64))
    tokens[tokens >= 460] = 0
    start, pieces = 0, []
    for size in sizes:
        spans = [Span(place, start, size) for place in range(company + 1)]
        inputs = [(tokens[start : start + size] + 31 * (company - place)) % 460 for place in range(company + 1)]
        hidden, scale = transformer.hidden(torch.cat(inputs), Rows.of(spans), memory)
        hidden, scale = hidden[-size:], scale[-size:]
        known = symbols[start : start + size].astype(np.int64)
        nowhere = np.zeros(size, np.int64)
        pieces.append(
            (hidden.numpy(), scale.numpy(), *predictor.intervals(Asked(nowhere, nowhere, hidden, scale), known, None))
        )
        start += size
    return [np.concatenate(column) for column in zip(*pieces, strict=True)]


@pytest.mark.parametrize("length", [1, 7, 8, 9, 63, 64, 65, 128])
def test_distributions_token_by_token_or_all_at_once(length: int) -> None:
    symbols = text_symbols(length, 3)
    wanted = rows_of(symbols, [length], "torch")
    cuts = [[length], [1] * length]
    for edge in (7, 8, 9, 64):
        if edge < length:
            cuts += [[edge, length - edge], [length - edge, edge]]
    for sizes in cuts:
        for company in (0, 63) if len(sizes) < 3 else (0, 5):
            found = rows_of(symbols, sizes, "numba", company)
            assert all((a == b).all() for a, b in zip(found, wanted, strict=True)), (sizes, company)


@pytest.mark.parametrize("sizes", [[1023, 1, 1, 1], [1020, 7, 8], [1016, 8, 9], [1, 1033], [1024, 10]])
def test_distributions_around_1024_keys(sizes: list[int]) -> None:
    symbols = LONG[: sum(sizes)]
    found = rows_of(symbols, sizes, "numba")
    wanted = rows_of(symbols, [len(symbols)], "numba")
    assert all((a == b).all() for a, b in zip(found, wanted, strict=True))


def test_the_reference_agrees_around_1024_keys() -> None:
    symbols = LONG[:1040]
    pairs = zip(rows_of(symbols, [1000, 1, 39], "torch"), rows_of(symbols, [1000, 39, 1], "numba"), strict=True)
    assert all((a == b).all() for a, b in pairs)


def test_a_rolled_back_draft_leaves_no_trace() -> None:
    """Positions are computed from a wrong draft first and again from the truth."""
    symbols = text_symbols(40, 9)
    tokens = torch.from_numpy(np.concatenate([[0], symbols[:-1]]).astype(np.int64))
    for kernels in ("torch", "numba"):
        transformer = Transformer(weights(), choose_kernels(kernels, "cpu"))
        clean, used = Cache(weights(), 1, 40), Cache(weights(), 1, 40)
        wanted = transformer.hidden(tokens, Rows.of([Span(0, 0, 40)]), clean)[0]
        transformer.hidden(tokens[:10], Rows.of([Span(0, 0, 10)]), used)
        transformer.hidden((tokens[10:25] + 3) % 460, Rows.of([Span(0, 10, 15)]), used)
        assert torch.equal(transformer.hidden(tokens[10:], Rows.of([Span(0, 10, 30)]), used)[0], wanted[10:])
