"""Symbols of slots to lanes and back, many slots side by side.

`Engine` is the running batch: slots are submitted, `step` runs one target pass over all that are active, finished ones
are collected. Slots may join and leave between any two steps; what a slot becomes does not depend on its company.
`Codec` is the plain front of it for whole frames.
"""

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt

from speccompact.entropy.cdf import Tiling
from speccompact.entropy.rans import LaneReader, encode_lane
from speccompact.errors import ArgumentError, DamagedError
from speccompact.exact.cache import Cache
from speccompact.memory.predictor import Predictor
from speccompact.modelstore.loading import Target
from speccompact.options import Options
from speccompact.parallel import Workers
from speccompact.params import MAX_FRAME_TOKENS, PRECISION
from speccompact.speculative.drafter import Drafter, NoDrafter
from speccompact.speculative.verifier import Block, Verifier, inputs_of

Symbols = npt.NDArray[np.int32]
Tick = Callable[[int], None]

_PASS_ROWS = 1024
"""Rows that an encoding pass aims at: enough to fill the matrix units, few enough to stay in the caches."""

_MAX_PLACES = 64


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


class CodedSlot(Protocol):
    """A lane, and how many symbols to take from it."""

    @property
    def payload(self) -> bytes:
        """The lane."""
        ...

    @property
    def tokens(self) -> int:
        """Number of symbols, at least 1."""
        ...


Result = EncodedSlot | DecodedSlot | DamagedError


@dataclass(slots=True)
class _Work:
    """A slot on its way. Encoding: symbols are known, intervals fill up. Decoding: symbols fill up."""

    ticket: int
    symbols: Symbols
    lane: bytes | None
    check: int = 0
    place: int = -1
    settled: int = 0
    starts: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    frequencies: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    draft: Symbols = field(default_factory=lambda: np.empty(0, dtype=np.int32))

    @property
    def left(self) -> int:
        return len(self.symbols) - self.settled


