"""The drafter `model`: a small causal language model with the target's vocabulary, token by token.

It is a converted model like the target itself, and computes with the same kernels. Each slot has a place in a cache;
a draft that was wrong is rolled back by going on from before it. Only a part of the output layer is read: byte-pair
encodings number their tokens in the order in which they were merged, so that the first ones are the frequent ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from speccompact.exact.cache import Cache, Rows, Span
from speccompact.exact.fixedpoint import FRAC_SCORE
from speccompact.exact.transformer import ESCAPE_INPUT, START_TOKEN, Kernels, Transformer
from speccompact.exact.weights import Weights
from speccompact.speculative.calibrating import Calibration
from speccompact.speculative.drafter import NOTHING, Draft, Slot, Symbols

MOST: Final = 8
"""Symbols of a draft, at most."""

LISTED: Final = 16384
"""Tokens that can be drafted: the first ones of the vocabulary."""

FLOOR: Final = 0.1
"""Chance below which a draft does not go on: every symbol takes a pass of the small model."""

KIND: Final = "model"

_READ_AT_ONCE: Final = 512
"""Positions of a slot that a pass catches up with: a slot that was not asked about for long has many."""


@dataclass(slots=True)
class _Place:
    """What stands in a place of the cache.

    Attributes:
        inputs: (capacity,) int32, the token at each position that has been computed.
        count: positions computed.
        used: number of the round in which it was asked about last.
    """

    inputs: npt.NDArray[np.int32]
    count: int = 0
    used: int = 0


class ModelDrafter:
    """Drafts greedily with a small causal model, see `Drafter`."""

    def __init__(self, weights: Weights, kernels: Kernels, most: int = MOST, floor: float = FLOOR) -> None:
        """Make the model ready.

        Args:
            weights: of a model with the target's vocabulary.
            kernels: that can run on the device of the weights.
            most: symbols of a draft, at most.
            floor: a draft ends where it would get there with less than this chance.
        """
        head = weights.head
        few = replace(head, weight=head.weight[:LISTED].contiguous(), channel=head.channel[:LISTED].contiguous())
        self._weights = replace(weights, head=few)
        self._transformer = Transformer(self._weights, kernels)
        self._most, self._floor = most, floor
        self._calibration = Calibration(most)
        self._capacity, self._round = 0, 0
        self._cache: Cache | None = None
        self._places: list[_Place] = []
        self._of: dict[int, int] = {}

    def begin(self, capacity: int) -> None:
        """See `Drafter.begin`."""
        self._capacity = min(capacity + self._most, self._weights.positions)
        self._cache = None
        self._places, self._of = [], {}

    def propose(self, slots: Sequence[Slot], limits: Sequence[int]) -> list[Draft]:
        """See `Drafter.propose`. Slots that have outgrown the small model get nothing."""
        self._round += 1
        room = self._capacity - 1
        asked = [n for n, limit in enumerate(limits) if limit > 0 and len(slots[n].symbols) < room]
        drafts = [NOTHING] * len(slots)
        if not asked:
            return drafts
        if len(slots) > len(self._places):
            self._reserve(len(slots))
        places = [self._place(slots[n].key) for n in asked]
        most = np.array([min(limits[n], self._most, room - len(slots[n].symbols)) for n in asked])
        said, chances, lengths = self._draft([slots[n].symbols for n in asked], places, most)
        raw = [Draft(said[i, :size], chances[i, :size], KIND) for i, size in enumerate(lengths.tolist())]
        corrected = self._calibration.correct([slots[n] for n in asked], raw)
        for n, draft in zip(asked, corrected, strict=True):
            drafts[n] = draft
        return drafts

    def learn(self, slots: Sequence[Slot], drafts: Sequence[Draft], settled: Sequence[int]) -> None:
        """See `Drafter.learn`."""
        self._calibration.settle(slots)

    def _draft(
        self, texts: Sequence[Symbols], places: Sequence[int], most: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """Return symbols and chances (slots, most), and how many count."""
        count = len(texts)
        symbols = np.zeros((count, int(most.max())), np.int32)
        chances = np.zeros(symbols.shape, np.float32)
        lengths, survival = np.zeros(count, np.int64), np.ones(count)
        going = np.arange(count)
        best, chance = self._read(texts, places)
        for position in range(symbols.shape[1]):
            symbols[going, position], chances[going, position] = best, chance
            lengths[going] += 1
            survival[going] *= chance
            keep = (most[going] > position + 1) & (survival[going] >= self._floor)
            going, last = going[keep], best[keep]
            if not len(going):
                break
            best, chance = self._step([places[n] for n in going.tolist()], last)
        return symbols, chances, lengths

    def _read(self, texts: Sequence[Symbols], places: Sequence[int]) -> tuple[Symbols, npt.NDArray[np.float32]]:
        """Catch up with what has settled; return what may follow each text."""
        starts = []
        for text, number in zip(texts, places, strict=True):
            place = self._places[number]
            wanted = np.empty(len(text) + 1, np.int32)
            wanted[0], wanted[1:] = START_TOKEN, text
            wanted[(wanted < 0) | (wanted >= self._weights.vocab)] = ESCAPE_INPUT
            known = min(place.count, len(text))
            same = place.inputs[:known] == wanted[:known]
            starts.append(known if same.all() else int(same.argmin()))
            place.inputs[starts[-1] : len(wanted)] = wanted[starts[-1] :]
            place.count = starts[-1]
        stops = [len(text) + 1 for text in texts]
        while True:
            spans = [
                (number, start, min(stop, start + _READ_AT_ONCE))
                for number, start, stop in zip(places, starts, stops, strict=True)
            ]
            behind = any(end < stop for (_, _, end), stop in zip(spans, stops, strict=True))
            found = self._run([Span(number, start, end - start) for number, start, end in spans])
            if not behind:
                return found
            starts = [min(end, stop - 1) for (_, _, end), stop in zip(spans, stops, strict=True)]

    def _step(self, places: Sequence[int], last: Symbols) -> tuple[Symbols, npt.NDArray[np.float32]]:
        """Read a drafted symbol in each place; return what may follow."""
        spans = []
        for number, symbol in zip(places, last.tolist(), strict=True):
            place = self._places[number]
            place.inputs[place.count] = symbol
            spans.append(Span(number, place.count, 1))
        return self._run(spans)

    def _run(self, spans: Sequence[Span]) -> tuple[Symbols, npt.NDArray[np.float32]]:
        """One pass; return the likeliest token behind each span, and its chance."""
        assert self._cache is not None
        tokens = np.concatenate([self._places[s.place].inputs[s.start : s.start + s.count] for s in spans])
        rows = Rows.of(spans)
        device = self._weights.embed.device
        hidden, scale = self._transformer.hidden(
            torch.from_numpy(tokens.astype(np.int64)).to(device), rows, self._cache
        )
        for span in spans:
            self._places[span.place].count = span.start + span.count
        ends = torch.tensor([offset + span.count - 1 for offset, span in zip(rows.offsets, spans, strict=True)])
        ends = ends.to(device)
        scores = self._transformer.scores(hidden[ends].contiguous(), scale[ends].contiguous()).float()
        best, at = scores.max(-1)
        shares = torch.exp2((scores - best[:, None]) / (1 << FRAC_SCORE)).sum(-1).reciprocal()
        return at.int().cpu().numpy(), shares.float().cpu().numpy()

    def _reserve(self, slots: int) -> None:
        """Begin with room for so many slots; what was read before is read once more."""
        self._cache = Cache(self._weights, slots, self._capacity)
        self._places = [_Place(np.zeros(self._cache.capacity, np.int32)) for _ in range(slots)]
        self._of = {}

    def _place(self, key: int) -> int:
        """Return the place of a slot; a new one takes the place that was asked about least lately."""
        number = self._of.get(key)
        if number is None:
            number = min(range(len(self._places)), key=lambda n: self._places[n].used)
            self._of = {other: place for other, place in self._of.items() if place != number}
            self._of[key] = number
            self._places[number].count = 0
        self._places[number].used = self._round
        return number
