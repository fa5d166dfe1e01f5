"""Texts that are alike, next to each other: MinHash signatures of their beginnings, and an order made of them.

Texts that share a band of their signatures are in one cluster. Clusters come in the order of their first paths, and
texts of one cluster in the order of their paths, so that where nothing is alike the order is that of the paths: files
of one folder have more in common than chance.
"""

import re
from collections.abc import Sequence

HEAD_BYTES = 1 << 16
"""Bytes of a file that are looked at."""

_HASHES = 16
_BAND = 2  # equal hashes that join two texts: half of those with a similarity of 0.3 meet in one of the bands
_WORD = re.compile(rb"[^\s]+")
_SHINGLE = 3
_SEED = 1


def signature(head: bytes) -> tuple[int, ...]:
    """Return the MinHash signature of runs of three words of a text; empty where there is no run."""
    from rensa import RMinHash

    words = _WORD.findall(head)
    runs = {b" ".join(words[at : at + _SHINGLE]) for at in range(len(words) - _SHINGLE + 1)}
    if not runs:
        return ()
    sketch = RMinHash(num_perm=_HASHES, seed=_SEED)
    sketch.update(sorted(runs))
    return tuple(sketch.digest())


def alike_order(paths: Sequence[bytes], signatures: Sequence[tuple[int, ...]]) -> list[int]:
    """Return the numbers of texts in the order in which they are best compressed."""
    parents = list(range(len(paths)))

    def find(number: int) -> int:
        while parents[number] != number:
            parents[number] = parents[parents[number]]
            number = parents[number]
        return number

    order = sorted(range(len(paths)), key=lambda number: paths[number])
    rank = {number: place for place, number in enumerate(order)}
    seen: dict[tuple[int, tuple[int, ...]], int] = {}
    for number in order:
        for start in range(0, len(signatures[number]), _BAND):
            other = seen.setdefault((start, signatures[number][start : start + _BAND]), number)
            first, second = sorted((find(other), find(number)), key=rank.__getitem__)
            parents[second] = first
    return sorted(order, key=lambda number: (rank[find(number)], rank[number]))