class Engine:
    """A running batch of slots on one target. Not safe for use from several threads at once.

    Attributes:
        passes: target passes so far, counted once for each slot that took part.
    """

    def __init__(
        self,
        target: Target,
        options: Options,
        workers: Workers,
        places: int,
        capacity: int,
        drafter: Drafter | None = None,
    ) -> None:
        """Reserve room for a batch.

        Args:
            workers: threads that share each pass.
            places: slots that are active at once; more wait.
            capacity: symbols of the longest slot.
        """
        if capacity > target.positions:
            raise ArgumentError(f"slots of {capacity} tokens exceed the {target.positions} that {target.name} can hold")
        transformer = target.transformer
        tiling = Tiling(target.vocabulary.size, len(target.vocabulary.escapes), PRECISION)
        self._capacity, self._window, self._workers = capacity, options.window, workers
        self._drafter: Drafter = drafter or NoDrafter()
        cache = Cache(transformer.weights, places, capacity)
        self._verifier = Verifier(transformer, Predictor(transformer, tiling), cache)
        self._lanes = LaneReader(places, PRECISION)
        self._free = list(range(places - 1, -1, -1))
        self._tickets = itertools.count()
        self._waiting: deque[_Work] = deque()
        self._active: list[_Work] = []
        self._finished: dict[int, Result] = {}
        self.passes = 0

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

        Returns:
            Number of symbols settled; 0 when there is nothing to do.
        """
        self._admit()
        if not self._active:
            return 0
        self._propose([work for work in self._active if work.lane is not None])
        window = self._window or max(1, _PASS_ROWS // len(self._active))
        groups = self._workers.share(self._active)
        settled = sum(self._workers.run([partial(self._advance, group, window) for group in groups]))
        self.passes += len(self._active)
        for work in [work for work in self._active if not work.left]:
            self._active.remove(work)
            self._free.append(work.place)
            self._finished[work.ticket] = self._finish(work)
        return settled

    def _advance(self, works: Sequence[_Work], window: int) -> int:
        """Run some of the active slots through the target; several groups may do so at the same time."""
        encoding = [work for work in works if work.lane is None]
        decoding = [work for work in works if work.lane is not None]
        settled = self._encode(encoding, window) if encoding else 0
        return settled + (self._decode(decoding) if decoding else 0)

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
            else:
                try:
                    self._lanes.load(place, work.lane)
                except DamagedError as error:
                    self._finished[work.ticket] = error
                    continue
            work.place = self._free.pop()
            self._active.append(work)

    def _encode(self, works: list[_Work], window: int) -> int:
        blocks, wanted = [], []
        for work in works:
            stop = min(work.settled + window, len(work.symbols))
            known = work.symbols[work.settled : stop]
            blocks.append(Block(work.place, work.settled, inputs_of(work.symbols[: work.settled], known[:-1])))
            wanted.append(known)
        starts, frequencies = self._verifier.encode(blocks, np.concatenate(wanted))
        first = 0
        for work, known in zip(works, wanted, strict=True):
            here, there = slice(work.settled, work.settled + len(known)), slice(first, first + len(known))
            work.starts[here], work.frequencies[here] = starts[there], frequencies[there]
            work.settled += len(known)
            first += len(known)
        return first

    def _propose(self, works: Sequence[_Work]) -> None:
        """Ask the drafter once for all slots that are being decoded. What it says is cut to what can follow."""
        limits = [work.left - 1 for work in works]
        drafts = self._drafter.propose([work.symbols[: work.settled] for work in works], limits)
        for work, draft, limit in zip(works, drafts, limits, strict=True):
            work.draft = draft[:limit]

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
            return error


@contextmanager
def _memory_errors() -> Iterator[None]:
    """Torch says with a RuntimeError that memory is short; say it as Python does."""
    try:
        yield
    except RuntimeError as error:
        if "memory" not in str(error):
            raise
        raise MemoryError(str(error).splitlines()[0]) from error


class Codec:
    """Lanes of whole frames. One call at a time.

    Attributes:
        target: the model.
        passes: target passes since the codec was made, counted once for each slot that took part, so that symbols
            divided by passes are the tokens per pass of a slot.
    """

    def __init__(self, target: Target, options: Options, drafter: Drafter | None = None) -> None:
        self.target = target
        self.passes = 0
        self._options, self._drafter, self._workers = options, drafter, Workers(options.threads)

    def encode(self, slots: Sequence[Symbols], checks: Sequence[int], tick: Tick | None = None) -> list[EncodedSlot]:
        """Return a lane for every slot.

        Args:
            slots: (n,) int32 symbols of each, n >= 1.
            checks: slot check of each, 8 bits.
            tick: called with the number of symbols settled by each pass.
        """
        if not slots:
            return []
        with _memory_errors():
            engine = self._engine([len(symbols) for symbols in slots])
            tickets = [engine.submit_encode(symbols, check) for symbols, check in zip(slots, checks, strict=True)]
            results = self._run(engine, tick)
        return [result for ticket in tickets if isinstance(result := results[ticket], EncodedSlot)]

    def decode(self, slots: Sequence[CodedSlot], tick: Tick | None = None) -> list[DecodedSlot | DamagedError]:
        """Return what every lane holds, or the error that stopped that lane alone.

        Args:
            slots: lanes and their numbers of symbols.
            tick: as above.
        """
        longest = self.target.positions
        fitting = [slot for slot in slots if slot.tokens <= longest]
        results: dict[int, Result] = {}
        tickets: list[int] = []
        if fitting:
            with _memory_errors():
                engine = self._engine([slot.tokens for slot in fitting])
                tickets = [engine.submit_decode(slot.payload, slot.tokens) for slot in fitting]
                results = self._run(engine, tick)
        decoded = iter([result for ticket in tickets if not isinstance(result := results[ticket], EncodedSlot)])
        too_long = DamagedError(f"it declares more than the {longest} tokens that {self.target.name} can hold")
        return [next(decoded) if slot.tokens <= longest else too_long for slot in slots]

    def _engine(self, lengths: Sequence[int]) -> Engine:
        longest = max(lengths)
        places = max(1, min(len(lengths), _MAX_PLACES, MAX_FRAME_TOKENS // longest))
        return Engine(self.target, self._options, self._workers, places, longest, self._drafter)

    def _run(self, engine: Engine, tick: Tick | None) -> dict[int, Result]:
        while settled := engine.step():
            if tick:
                tick(settled)
        self.passes += engine.passes
        return engine.collect()
