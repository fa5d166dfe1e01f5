"""The pool: places, turns, and ways in which a call can end while others go on."""

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest

from speccompact.errors import ArgumentError, DamagedError, LimitError
from speccompact.memory.group import GroupMemory
from speccompact.options import Options
from speccompact.slotbatch import DecodedSlot, SlotBatch
from speccompact.speculative.drafter import Drafter, NoDrafter
from speccompact.speculative.drafting import Drafting
from speccompact.speculative.suffix import SuffixDrafter
from speccompact.streams.engine import CodedSlot
from speccompact_grpc.calls import Call, CallEnded, Cancelled, DeadlinePassed, Draining, QueueFull
from speccompact_grpc.grouproom import GroupRoom
from speccompact_grpc.observing import Pass, Silent
from speccompact_grpc.pool import Pool
from speccompact_grpc.pooledcodec import PooledCodec
from tests.tiny_model import tiny
from tests.tiny_slots import QUIET, Symbols, codec, coded, encode, text_symbols, wild_symbols

SLOTS = [text_symbols(n, n) for n in (1, 40, 77)] + [wild_symbols(20, 3)]
LANES = encode(SLOTS)
_SECONDS = 60.0


class Gate(Silent):
    """Lets passes through one by one, when it is shut."""

    def __init__(self) -> None:
        self.passes: list[Pass] = []
        self.open = threading.Event()
        self.entered = threading.Event()
        self.open.set()

    def passed(self, done: Pass) -> None:
        self.passes.append(done)
        self.entered.set()
        assert self.open.wait(_SECONDS)

    def shut(self) -> None:
        """Hold the pool after its next pass."""
        self.open.clear()
        self.entered.clear()


@contextmanager
def pool(
    places: int = 8, queue_slots: int = 100, drafter: Drafter | None = None, gate: Gate | None = None
) -> Iterator[Pool]:
    options = Options(threads=1)
    chosen = drafter or NoDrafter()
    made = Pool(tiny(QUIET)[0], options, places, queue_slots, lambda _: Drafting(chosen, "test"), gate)
    try:
        yield made
    finally:
        if gate:
            gate.open.set()
        made.close()


def decode(made: Pool, slots: Sequence[Symbols], lanes: Sequence[bytes], call: Call | None = None) -> list[object]:
    """Return the symbols of each slot, or the type of what went wrong."""
    results = PooledCodec(made, call or Call()).decode(coded(slots, lanes))
    return [result.symbols.tolist() if isinstance(result, DecodedSlot) else type(result) for result in results]


def frame(codec_: PooledCodec, slots: Sequence[Symbols], memory: GroupMemory) -> list[bytes]:
    made = codec_.try_encode(slots, [0] * len(slots), None, None, memory)
    assert made is not None
    return [slot.payload for slot in made]


@pytest.mark.parametrize("drafter", [NoDrafter(), SuffixDrafter()])
def test_what_comes_of_slots_does_not_depend_on_who_shares_a_pass(drafter: Drafter) -> None:
    with pool(drafter=drafter) as made, ThreadPoolExecutor(12) as threads:

        def call(number: int) -> None:
            mine = PooledCodec(made, Call(f"caller {number % 3}", priority=number % 3 + 1))
            if number % 2:
                assert decode(made, SLOTS, LANES, Call(str(number))) == [slot.tolist() for slot in SLOTS]
            else:
                lanes = mine.try_encode(SLOTS, range(len(SLOTS)), None)
                assert lanes is not None
                assert [lane.payload for lane in lanes] == LANES
                assert mine.passes >= len(SLOTS)

        list(threads.map(call, range(12)))


def test_frames_with_memories_of_their_own_share_passes() -> None:
    frames = [[text_symbols(30 + 7 * n, n), text_symbols(20, n + 9)] for n in range(4)]
    expected: list[list[bytes]] = []
    for slots in frames:
        plain, lanes = codec(), []
        memory = plain.begin_group(12)
        for _ in range(2):  # the second frame goes on from the first
            lanes += [slot.payload for slot in plain.encode(slots, [0, 0], memory=memory)]
        expected.append(lanes)
    gate = Gate()
    with pool(gate=gate) as made, ThreadPoolExecutor(8) as threads:

        def both_ways(number: int) -> None:
            slots, lanes = frames[number % 4], expected[number % 4]
            mine = PooledCodec(made, Call())
            memory = mine.begin_group(12)
            assert frame(mine, slots, memory) + frame(mine, slots, memory) == lanes
            memory = mine.begin_group(12)
            for start in (0, 2):
                results = mine.decode(coded(slots, lanes[start : start + 2]), None, memory)
                for slot, result in zip(slots, results, strict=True):
                    assert isinstance(result, DecodedSlot)
                    assert result.symbols.tolist() == slot.tolist()

        list(threads.map(both_ways, range(8)))
    assert max(done.slots for done in gate.passes) > 2


