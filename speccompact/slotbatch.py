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
from torch import Tensor

from speccompact.entropy.cdf import Tiling
from speccompact.entropy.rans import LaneReader, encode_lane
from speccompact.errors import ArgumentError, DamagedError
from speccompact.exact.cache import Cache
from speccompact.memory.group import GroupMemory
from speccompact.memory.logodds import cost_of
from speccompact.memory.predictor import Asked, Predictor
from speccompact.modelstore.loading import Target
from speccompact.options import Options
from speccompact.parallel import Workers
from speccompact.params import PRECISION
from speccompact.speculative.drafter import Slot
from speccompact.speculative.drafting import Drafting
from speccompact.speculative.verifier import Block, Verifier, inputs_of

Symbols = npt.NDArray[np.int32]

_PASS_ROWS = 1024
"""Rows that an encoding pass aims at: enough to fill the matrix units, few enough to stay in the caches."""


@dataclass(frozen=True, slots=True)
class EncodedSlot:
    """A lane, and the ideal size of its symbols: the sum of -log2 of their probabilities in the integer distribution.

    Attributes:
        payload: the lane.
        bits: ideal size in bits.
    """

    payload: bytes
    bits: float


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


@dataclass(slots=True)
class _Work:
    """A slot on its way. Encoding: symbols are known, the target reads them, intervals fill up. Decoding: they do."""

    ticket: int
    symbols: Symbols
    lane: bytes | None
    check: int = 0
    place: int = -1
    read: int = 0
    settled: int = 0
    hidden: Tensor = field(default_factory=lambda: torch.empty(0, 0, dtype=torch.int8))
    scale: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))
    starts: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    frequencies: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    draft: Symbols = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    drafted_at: int = 0

    @property
    def left(self) -> int:
        return len(self.symbols) - self.settled


