"""The running batch on the tiny model: slots in, lanes out, and back."""

import numpy as np
import pytest

from speccompact.codec import Codec
from speccompact.errors import ArgumentError, DamagedError
from speccompact.exact.cache import Cache
from speccompact.exact.weights import Weights
from speccompact.options import Options
from speccompact.parallel import Workers
from speccompact.slotbatch import DecodedSlot, EncodedSlot, Result, SlotBatch
from speccompact.speculative.drafter import NoDrafter
from speccompact.speculative.drafting import Drafting
from speccompact.streams.engine import CodedSlot
from speccompact.text.vocabulary import Vocabulary
from tests.tiny_model import tiny
from tests.tiny_slots import QUIET, PlainCodec, codec, coded, encode, text_symbols, wild_symbols

SLOTS = [text_symbols(n, n) for n in (1, 2, 30, 77)] + [wild_symbols(n, n) for n in (1, 50)]
LANES = encode(SLOTS)


def engine(places: int = 3, capacity: int = 100, options: Options = QUIET) -> SlotBatch:
    return SlotBatch(tiny(QUIET)[0], options, Workers(1), places, capacity)


def test_there_and_back() -> None:
    for index, (slot, result) in enumerate(zip(SLOTS, codec().decode(coded(SLOTS, LANES)), strict=True)):
        assert isinstance(result, DecodedSlot)
        assert (result.symbols.tolist(), result.check) == (slot.tolist(), index)
        assert result.symbols.dtype == np.int32


def test_every_check_comes_back() -> None:
    slot = text_symbols(3)
    lanes = codec().encode([slot] * 256, range(256))
    results = codec().decode(coded([slot] * 256, [lane.payload for lane in lanes]))
    assert [result.check for result in results if isinstance(result, DecodedSlot)] == list(range(256))


def test_a_lane_is_hardly_longer_than_the_ideal() -> None:
    slots = [text_symbols(500), wild_symbols(200)]
    for slot in codec().encode(slots, [0, 0]):
        assert slot.bits / 8 < len(slot.payload) < slot.bits / 8 * 1.001 + 4


def test_escapes_cost_fifteen_bits() -> None:
    vocabulary = tiny(QUIET)[0].vocabulary
    slot = np.array(list(vocabulary.escapes.values()), np.int32)
    assert len(slot) == 19
    assert codec().encode([slot], [0])[0].bits == 15 * 19


def test_a_damaged_lane_does_not_touch_the_others() -> None:
    lanes = list(LANES)
    lanes[2], lanes[3] = b"", lanes[3][:-4]
    results = codec().decode(coded(SLOTS, lanes))
    assert [isinstance(result, DamagedError) for result in results] == [i in (2, 3) for i in range(len(SLOTS))]
    for i in (0, 1, 4, 5):
        result = results[i]
        assert isinstance(result, DecodedSlot)
        assert result.symbols.tolist() == SLOTS[i].tolist()


def test_only_damaged_lanes() -> None:
    results = codec().decode(coded(SLOTS[:2], [b"", b"\x00"]))
    assert [type(result) for result in results] == [DamagedError, DamagedError]


def test_every_flipped_bit_of_a_lane_gives_other_symbols_or_an_error() -> None:
    slot, lane = SLOTS[2], LANES[2]
    changed = [bytes([*lane[:at], lane[at] ^ 1 << bit, *lane[at + 1 :]]) for at in range(len(lane)) for bit in range(8)]
    for result in codec().decode(coded([slot] * len(changed), changed)):
        right = isinstance(result, DecodedSlot) and (result.symbols.tolist(), result.check) == (slot.tolist(), 2)
        assert not right


def test_more_slots_than_places() -> None:
    slots = [text_symbols(n % 7 + 1, n) for n in range(150)]
    lanes = encode(slots)
    assert lanes[:9] == encode(slots[:9])
    results = codec().decode(coded(slots, lanes))
    assert [result.symbols.tolist() for result in results if isinstance(result, DecodedSlot)] == [
        slot.tolist() for slot in slots
    ]