def test_a_frame_is_given_up_as_the_codec_does() -> None:
    slots = [wild_symbols(100, 1), wild_symbols(100, 2)]
    alone = codec()
    for budget in (1, 10_000):
        with pool() as made:
            mine = PooledCodec(made, Call())
            found = mine.try_encode(slots, [0, 0], budget, None, mine.begin_group(10))
            expected = alone.try_encode(slots, [0, 0], budget, None, alone.begin_group(10))
            assert (found is None) == (expected is None) == (budget == 1)


def test_damage_concerns_its_own_call_alone() -> None:
    with pool() as made, ThreadPoolExecutor(4) as threads:
        broken = [LANES[0], LANES[1][:-4], b"", LANES[3]]
        jobs = [threads.submit(decode, made, SLOTS, lanes) for lanes in (LANES, broken, LANES)]
        right = [slot.tolist() for slot in SLOTS]
        assert jobs[0].result() == jobs[2].result() == right
        assert jobs[1].result() == [right[0], DamagedError, DamagedError, right[3]]
        mine = PooledCodec(made, Call())
        results = mine.decode([CodedSlot(b"", 5), CodedSlot(LANES[0], 1)], None, mine.begin_group(10))
        assert isinstance(results[0], DamagedError)
        too_long = mine.decode([CodedSlot(LANES[0], 1), CodedSlot(b"\x01" * 9, 3000)])
        assert [type(result) for result in too_long] == [DecodedSlot, DamagedError]


def test_a_cancelled_call_lets_go_of_its_places() -> None:
    gate = Gate()
    with pool(places=2, gate=gate) as made, ThreadPoolExecutor(4) as threads:
        gate.shut()
        long = [text_symbols(500, n) for n in (1, 2, 3)]
        tired = Call("tired")
        lanes = encode(long)
        job = threads.submit(decode, made, long, lanes, tired)
        assert gate.entered.wait(_SECONDS)
        other = threads.submit(decode, made, SLOTS[:1], LANES[:1], Call("other"))
        tired.cancel()
        gate.open.set()
        with pytest.raises(Cancelled):
            job.result()
        assert other.result() == [SLOTS[0].tolist()]
        assert len(gate.passes) < 10


def test_a_deadline_ends_a_call_in_the_middle() -> None:
    gate = Gate()
    with pool(gate=gate) as made, ThreadPoolExecutor(4) as threads:
        gate.shut()
        slots = [text_symbols(500, 1)]
        hasty = Call("hasty", deadline=time.monotonic() + 0.3)
        job = threads.submit(decode, made, slots, encode(slots), hasty)
        assert gate.entered.wait(_SECONDS)
        time.sleep(0.3)
        gate.open.set()
        with pytest.raises(DeadlinePassed):
            job.result()
        assert len(gate.passes) < 500
        with pytest.raises(DeadlinePassed):
            decode(made, SLOTS, LANES, Call(deadline=time.monotonic() - 1))


def test_a_full_queue_refuses_new_calls_and_keeps_those_it_has() -> None:
    gate = Gate()
    with pool(places=2, queue_slots=6, gate=gate) as made, ThreadPoolExecutor(4) as threads:
        gate.shut()
        first = threads.submit(decode, made, SLOTS, LANES)
        assert gate.entered.wait(_SECONDS)
        second = threads.submit(decode, made, SLOTS[1:3], LANES[1:3])
        begun = Call(patient=True)
        third = threads.submit(decode, made, SLOTS, LANES, begun)
        while made._waiting() < 9:  # the two orders have come
            time.sleep(0.01)
        with pytest.raises(QueueFull) as caught:
            decode(made, SLOTS, LANES)
        assert 0 < caught.value.retry_s <= 60
        gate.open.set()
        right = [slot.tolist() for slot in SLOTS]
        assert first.result() == third.result() == right
        assert second.result() == right[1:3]


def test_a_frame_that_never_fits_is_refused() -> None:
    with pool(places=4) as made:
        mine = PooledCodec(made, Call())
        with pytest.raises(LimitError, match="3 slots"):
            mine.try_encode(SLOTS[:3], [0] * 3, None, None, mine.begin_group(10))


def test_neither_kind_of_order_keeps_the_other_out() -> None:
    """Plain slots of one call and frames of another take turns: both get on while the other has more to do."""
    gate = Gate()
    with pool(places=4, gate=gate) as made, ThreadPoolExecutor(4) as threads:
        gate.shut()
        many = [text_symbols(60, n) for n in range(12)]
        plain = threads.submit(decode, made, many, encode(many), Call("plain"))
        assert gate.entered.wait(_SECONDS)

        def frames() -> int:
            mine = PooledCodec(made, Call("frames"))
            for _ in range(2):
                frame(mine, many[:2], mine.begin_group(10))
            return len(gate.passes)

        framed = threads.submit(frames)
        gate.open.set()
        assert framed.result() < len(gate.passes) or not plain.done()
        plain.result()


