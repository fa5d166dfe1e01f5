"""Symbols of slots to lanes and back, for whole frames: the plain front of `slotbatch`."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Protocol

import numpy as np

from speccompact.errors import DamagedError
from speccompact.memory.group import GroupMemory
from speccompact.memory.logodds import FRAC_ODDS, log2_of_mantissas
from speccompact.modelstore.loading import Target
from speccompact.options import Options
from speccompact.parallel import Workers, available_cores
from speccompact.params import MAX_FRAME_TOKENS
from speccompact.prospect import Prospect
from speccompact.shortage import memory_errors
from speccompact.slotbatch import DecodedSlot, EncodedSlot, Result, SlotBatch
from speccompact.slotwork import Cohort, Symbols
from speccompact.speculative.drafters import make_drafting
from speccompact.speculative.drafting import Drafting
from speccompact.speculative.effort import Effort

Tick = Callable[[int], None]

_MAX_PLACES = 64


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


class Codec:
    """Lanes of whole frames. One call at a time.

    Attributes:
        target: the model.
        passes: target passes since the codec was made, counted once for each slot that took part, so that symbols
            divided by passes are the tokens per pass of a slot.
    """

    def __init__(self, target: Target, options: Options, drafting: Callable[[], Drafting] | None = None) -> None:
        """Bind a model to options.

        Args:
            drafting: makes what drafts while decoding, instead of the drafter that the options name.
        """
        self.target = target
        self.passes = 0
        self._options, self._workers = options, Workers(options.threads)
        self._given = drafting

    @cached_property
    def _drafting(self) -> Drafting:
        """Made when something is decoded: encoding needs no weights of a drafter."""
        if self._given is not None:
            return self._given()
        return make_drafting(self.target.vocabulary, self._options, self._workers)

    @property
    def effort(self) -> Effort:
        """What all passes have cost so far, and what came of drafts."""
        return replace(self._drafting.effort, passes=self.passes)

    def part(self, parts: int) -> "Codec":
        """Return another codec of the same model, for one of so many threads that work at once."""
        threads = max(1, (self._options.threads or available_cores()) // parts)
        return Codec(self.target, replace(self._options, threads=threads), self._given)

    def begin_group(self, table_bits: int) -> GroupMemory:
        """Return an empty memory whose table of contexts has 2**table_bits entries."""
        line_ends = self.target.vocabulary.holding(ord("\n"))
        return GroupMemory(self.target.transformer.weights, line_ends, log2_of_mantissas(), table_bits)

    def try_encode(
        self,
        slots: Sequence[Symbols],
        checks: Sequence[int],
        budget: int | None,
        tick: Tick | None = None,
        memory: GroupMemory | None = None,
    ) -> list[EncodedSlot] | None:
        """Return a lane for every slot, or None if it becomes clear on the way that they will exceed the budget.

        Args:
            slots: (n,) int32 symbols of each, n >= 1.
            checks: slot check of each, 8 bits.
            budget: bytes that all lanes together may have; None for any number. It changes nothing in the lanes, and is
                only looked at with a memory, at the borders of its epochs.
            tick: called with the number of symbols settled by each pass.
            memory: of the group that the slots are the next frame of; it goes on from them. After None, it is of no
                use any more.
        """
        if not slots:
            return []
        prospect = None if budget is None else Prospect(sum(map(len, slots)), 8 * budget << FRAC_ODDS)
        with memory_errors():
            cohort = Cohort(memory)
            batch = self._batch([len(symbols) for symbols in slots], memory, None)
            pairs = zip(slots, checks, strict=True)
            tickets = [batch.submit_encode(symbols, check, cohort) for symbols, check in pairs]
            results = self._run(batch, cohort, tick, prospect)
        if results is None:
            return None
        return [result for ticket in tickets if isinstance(result := results[ticket], EncodedSlot)]

    def decode(
        self, slots: Sequence[CodedSlot], tick: Tick | None = None, memory: GroupMemory | None = None
    ) -> list[DecodedSlot | DamagedError]:
        """Return what every lane holds, or the error that stopped it.

        Without a memory that concerns the lane alone. With one it ends all of them: what comes back of the others is
        of no use.

        Args:
            slots: lanes and their numbers of symbols.
            tick, memory: as above.
        """
        longest = self.target.positions
        too_long = DamagedError(f"it declares more than the {longest} tokens that {self.target.name} can hold")
        if memory is not None and any(slot.tokens > longest for slot in slots):
            return [too_long] * len(slots)
        fitting = [slot for slot in slots if slot.tokens <= longest]
        results: dict[int, Result] = {}
        tickets: list[int] = []
        if fitting:
            with memory_errors():
                cohort = Cohort(memory)
                batch = self._batch([slot.tokens for slot in fitting], memory, self._drafting)
                tickets = [batch.submit_decode(slot.payload, slot.tokens, cohort) for slot in fitting]
                results = self._run(batch, cohort, tick, None) or {}
        nothing = DecodedSlot(np.empty(0, dtype=np.int32), 0)
        found = [results.get(ticket, nothing) for ticket in tickets]
        decoded = iter([result for result in found if not isinstance(result, EncodedSlot)])
        return [next(decoded) if slot.tokens <= longest else too_long for slot in slots]

    def _batch(self, lengths: Sequence[int], memory: GroupMemory | None, drafting: Drafting | None) -> SlotBatch:
        longest = max(lengths)
        places = max(1, min(len(lengths), _MAX_PLACES, MAX_FRAME_TOKENS // longest))
        if memory is not None:
            memory.begin(lengths)
            places = len(lengths)
        return SlotBatch(self.target, self._options, self._workers, places, longest, drafting)

    def _run(
        self, batch: SlotBatch, cohort: Cohort, tick: Tick | None, prospect: Prospect | None
    ) -> dict[int, Result] | None:
        hopeless, asked = False, 0
        while not hopeless and (settled := batch.step()):
            if tick:
                tick(settled)
            if prospect is not None and cohort.epochs > asked:
                asked, hopeless = cohort.epochs, prospect.hopeless(cohort.settled, cohort.cost)
        self.passes += batch.passes
        return None if hopeless else batch.collect()