def test_tick_counts_every_symbol() -> None:
    ticks: list[int] = []
    coder = codec(window=8)
    coder.encode(SLOTS, [0] * len(SLOTS), ticks.append)
    assert sum(ticks) == sum(map(len, SLOTS))
    assert len(ticks) == -(-77 // 8)
    assert coder.passes == sum(-(-len(slot) // 8) for slot in SLOTS)


def test_slots_join_and_leave_a_running_batch() -> None:
    batch = engine(places=3, options=Options(threads=1, window=5))
    tickets: dict[int, int] = {}
    found: dict[tuple[int, type], Result] = {}
    queue = list(enumerate(SLOTS))
    while queue or len(found) < 2 * len(SLOTS):
        if queue:
            index, slot = queue.pop()
            tickets[batch.submit_encode(slot, index)] = index
            tickets[batch.submit_decode(LANES[index], len(slot))] = index
        batch.step()
        for ticket, result in batch.collect().items():
            assert (ticket, type(result)) not in found
            found[ticket, type(result)] = result
    for (ticket, kind), result in found.items():
        if kind is EncodedSlot:
            assert isinstance(result, EncodedSlot)
            assert result.payload == LANES[tickets[ticket]]
        else:
            assert isinstance(result, DecodedSlot)
            assert result.symbols.tolist() == SLOTS[tickets[ticket]].tolist()
    assert batch.step() == 0
    assert batch.collect() == {}


@pytest.mark.parametrize("count", [0, 101])
def test_a_slot_that_does_not_fit_is_refused(count: int) -> None:
    with pytest.raises(ArgumentError, match=f"{count} tokens"):
        engine().submit_encode(np.zeros(count, np.int32), 0)
    with pytest.raises(ArgumentError, match=f"{count} tokens"):
        engine().submit_decode(b"\x01\x01", count)


def test_a_slot_longer_than_the_model_is_refused() -> None:
    with pytest.raises(ArgumentError, match="2048"):
        PlainCodec(tiny(QUIET)[0], QUIET).encode([np.zeros(2049, np.int32)], [0])


def test_no_slots() -> None:
    assert codec().encode([], []) == []
    assert codec().decode([]) == []


def test_a_slot_longer_than_the_model_is_damaged_and_the_others_are_not() -> None:
    slots = [text_symbols(30), text_symbols(20, seed=1)]
    lanes = coded(slots, encode(slots))
    first, bad, last = codec().decode([lanes[0], CodedSlot(b"\x01" * 9, 2049), lanes[1]])
    assert isinstance(first, DecodedSlot)
    assert first.symbols.tolist() == slots[0].tolist()
    assert isinstance(last, DecodedSlot)
    assert last.symbols.tolist() == slots[1].tolist()
    assert isinstance(bad, DamagedError)
    assert "2048" in str(bad)


def test_a_long_slot_among_many_short_ones_takes_no_more_memory_than_a_frame_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("speccompact.codec.MAX_FRAME_TOKENS", 128)
    slots = [text_symbols(60), *(text_symbols(5, seed=i) for i in range(1, 9))]
    sizes: list[tuple[int, int]] = []

    class Watched(Cache):
        def __init__(self, weights: Weights, places: int, capacity: int) -> None:
            sizes.append((places, capacity))
            super().__init__(weights, places, capacity)

    monkeypatch.setattr("speccompact.slotbatch.Cache", Watched)
    found = codec().decode(coded(slots, encode(slots)))
    assert [part.symbols.tolist() for part in found if isinstance(part, DecodedSlot)] == [s.tolist() for s in slots]
    assert sizes == [(2, 60), (2, 60)]


def test_short_memory_is_said_as_python_says_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.")

    monkeypatch.setattr("speccompact.slotbatch.Cache", fail)
    with pytest.raises(MemoryError, match="9 bytes"):
        codec().encode([text_symbols(5)], [0])


def test_other_faults_of_memory_are_no_shortage(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr("speccompact.slotbatch.Cache", fail)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        codec().encode([text_symbols(5)], [0])


def test_a_part_has_its_share_of_the_threads_for_drafts_too() -> None:
    """The drafter that options name goes by the part's options; one that was given stays the same."""
    target = tiny(QUIET)[0]
    seen: list[tuple[int, int]] = []

    def noted(vocabulary: Vocabulary, options: Options, workers: Workers) -> Drafting:
        seen.append((options.threads, workers.count))
        return Drafting(NoDrafter(), "none")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("speccompact.codec.make_drafting", noted)
        whole = Codec(target, Options(threads=4))
        for coder in (whole, whole.part(2), whole.part(9)):
            coder.decode(coded(SLOTS[:1], LANES[:1]))
    assert seen == [(4, 4), (2, 2), (1, 1)]
    given = Drafting(NoDrafter(), "given")
    assert Codec(target, QUIET, lambda: given).part(2)._drafting is given