class SlotBatch:
    """A running batch of slots on one target. Not safe for use from several threads at once.

    Attributes:
        passes: target passes so far, counted once for each slot that took part.
        settled: symbols coded so far.
        cost: of those that were encoded, in bits with FRAC_ODDS fractional bits: integers, so that no order shows.
        epochs: of the memory that are over.
    """

    def __init__(
        self,
        target: Target,
        options: Options,
        workers: Workers,
        places: int,
        capacity: int,
        drafting: Drafting | None = None,
        memory: GroupMemory | None = None,
    ) -> None:
        """Reserve room for a batch.

        Args:
            workers: threads that share each pass.
            places: slots that are active at once; more wait.
            capacity: symbols of the longest slot.
            drafting: what proposes symbols of the slots that are decoded; None for nothing.
            memory: of a group, at a frame that has begun. Its slots are then submitted before the first step, in their
                order, and as many as there are places.
        """
        if capacity > target.positions:
            raise ArgumentError(f"slots of {capacity} tokens exceed the {target.positions} that {target.name} can hold")
        transformer = target.transformer
        tiling = Tiling(target.vocabulary.size, len(target.vocabulary.escapes), PRECISION)
        self._capacity, self._window, self._workers = capacity, options.window, workers
        self._drafting = drafting
        if drafting is not None:
            drafting.begin(capacity, target.vocabulary.symbols)
        cache = Cache(transformer.weights, places, capacity)
        self._verifier = Verifier(transformer, Predictor(transformer, tiling), cache, memory)
        self._memory = memory
        self._lanes = LaneReader(places, PRECISION)
        self._free = list(range(places - 1, -1, -1))
        self._tickets = itertools.count()
        self._waiting: deque[_Work] = deque()
        self._active: list[_Work] = []
        self._finished: dict[int, Result] = {}
        self._damaged = False
        self.passes = self.settled = self.cost = self.epochs = 0

    def submit_encode(self, symbols: Symbols, check: int) -> int:
        """Queue a slot for encoding.

        Args:
            symbols: (n,) int32, n >= 1.
            check: slot check that the lane will carry, 8 bits.

        Returns:
            The ticket under which `collect` returns an EncodedSlot.
        """
        return self._submit(_Work(next(self._tickets), symbols, None, check))

    def submit_decode(self, lane: bytes, tokens: int) -> int:
        """Queue a slot for decoding.

        Returns:
            The ticket under which `collect` returns a DecodedSlot, or a DamagedError.
        """
        return self._submit(_Work(next(self._tickets), np.zeros(tokens, dtype=np.int32), lane))

    def step(self) -> int:
        """Run one target pass over all active slots, admitting waiting ones first.

        With a memory, slots wait at the border of the epoch for those that are not there yet, and damage to one ends
        all.

        Returns:
            Number of symbols settled; 0 when there is nothing to do.
        """
        self._admit()
        if not self._active or (self._memory is not None and self._damaged):
            return 0
        border = self._capacity if self._memory is None else self._memory.border
        ready = [work for work in self._active if work.settled < border]
        decoding = [work for work in ready if work.lane is not None]
        self._propose(decoding, border)
        window = self._window or max(1, _PASS_ROWS // len(self._active))
        self.passes += sum(work.lane is not None or work.read < min(border, len(work.symbols)) for work in ready)
        ready.sort(key=lambda work: -len(work.draft))  # dealt out in this order, so that each worker gets as much
        shares = self._workers.share(ready)
        before = self.settled
        for settled, cost in self._workers.run([partial(self._advance, share, window, border) for share in shares]):
            self.settled += settled
            self.cost += cost
        self._learn(decoding)
        for work in [work for work in self._active if not work.left]:
            self._active.remove(work)
            self._free.append(work.place)
            self._finished[work.ticket] = self._finish(work)
        if self._memory is not None and all(work.settled >= border for work in self._active):
            self._memory.close()
            self.epochs += 1
        return self.settled - before

    def _advance(self, works: Sequence[_Work], window: int, border: int) -> tuple[int, int]:
        """Run some of the active slots through the target; several shares may do so at the same time.

        Returns:
            Symbols settled, and the cost of those encoded.
        """
        encoding = [work for work in works if work.lane is None]
        decoding = [work for work in works if work.lane is not None]
        self._read([work for work in encoding if work.read < min(border, len(work.symbols))], window)
        settled, cost = self._encode(encoding, border) if encoding else (0, 0)
        return settled + (self._decode(decoding) if decoding else 0), cost

    def collect(self) -> dict[int, Result]:
        """Take what has been finished since the last call, by ticket."""
        finished, self._finished = self._finished, {}
        return finished

    def _submit(self, work: _Work) -> int:
        if not 1 <= len(work.symbols) <= self._capacity:
            raise ArgumentError(f"a slot of {len(work.symbols)} tokens; 1 to {self._capacity} are possible here")
        self._waiting.append(work)
        return work.ticket

    def _admit(self) -> None:
        while self._waiting and self._free:
            work = self._waiting.popleft()
            place = self._free[-1]
            if work.lane is None:
                work.starts = np.empty(len(work.symbols), dtype=np.int64)
                work.frequencies = np.empty(len(work.symbols), dtype=np.int64)
                work.hidden, work.scale = self._verifier.room(len(work.symbols))
                if self._memory is not None:
                    self._memory.know(place, 0, work.symbols)
            else:
                try:
                    self._lanes.load(place, work.lane, len(work.symbols))
                except DamagedError as error:
                    self._finished[work.ticket] = error
                    self._damaged = True
                    continue
            work.place = self._free.pop()
            self._active.append(work)

    def _read(self, works: Sequence[_Work], window: int) -> None:
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

    def _encode(self, works: Sequence[_Work], border: int) -> tuple[int, int]:
        stops = [min(work.read, border) for work in works]
        counts = [stop - work.settled for work, stop in zip(works, stops, strict=True)]
        pairs = list(zip(works, stops, strict=True))
        asked = Asked(
            np.repeat([work.place for work in works], counts),
            np.concatenate([np.arange(work.settled, stop) for work, stop in pairs]),
            torch.cat([work.hidden[work.settled : stop] for work, stop in pairs]),
            torch.cat([work.scale[work.settled : stop] for work, stop in pairs]),
        )
        known = np.concatenate([work.symbols[work.settled : stop] for work, stop in pairs])
        starts, frequencies = self._verifier.encode(asked, known)
        first = 0
        for work, stop in pairs:
            here, there = slice(work.settled, stop), slice(first, first + stop - work.settled)
            work.starts[here], work.frequencies[here] = starts[there], frequencies[there]
            first += stop - work.settled
            work.settled = stop
        return first, cost_of(frequencies, PRECISION)

    def _propose(self, works: Sequence[_Work], border: int) -> None:
        """Ask once for the drafts of all slots that are being decoded."""
        if self._drafting is None or not works:
            return
        limits = [min(len(work.symbols), border) - work.settled - 1 for work in works]
        for work, draft in zip(works, self._drafting.propose(_seen(works), limits), strict=True):
            work.draft, work.drafted_at = draft, work.settled

    def _learn(self, works: Sequence[_Work]) -> None:
        """Tell what became of the drafts."""
        if self._drafting is not None and works:
            active = sum(work.lane is not None for work in self._active)
            self._drafting.learn(_seen(works), [work.settled - work.drafted_at for work in works], active)

    def _decode(self, works: list[_Work]) -> int:
        blocks = [
            Block(work.place, work.settled, inputs_of(work.symbols[: work.settled], work.draft)) for work in works
        ]
        settled = self._verifier.decode(blocks, self._lanes)
        for work, symbols in zip(works, settled, strict=True):
            work.symbols[work.settled : work.settled + len(symbols)] = symbols
            work.settled += len(symbols)
        return sum(len(symbols) for symbols in settled)

    def _finish(self, work: _Work) -> Result:
        if work.lane is None:
            lane = encode_lane(work.starts, work.frequencies, PRECISION, work.check)
            return EncodedSlot(lane, float((PRECISION - np.log2(work.frequencies)).sum()))
        try:
            return DecodedSlot(work.symbols, self._lanes.finish(work.place))
        except DamagedError as error:
            self._damaged = True
            return error


def _seen(works: Sequence[_Work]) -> list[Slot]:
    """Slots as a drafter sees them, which must not be able to write into what has been decoded."""
    slots = [Slot(work.ticket, work.symbols[: work.settled], len(work.symbols)) for work in works]
    for slot in slots:
        slot.symbols.flags.writeable = False
    return slots
