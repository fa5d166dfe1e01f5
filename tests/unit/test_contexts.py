"""The table of contexts against a plain model of it in dictionaries."""

import numpy as np
import numpy.typing as npt

from speccompact.memory import contexts
from speccompact.memory.contexts import COUNT, KEPT, ORDERS, ContextTable
from tests.tiny_model import integers

NO_LINES = np.zeros(100, bool)


def hashes(symbols: list[int], position: int, line_ends: npt.NDArray[np.bool_] = NO_LINES) -> list[int]:
    out = np.ones(COUNT, np.uint64)
    contexts.hash_contexts(np.array(symbols, np.int32), np.int64(position), line_ends, out)
    return out.tolist()


def entry(table: ContextTable, hash_: int) -> list[tuple[int, int]]:
    place = contexts.lookup(table.checks, np.uint64(hash_))
    if place < 0:
        return []
    pairs = zip(table.symbols[place].tolist(), table.counts[place].tolist(), strict=True)
    return [(symbol, count) for symbol, count in pairs if symbol >= 0]


def test_a_context_needs_all_of_its_symbols() -> None:
    symbols = list(range(40))
    for position in range(40):
        found = hashes(symbols, position)
        assert [bool(h) for h in found[: len(ORDERS)]] == [order <= position for order in ORDERS]
        assert [bool(h) for h in found[len(ORDERS) :]] == [position >= 3, position >= 4, position >= 4, False, False]


def test_equal_surroundings_are_equal_contexts_and_others_are_not() -> None:
    source = integers(1)
    symbols = [next(source) % 100 for _ in range(60)]
    twice = [1, 2, 3, *symbols, 4, 5, *symbols]
    first, second = hashes(twice, 3 + 40), hashes(twice, 3 + 60 + 2 + 40)
    assert first == second
    twice[3 + 60 + 2 + 39] ^= 1
    changed = hashes(twice, 3 + 60 + 2 + 40)
    skipping = {len(ORDERS), len(ORDERS) + 2}  # those that leave out the symbol just before
    assert [i for i in range(COUNT) if first[i] and changed[i] == first[i]] == sorted(skipping)
    assert len({h for h in first if h}) == sum(map(bool, first))


def test_columns_look_at_the_line_above() -> None:
    ends = NO_LINES.copy()
    ends[9] = True
    text = [1, 2, 3, 9, 5, 6, 7, 8, 9, 5, 6]
    assert hashes(text, 2, ends)[-2:] == [0, 0]  # in the first line
    assert hashes(text, 10, ends)[-1] == hashes([0, 0, *text], 12, ends)[-1] != 0
    assert hashes(text, 8, ends)[-2:] == [0, 0]  # the line above is shorter


def test_an_entry_has_the_newest_symbols_first() -> None:
    table, key = ContextTable.empty(4), 0xABCD000000000005
    wanted: list[list[int]] = []
    source = integers(2)
    for _ in range(300):
        symbol = next(source) % 6
        contexts.insert(table.checks, table.symbols, table.counts, np.uint64(key), np.int32(symbol))
        old = next((pair for pair in wanted[:KEPT] if pair[0] == symbol), None)
        before = wanted[: wanted.index(old)] if old else wanted[: KEPT - 1]
        for pair in before:
            pair[1] -= pair[1] >> 2 if pair[1] > 2 else 0
        rest = wanted[wanted.index(old) + 1 :] if old else []
        wanted = [[symbol, min(255, (old[1] if old else 0) + 1)], *before, *rest]
        assert entry(table, key) == [tuple(pair) for pair in wanted]


def test_counts_end() -> None:
    table = ContextTable.empty(4)
    for _ in range(300):
        contexts.insert(table.checks, table.symbols, table.counts, np.uint64(1 << 50), np.int32(7))
    assert entry(table, 1 << 50) == [(7, 255)]


def test_the_least_seen_gives_way() -> None:
    table = ContextTable.empty(2)  # four entries: every context may be anywhere
    keys = [(n << 49) | 1 for n in range(1, 6)]
    for key, times in zip(keys[:4], (5, 2, 1, 3), strict=True):
        for _ in range(times):
            contexts.insert(table.checks, table.symbols, table.counts, np.uint64(key), np.int32(key >> 49))
    contexts.insert(table.checks, table.symbols, table.counts, np.uint64(keys[4]), np.int32(50))
    assert [entry(table, key) for key in keys] == [[(1, 5)], [(2, 2)], [], [(4, 3)], [(50, 1)]]
