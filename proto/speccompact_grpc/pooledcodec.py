"""The codec of one call: its slots go to the pool of the model, and its thread waits for them.

Streams do not know the difference: `SlotCodec` of `speccompact.streams.engine`. What a lane becomes does not depend on
the other slots of a pass, so the bytes are those of any other codec.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from speccompact.errors import DamagedError
from speccompact.memory.group import GroupMemory
from speccompact.memory.logodds import FRAC_ODDS, log2_of_mantissas
from speccompact.modelstore.loading import Target
from speccompact.prospect import Prospect
from speccompact.slotbatch import DecodedSlot, EncodedSlot
from speccompact.speculative.effort import Effort
from speccompact.streams.engine import CodedSlot, Symbols, Tick
from speccompact_grpc.calls import Call
from speccompact_grpc.orders import DecodeSlot, EncodeSlot, Order
from speccompact_grpc.pool import Pool


class PooledCodec:
    """See `SlotCodec`: one use at a time.

    Attributes:
        effort: what its slots have cost. Seconds are of passes that others took part in, too.
    """

    def __init__(self, pool: Pool, call: Call) -> None:
        """Bind a call to the pool of a model."""
        self._pool, self._call = pool, call
        self.effort = Effort(notes=pool.notes)

    @property
    def target(self) -> Target:
        """The model."""
        return self._pool.target

    @property
    def passes(self) -> int:
        """See `SlotCodec`."""
        return self.effort.passes

    def part(self, parts: int) -> "PooledCodec":
        """Return another codec for the same call."""
        return PooledCodec(self._pool, self._call)

    @cached_property
    def _line_ends(self) -> "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]":
        return self.target.vocabulary.holding(ord("\n"))

    def begin_group(self, table_bits: int) -> GroupMemory:
        """See `SlotCodec`. Raises CallEnded where there is no room, too."""
        weights, line_ends = self.target.transformer.weights, self._line_ends
        return self._pool.room.begin(
            self._call, table_bits, lambda: GroupMemory(weights, line_ends, log2_of_mantissas(), table_bits)
        )

    def try_encode(
        self,
        slots: Sequence[Symbols],
        checks: Sequence[int],
        budget: int | None,
        tick: Tick | None = None,
        memory: GroupMemory | None = None,
    ) -> list[EncodedSlot] | None:
        """See `SlotCodec`. Raises CallEnded, too."""
        if not slots:
            return []
        prospect = None if budget is None else Prospect(sum(map(len, slots)), 8 * budget << FRAC_ODDS)
        if memory is not None:
            memory.begin([len(symbols) for symbols in slots])
        wanted = [EncodeSlot(symbols, check) for symbols, check in zip(slots, checks, strict=True)]
        order = self._run(Order(self._call, wanted, memory, prospect), tick)
        if order.hopeless:
            return None
        results = [order.results[number] for number in range(len(slots))]
        return [result for result in results if isinstance(result, EncodedSlot)]

    def decode(
        self, slots: Sequence[CodedSlot], tick: Tick | None = None, memory: GroupMemory | None = None
    ) -> list[DecodedSlot | DamagedError]:
        """See `SlotCodec`. Raises CallEnded, too."""
        longest = self.target.positions
        too_long = DamagedError(f"it declares more than the {longest} tokens that {self.target.name} can hold")
        fitting = {number: slot for number, slot in enumerate(slots) if slot.tokens <= longest}
        if not fitting or (memory is not None and len(fitting) < len(slots)):
            return [too_long] * len(slots)
        if memory is not None:
            memory.begin([slot.tokens for slot in slots])
        order = self._run(
            Order(self._call, [DecodeSlot(slot.payload, slot.tokens) for slot in fitting.values()], memory), tick
        )
        nothing = DecodedSlot(np.empty(0, dtype=np.int32), 0)
        results = dict(zip(fitting, (order.results.get(n, nothing) for n in range(len(fitting))), strict=True))
        found = [results.get(number, too_long) for number in range(len(slots))]
        return [result for result in found if not isinstance(result, EncodedSlot)]

    def _run(self, order: Order, tick: Tick | None) -> Order:
        self._pool.put(order)
        order.wait(tick)
        cohort = order.cohort
        self.effort += Effort(cohort.passes, order.seconds, 0.0, cohort.drafts.acceptance)
        return order
