"""The running batch: slots are submitted, `step` runs one target pass over all that are active, finished ones are
collected. Slots may join and leave between any two steps; what a slot becomes does not depend on its company, unless
they share a memory, and then on their company alone.
"""

import itertools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt
import torch

from speccompact.entropy.cdf import Tiling
from speccompact.entropy.rans import LaneReader, encode_lane
from speccompact.errors import ArgumentError, DamagedError
from speccompact.exact.cache import Cache
from speccompact.memory.logodds import cost_of
from speccompact.memory.predictor import Asked, Predictor
from speccompact.modelstore.loading import Target
from speccompact.options import Options
from speccompact.parallel import Workers
from speccompact.params import PRECISION
from speccompact.slotwork import Cohort, Places, Symbols, Work, seen
from speccompact.speculative.drafting import Drafting
from speccompact.speculative.verifier import Block, Verifier, inputs_of

_PASS_ROWS = 1024
"""Rows that an encoding pass aims at: enough to fill the matrix units, few enough to stay in the caches."""

_MIXED_ROWS = 256
"""The same where slots are decoded in the same pass, which get on by a few symbols only, however long it takes."""

_FORGET = 4096
"""Slots decoded after which a drafter is told that they are gone, at the latest; at the earliest a 16th of them."""


@dataclass(frozen=True, slots=True)
class EncodedSlot:
    """A lane, and the ideal size of its symbols: the sum of -log2 of their probabilities in the integer distribution.

    Attributes:
        payload: the lane.
        bits: ideal size in bits.
        frequencies: (n,) int64, of each symbol, of 2**PRECISION.
    """

    payload: bytes
    bits: float
    frequencies: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class DecodedSlot:
    """What a lane held.

    Attributes:
        symbols: (n,) int32.
        check: the slot check that the encoder put in.
    """

    symbols: Symbols
    check: int


Result = EncodedSlot | DecodedSlot | DamagedError


@dataclass(frozen=True, slots=True)
class PassReport:
    """One pass in numbers.

    Attributes:
        slots: that took part.
        encoded: symbols settled in slots that are encoded.
        decoding: slots that are decoded.
        decoded: symbols settled in those: one each, and the drafted ones that were right.
        drafted: symbols that were proposed.
    """

    slots: int = 0
    encoded: int = 0
    decoding: int = 0
    decoded: int = 0
    drafted: int = 0