def test_a_fault_in_a_pass_is_told_and_the_pool_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(batch: SlotBatch) -> int:
        raise RuntimeError("a fault")

    with pool() as made:
        with monkeypatch.context() as patch:
            patch.setattr(SlotBatch, "step", broken)
            with pytest.raises(RuntimeError, match="a fault"):
                decode(made, SLOTS, LANES)
        assert decode(made, SLOTS, LANES) == [slot.tolist() for slot in SLOTS]


def test_each_caller_gets_an_error_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd(Exception):
        def __init__(self, one: int, other: int) -> None:
            super().__init__("odd")

    for fault, kind in ((ValueError("a fault"), ValueError), (Odd(1, 2), RuntimeError)):

        def broken(batch: SlotBatch, fault: Exception = fault) -> int:
            if batch.free:  # until both are there
                time.sleep(0.001)
                return 0
            raise fault

        with pool(places=8) as made, monkeypatch.context() as patch, ThreadPoolExecutor(2) as threads:
            patch.setattr(SlotBatch, "step", broken)
            calls = [threads.submit(decode, made, SLOTS, LANES) for _ in range(2)]
            one, other = (call.exception(_SECONDS) for call in calls)
        assert type(one) is type(other) is kind
        assert one is not other


def test_a_fault_while_places_are_given_is_told_and_the_pool_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(batch: SlotBatch, lane: bytes, tokens: int, cohort: object) -> int:
        raise MemoryError

    with pool() as made:
        with monkeypatch.context() as patch, ThreadPoolExecutor(1) as threads:
            patch.setattr(SlotBatch, "submit_decode", broken)
            with pytest.raises(MemoryError):
                threads.submit(decode, made, SLOTS, LANES).result(_SECONDS)
        assert decode(made, SLOTS, LANES) == [slot.tolist() for slot in SLOTS]
        assert made.idle


class Fickle(Call):
    """A call that is cancelled between two looks at it, as soon as it is at work."""

    def __init__(self, gate: Gate) -> None:
        super().__init__("fickle")
        self._gate, self._looked = gate, False

    def failure(self, now: float | None = None) -> CallEnded | None:
        if self._gate.passes and self._looked:
            self.cancel()
        self._looked = bool(self._gate.passes)
        return super().failure(now)


def test_a_call_that_is_cancelled_at_any_moment_gets_its_answer() -> None:
    gate = Gate()
    with pool(gate=gate) as made:
        slots, fickle = [text_symbols(500, 1)], Fickle(gate)
        done = threading.Event()

        def call() -> None:
            with pytest.raises(Cancelled):
                decode(made, slots, encode(slots), fickle)
            done.set()

        threading.Thread(target=call, daemon=True).start()
        assert done.wait(_SECONDS / 4)
        assert made.idle


def test_a_pool_that_closes_takes_nothing_on() -> None:
    with pool() as made:
        made.close()
        with pytest.raises(Draining):
            decode(made, SLOTS, LANES)


def test_passes_are_told_and_progress_is() -> None:
    gate, ticks = Gate(), list[int]()
    with pool(gate=gate) as made:
        mine = PooledCodec(made, Call())
        mine.decode(coded(SLOTS, LANES), ticks.append)
    tokens = sum(map(len, SLOTS))
    assert sum(ticks) == tokens
    assert sum(done.decoded for done in gate.passes) == tokens
    assert sum(done.decoding for done in gate.passes) == mine.passes == tokens
    assert {done.places for done in gate.passes} == {8}
    assert np.isfinite([done.seconds for done in gate.passes]).all()


def test_memories_wait_for_room() -> None:
    room = GroupRoom(6 << 20)
    with pool() as made:

        def begin(call: Call) -> GroupMemory:
            return room.begin(call, 10, lambda: codec().begin_group(10))

        first = Call()
        memory = begin(first)
        with pytest.raises(QueueFull):
            begin(Call())
        second = begin(first)  # it has begun
        hasty = Call(patient=True, deadline=time.monotonic() + 0.1)
        with pytest.raises(DeadlinePassed):
            begin(hasty)
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(begin, Call(patient=True))
            del memory, second
            assert waiting.result(_SECONDS).border == 0
            del waiting
        assert PooledCodec(made, Call()).begin_group(10).border == 0
    assert room.held == made.room.held == 0


def test_slots_that_cannot_be_are_refused() -> None:
    with pool() as made, pytest.raises(ArgumentError, match="2048"):
        PooledCodec(made, Call()).try_encode([np.zeros(2049, np.int32)], [0], None)


def test_ended_calls_have_reasons() -> None:
    call = Call()
    call.check()
    call.cancel()
    with pytest.raises(CallEnded, match="cancelled"):
        call.check()
