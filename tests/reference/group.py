"""FORMAT.md sections 4.1 and 6.2: the model slots of a part's frames, with a memory or without."""

from collections.abc import Sequence

from tests.reference.coding import Lane, tiling, token_weights
from tests.reference.exactmodel import ExactModel
from tests.reference.memory import Memory
from tests.reference.network import Network
from tests.reference.wire import Refused

VERSION = 1
LEAST_BITS, MOST_BITS = 10, 24


class Group:
    """Reads the model slots of a part, frame after frame, and keeps the memory that the last of them have left."""

    def __init__(self, model: ExactModel, memory: int | None) -> None:
        """Begin a part; `memory` is the byte of its header."""
        if memory is not None and not (memory >> 5 == VERSION and LEAST_BITS <= memory & 31 <= MOST_BITS):
            raise Refused(f"memory {memory:02x} is unknown")
        self._model = model
        self._table_bits = None if memory is None else memory & 31
        self._memory: Memory | None = None

    def frame(self, payloads: Sequence[bytes], lengths: Sequence[int], goes_on: bool) -> list[tuple[bytes, int]]:
        """Return the joined bytes and the slot check of each model slot of a frame."""
        if max(lengths) > self._model.positions:
            raise Refused("a model slot is longer than the model's positions")
        lanes = [Lane(payload) for payload in payloads]
        if self._table_bits is None:
            slots = [self._alone(lane, length) for lane, length in zip(lanes, lengths, strict=True)]
        else:
            if not goes_on:
                self._memory = Memory(self._model, self._table_bits)
            if self._memory is None:
                raise Refused("the first frame with model slots goes on")
            slots = self._memory.frame(lengths, lambda slot, row: lanes[slot].symbol(row.starts))
        joined = [b"".join(self._model.symbols[symbol] for symbol in symbols) for symbols in slots]
        return [(content, lane.end()) for content, lane in zip(joined, lanes, strict=True)]

    def _alone(self, lane: Lane, length: int) -> list[int]:
        network = Network(self._model)
        escapes = len(self._model.symbols) - self._model.vocab
        symbols: list[int] = []
        for _ in range(length):
            weights = token_weights(network.scores(symbols[-1] if symbols else None), self._model.exp2)
            symbols.append(lane.symbol(tiling(weights, escapes)))
        return symbols