class SlotBatch:
    """A running batch of slots on one target. Not safe for use from several threads at once.

    Attributes:
        passes: target passes so far, counted once for each slot that took part.
        report: the last pass in numbers.
    """

    def __init__(
        self,
        target: Target,
        options: Options,
        workers: Workers,
        places: int,
        capacity: int,
        drafting: Drafting | None = None,
    ) -> None:
        """Reserve room for a batch.

        Args:
            workers: threads that share each pass.
            places: slots that are active at once; more wait.
            capacity: symbols of the longest slot.
            drafting: what proposes symbols of the slots that are decoded; None for nothing.
        """
        if capacity > target.positions:
            raise ArgumentError(f"slots of {capacity} tokens exceed the {target.positions} that {target.name} can hold")
        transformer = target.transformer
        tiling = Tiling(target.vocabulary.size, len(target.vocabulary.escapes), PRECISION)
        self._capacity, self._window, self._workers = capacity, options.window, workers
        self._drafting, self._vocabulary = drafting, target.vocabulary.symbols
        if drafting is not None:
            drafting.begin(capacity, self._vocabulary)
        cache = Cache(transformer.weights, places, capacity)
        self._verifier = Verifier(transformer, Predictor(transformer, tiling), cache)
        self._lanes = LaneReader(places, PRECISION)
        self._places = Places(places)
        self._tickets = itertools.count()
        self._waiting: deque[Work] = deque()
        self._active: list[Work] = []
        self._finished: dict[int, Result] = {}
        self._decoded = 0
        self.passes = 0
        self.report = PassReport()

    @property
    def free(self) -> int:
        """Slots that could be submitted now and would take part in the next pass."""
        return len(self._places) - len(self._waiting)

    def submit_encode(self, symbols: Symbols, check: int, cohort: Cohort | None = None) -> int:
        """Queue a slot for encoding.

        Args:
            symbols: (n,) int32, n >= 1.
            check: slot check that the lane will carry, 8 bits.
            cohort: those it is submitted with; with a memory there must be places for all of them.

        Returns:
            The ticket under which `collect` returns an EncodedSlot.
        """
        return self._submit(symbols, None, check, cohort)

    def submit_decode(self, lane: bytes, tokens: int, cohort: Cohort | None = None) -> int:
        """Queue a slot for decoding; `cohort` as above.

        Returns:
            The ticket under which `collect` returns a DecodedSlot, or a DamagedError. It may return neither where
            another slot of a frame with a memory is damaged.
        """
        return self._submit(np.zeros(tokens, dtype=np.int32), lane, 0, cohort)

    def step(self) -> int:
        """Run one target pass over all active slots, admitting waiting ones first.

        With a memory, slots wait at the border of the epoch for those of their frame that are not there yet, and
        damage to one ends all of its frame.

        Returns:
            Number of symbols settled; 0 when there is nothing to do.
        """
        self._admit()
        if not self._active:
            return 0
        ready = [work for work in self._active if work.settled < work.stop]
        decoding = [work for work in ready if work.lane is not None]
        self._propose(decoding)
        rows = _MIXED_ROWS if 0 < len(decoding) < len(ready) else _PASS_ROWS
        window = self._window or max(1, rows // len(self._active))
        for work in ready:
            work.before = work.settled
            if work.lane is not None or work.read < work.stop:
                work.cohort.passes += 1
                self.passes += 1
        ready.sort(key=lambda work: -len(work.draft))  # dealt out in this order, so that each worker gets as much
        shares = self._workers.share(ready)
        for costs in self._workers.run([partial(self._advance, share, window) for share in shares]):
            for cohort, cost in costs:
                cohort.cost += cost
        self._learn(decoding)
        for work in ready:
            work.cohort.settled += work.settled - work.before
        settled = sum(work.settled - work.before for work in ready)
        decoded = sum(work.settled - work.before for work in decoding)
        drafted = sum(len(work.draft) for work in decoding)
        self.report = PassReport(len(ready), settled - decoded, len(decoding), decoded, drafted)
        for work in [work for work in ready if not work.left]:
            self._finished[work.ticket] = self._finish(work)
            self._leave(work)
        for cohort in dict.fromkeys(work.cohort for work in ready):
            cohort.close()
            self._drop_damaged(cohort)
        return settled

    def drop(self, cohort: Cohort) -> None:
        """Let go of all slots of a cohort that have not ended; nothing is returned for them."""
        for work in list(cohort.works):
            if work.place < 0:
                self._waiting.remove(work)
                cohort.works.remove(work)
            else:
                self._leave(work)

    def collect(self) -> dict[int, Result]:
        """Take what has been finished since the last call, by ticket."""
        finished, self._finished = self._finished, {}
        return finished

    def _advance(self, works: Sequence[Work], window: int) -> list[tuple[Cohort, int]]:
        """Run some of the active slots through the target; several shares may do so at the same time.

        Returns:
            The cost of the symbols encoded with a memory, by cohort.
        """
        encoding = [work for work in works if work.lane is None]
        decoding = [work for work in works if work.lane is not None]
        self._read([work for work in encoding if work.read < work.stop], window)
        costs = [(share[0].cohort, self._encode(share)) for share in _by_memory(encoding)]
        if decoding:
            self._decode([work for share in _by_memory(decoding) for work in share])
        return [(cohort, cost) for cohort, cost in costs if cohort.memory is not None]

    def _submit(self, symbols: Symbols, lane: bytes | None, check: int, cohort: Cohort | None) -> int:
        if not 1 <= len(symbols) <= self._capacity:
            raise ArgumentError(f"a slot of {len(symbols)} tokens; 1 to {self._capacity} are possible here")
        cohort = cohort or Cohort()
        work = Work(next(self._tickets), symbols, lane, cohort, cohort.members, check)
        cohort.members += 1
        cohort.works.append(work)
        self._waiting.append(work)
        return work.ticket

    def _admit(self) -> None:
        broken: list[Cohort] = []
        while self._waiting and len(self._places):
            work = self._waiting.popleft()
            work.place = self._places.take(len(work.symbols))
            self._active.append(work)
            if work.lane is None:
                work.starts = np.empty(len(work.symbols), dtype=np.int64)
                work.frequencies = np.empty(len(work.symbols), dtype=np.int64)
                work.hidden, work.scale = self._verifier.room(len(work.symbols))
                if work.cohort.memory is not None:
                    work.cohort.memory.know(work.member, 0, work.symbols)
                continue
            try:
                self._lanes.load(work.place, work.lane, len(work.symbols))
            except DamagedError as error:
                self._finished[work.ticket] = error.with_traceback(None)
                work.cohort.damaged = True
                self._leave(work)
                broken.append(work.cohort)
        for cohort in broken:
            self._drop_damaged(cohort)

    def _leave(self, work: Work) -> None:
        self._active.remove(work)
        self._places.free(work.place)
        work.cohort.works.remove(work)

    def _drop_damaged(self, cohort: Cohort) -> None:
        if cohort.damaged and cohort.memory is not None:
            self.drop(cohort)

    def _read(self, works: Sequence[Work], window: int) -> None:
        """Run known symbols through the target, ahead of their coding."""
        if not works:
            return
        blocks = []
        for work in works:
            stop = min(work.read + window, len(work.symbols))
            blocks.append(
                Block(work.place, work.read, inputs_of(work.symbols[: work.read], work.symbols[work.read : stop - 1]))
            )
        hidden, scale = self._verifier.read(blocks)
        first = 0
        for work, block in zip(works, blocks, strict=True):
            here, there = slice(work.read, work.read + len(block.inputs)), slice(first, first + len(block.inputs))
            work.hidden[here], work.scale[here] = hidden[there], scale[there]
            work.read += len(block.inputs)
            first += len(block.inputs)

    def _encode(self, works: Sequence[Work]) -> int:
        """Find coding intervals of what has been read, of works of one memory, or of none; return their cost."""
        memory = works[0].cohort.memory
        stops = [min(work.read, work.stop) for work in works]
        counts = [stop - work.settled for work, stop in zip(works, stops, strict=True)]
        pairs = list(zip(works, stops, strict=True))
        asked = Asked(
            np.repeat([work.member for work in works], counts),
            np.concatenate([np.arange(work.settled, stop) for work, stop in pairs]),
            torch.cat([work.hidden[work.settled : stop] for work, stop in pairs]),
            torch.cat([work.scale[work.settled : stop] for work, stop in pairs]),
        )
        known = np.concatenate([work.symbols[work.settled : stop] for work, stop in pairs])
        starts, frequencies = self._verifier.encode(asked, known, memory)
        first = 0
        for work, stop in pairs:
            here, there = slice(work.settled, stop), slice(first, first + stop - work.settled)
            work.starts[here], work.frequencies[here] = starts[there], frequencies[there]
            first += stop - work.settled
            work.settled = stop
        return cost_of(frequencies, PRECISION)

    def _propose(self, works: Sequence[Work]) -> None:
        """Ask once for the drafts of all slots that are being decoded."""
        if self._drafting is None or not works:
            return
        if self._decoded >= _FORGET:
            self._forget(self._drafting)
        limits = [work.stop - work.settled - 1 for work in works]
        for work, draft in zip(works, self._drafting.propose(seen(works), limits), strict=True):
            work.draft = draft

    def _learn(self, works: Sequence[Work]) -> None:
        """Tell what became of the drafts."""
        if self._drafting is None or not works:
            return
        active = sum(work.lane is not None for work in self._active)
        settled = [work.settled - work.before for work in works]
        self._drafting.learn(seen(works), settled, active)
        for work, count, (name, size) in zip(works, settled, self._drafting.tried, strict=True):
            if size:
                work.cohort.drafts.count(name, size, count - 1)
        self._decoded += sum(not work.left for work in works)
        if active == sum(not work.left for work in works) and self._decoded >= _FORGET // 16:
            self._forget(self._drafting)

    def _forget(self, drafting: Drafting) -> None:
        """Begin the drafter's batch anew; slots that go on are new to it."""
        drafting.begin(self._capacity, self._vocabulary)
        self._decoded = 0

    def _decode(self, works: Sequence[Work]) -> None:
        blocks = [
            Block(
                work.place,
                work.settled,
                inputs_of(work.symbols[: work.settled], work.draft),
                work.cohort.memory,
                work.member,
            )
            for work in works
        ]
        for work, symbols in zip(works, self._verifier.decode(blocks, self._lanes), strict=True):
            work.symbols[work.settled : work.settled + len(symbols)] = symbols
            work.settled += len(symbols)

    def _finish(self, work: Work) -> Result:
        if work.lane is None:
            lane = encode_lane(work.starts, work.frequencies, PRECISION, work.check)
            return EncodedSlot(lane, float((PRECISION - np.log2(work.frequencies)).sum()), work.frequencies)
        try:
            return DecodedSlot(work.symbols, self._lanes.finish(work.place))
        except DamagedError as error:
            work.cohort.damaged = True
            return error.with_traceback(None)  # it would hold all that this thread is at


def _by_memory(works: Sequence[Work]) -> list[list[Work]]:
    """Part works by the memory that they share; those without one are one part."""
    parts: dict[int, list[Work]] = {}
    for work in works:
        parts.setdefault(id(work.cohort.memory), []).append(work)
    return list(parts.values())
