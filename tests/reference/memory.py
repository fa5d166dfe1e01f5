"""EXACT.md sections 11.1, 11.4 and 11.5: a memory, and the slots of a frame that are coded with it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

from tests.reference.adapting import OutputRows, Reading
from tests.reference.coding import tiling, token_room, token_weights
from tests.reference.contexts import Entry, Table, hashes
from tests.reference.exactmodel import ExactModel
from tests.reference.logodds import log2, odds
from tests.reference.mixer import Flag, Mixer, States, state
from tests.reference.network import Network

POOL = 24
TRIED = 6
LEAST_ODDS = 17728
VOTERS = (*range(9, -1, -1), *range(10, 15))
"""The order in which contexts name candidates."""


@dataclass(frozen=True)
class Candidate:
    """A symbol that may be flagged, the states of the contexts towards it, and the contexts in whose entry it is."""

    symbol: int
    states: States
    found: list[int]


@dataclass(frozen=True)
class Row:
    """A position before its symbol is known."""

    contexts: list[int | None]
    q8: list[int]
    weights: list[int]
    flags: list[Flag]
    starts: list[int]
    """Of the intervals: claims, tokens, escapes; and where the last one ends."""

    def symbol(self, interval: int) -> int:
        claims = len(self.flags)
        return self.flags[interval].symbol if interval < claims else interval - claims


Choose = Callable[[int, Row], int]
"""Given the number of a slot and its next position, returns the number of the interval there."""


class Memory:
    """What model slots share."""

    def __init__(self, model: ExactModel, table_bits: int) -> None:
        self._model = model
        self._line_ends = {symbol for symbol, spelt in enumerate(model.symbols) if b"\n" in spelt}
        self._table = Table(table_bits)
        self._mixer = Mixer()
        self._output = OutputRows()

    def frame(self, lengths: Sequence[int], choose: Choose) -> list[list[int]]:
        """Code the slots of a frame side by side (11.1) and return their symbols."""
        networks = [Network(self._model) for _ in lengths]
        slots: list[list[int]] = [[] for _ in lengths]
        for begin, end in pairwise(borders(max(lengths))):
            rows: list[tuple[Row, int]] = []
            for number, length in enumerate(lengths):
                symbols = slots[number]
                for _ in range(begin, min(end, length)):
                    q8, scores = networks[number].output(symbols[-1] if symbols else None)
                    row = self._row(symbols, q8, scores)
                    symbols.append(row.symbol(choose(number, row)))
                    rows.append((row, symbols[-1]))
            self._learn(rows)
        return slots

    def _row(self, before: Sequence[int], q8: list[int], scores: list[int]) -> Row:
        """Return the position behind some symbols of a slot."""
        contexts = hashes(before, self._line_ends)
        entries = [None if context is None else self._table.look_up(context) for context in contexts]
        adapted = self._output.adapted(scores, q8)
        weights = token_weights(adapted, self._model.exp2)
        candidates = pool(entries)
        best = adapted.index(max(adapted))
        if all(candidate.symbol != best for candidate in candidates):
            states = [None if entry is None else state(0, entry.total(), 2) for entry in entries]
            candidates.append(Candidate(best, states, []))
        vocab, escapes = len(weights), len(self._model.symbols) - len(weights)
        flags, claims = self._flags(candidates, best, weights, token_room(vocab, escapes))
        claimed = {flag.symbol for flag in flags}
        left = [0 if v in claimed else w for v, w in enumerate(weights)]
        return Row(contexts, q8, weights, flags, tiling(left, escapes, claims))

    def _flags(
        self, candidates: list[Candidate], best: int, weights: Sequence[int], room: int
    ) -> tuple[list[Flag], list[int]]:
        """Section 11.5: return flags and claims."""
        total = sum(weights)

        def weight(symbol: int) -> int:
            return weights[symbol] if symbol < len(weights) else total >> 15

        def promise(candidate: Candidate) -> int:
            w = weight(candidate.symbol)
            wanted = sum(self._vote(candidate, i) for i in candidate.found) + 6 * (log2(max(1, w)) - log2(total))
            return wanted + (40 * max(0, odds(w, total - w) + LEAST_ODDS) if candidate.symbol == best else 0)

        places = [(promise(candidate), candidate) for candidate in candidates]
        flags: list[Flag] = []
        claims: list[int] = []
        count = min(TRIED, len(places))
        rest, still_open = total, room - count
        for k in range(count):
            first = max(range(k, len(places)), key=lambda place: places[place][0])
            places[k], places[first] = places[first], places[k]
            candidate = places[k][1]
            w = weight(candidate.symbol)
            flags.append(self._mixer.flag(k, candidate.symbol, candidate.states, w, rest, lengths_of(candidate)))
            share = (still_open * flags[-1].likely) >> 22
            claims.append(share + 1)
            rest, still_open = rest - w, still_open - share
        return flags, claims

    def _vote(self, candidate: Candidate, i: int) -> int:
        s = candidate.states[i]
        return 0 if s is None else max(0, self._mixer.right(i, s) + LEAST_ODDS) * (20 + 3 * min(i, 10))

    def _learn(self, rows: Sequence[tuple[Row, int]]) -> None:
        """Learn from an epoch: its rows and the symbols that came."""
        self._mixer.learn(list(chain.from_iterable(counted(row.flags, symbol) for row, symbol in rows)))
        self._output.learn([Reading(row.q8, row.weights, symbol) for row, symbol in rows])
        for row, symbol in rows:
            for context in row.contexts:
                if context is not None:
                    self._table.insert(context, symbol)


def borders(length: int) -> list[int]:
    """Return where the epochs of a frame begin, and the end of the last one."""
    return [0, 1, 2, 3, 4, 6, 8, 12, *range(16, length + 16, 16)]


def pool(entries: Sequence[Entry | None]) -> list[Candidate]:
    """Section 11.4."""
    there = [entry for i in VOTERS if (entry := entries[i]) is not None]
    named = [symbol for entry in there for symbol, _ in entry.symbols]
    candidates = []
    for symbol in list(dict.fromkeys(named))[:POOL]:
        states: States = []
        found = []
        for i, entry in enumerate(entries):
            if entry is None:
                states.append(None)
                continue
            n, seen = entry.total(), [(count, r) for r, (kept, count) in enumerate(entry.symbols) if kept == symbol]
            if seen:
                found.append(i)
            count, r = seen[0] if seen else (0, 2)
            states.append(state(count, n - count, r))
        candidates.append(Candidate(symbol, states, found))
    return candidates


def lengths_of(candidate: Candidate) -> tuple[int, int]:
    """Return length and longest (11.5)."""
    length = max((1 + i for i in candidate.found if i < 10), default=0)
    longest = max((1 + i for i, s in enumerate(candidate.states[:10]) if s is not None), default=0)
    return length, longest


def counted(flags: Sequence[Flag], symbol: int) -> list[tuple[Flag, bool]]:
    """Return the flags up to the one whose candidate came."""
    count = next((k + 1 for k, flag in enumerate(flags) if flag.symbol == symbol), len(flags))
    return [(flag, flag.symbol == symbol) for flag in flags[:count]]
