"""Parts with a memory: the decoder of tests.reference and the product write the same lanes and read each other's."""

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from hashlib import sha256
from itertools import accumulate, pairwise
from pathlib import Path
from struct import pack

import numpy as np
import pytest

from speccompact import api
from speccompact.container.format import FileHeader, MemoryIdentity, ModelIdentity
from speccompact.container.seekable import PartWriter
from speccompact.errors import DamagedError, SpecCompactError
from speccompact.memory.contexts import ContextTable, hash_contexts, insert, lookup
from speccompact.modelstore.loading import load_target
from speccompact.options import Options
from speccompact.params import CodecParams
from speccompact.streams.compressing import StreamCompressor
from speccompact.streams.engine import SlotMemory, StoredEngines
from speccompact.streams.framecodec import encode_frame
from speccompact.text.slots import SlotPlan
from tests.reference import logodds
from tests.reference.contexts import Table, hashes, mix
from tests.reference.decoder import decode
from tests.reference.exactmodel import TABLE_DIGESTS, ExactModel, read_exact_model
from tests.reference.memory import TRIED, Choose, Memory, Row, pool
from tests.reference.network import Network
from tests.reference.wire import Refused, check
from tests.reference.writing import (
    WITH_MEMORY,
    WITH_MODEL,
    changed_model,
    identity,
    raw_section,
    single_part,
    varint,
    write_lanes,
)
from tests.source_tree import ROOT
from tests.tiny_model import TINY_EXACT, babble, tiny
from tests.tiny_model import integers as random_integers
from tests.tiny_slots import PlainCodec, text_symbols, wild_symbols
from tests.tiny_text import STORY

MODEL_DATA = TINY_EXACT.read_bytes()
QUIET = Options(threads=1)
TABLE_BITS = 10
MEMORY = 1 << 5 | TABLE_BITS

Slots = Sequence[Sequence[int]]


@cache
def model() -> ExactModel:
    return read_exact_model(MODEL_DATA)


def models(_digest: bytes) -> bytes:
    return MODEL_DATA


class Watched(Memory):
    """Remembers what it computed, to show that an input does what it is for."""

    def __init__(self, exact: ExactModel, table_bits: int = TABLE_BITS) -> None:
        super().__init__(exact, table_bits)
        self.coded: list[tuple[Row, int]] = []
        self.passed_over = False

    def frame(self, lengths: Sequence[int], choose: Choose) -> list[list[int]]:
        def watch(slot: int, row: Row) -> int:
            entries = [None if context is None else self._table.look_up(context) for context in row.contexts]
            named = {symbol for entry in entries if entry is not None for symbol, _ in entry.symbols}
            passed_over = named - {candidate.symbol for candidate in pool(entries)}
            self.passed_over |= row.weights.index(max(row.weights)) in passed_over
            interval = choose(slot, row)
            self.coded.append((row, row.symbol(interval)))
            return interval

        return super().frame(lengths, watch)

    def claimed(self) -> list[int]:
        """Return the symbols that had been claimed when they came."""
        return [symbol for row, symbol in self.coded if symbol in [flag.symbol for flag in row.flags]]

    def nothing_left(self) -> bool:
        """Return whether all tokens with a weight were claimed at some position."""
        claims = [(row, {flag.symbol for flag in row.flags}) for row, _ in self.coded]
        return any(all(w == 0 or v in claimed for v, w in enumerate(row.weights)) for row, claimed in claims)


def crowd() -> list[list[int]]:
    """Return slots after which more symbols are known to follow those of the first slot than a pool takes.

    The one that is passed over has the largest score.
    """
    whole = text_symbols(8).tolist()
    network = Network(model())
    scores = [network.scores(before) for before in [None, *whole]][-1]
    follower = scores.index(max(scores))
    place = iter({*range(100, 400)} - {*whole, follower})
    return [
        [next(place) for _ in range(8 - order)] + whole[8 - order :] + [next(place) if order > 1 else follower]
        for order in (8, 6, 5, 4, 3, 2, 1)
        for _ in range(4)
    ]


def texts(*lengths: int) -> list[list[int]]:
    return [text_symbols(length, seed % 3).tolist() for seed, length in enumerate(lengths)]


def escapes(size: int) -> list[int]:
    vocab = model().vocab
    return [vocab + place % 3 for place in range(size)]


Expectation = Callable[[Watched], bool]

FRAMES: dict[str, tuple[int, list[Slots], Expectation]] = {
    "slots of all lengths": (
        TABLE_BITS, [texts(66, 1, 17, 3, 16), texts(2, 20)], lambda memory: len(memory.claimed()) > 30
    ),
    "anything": (
        TABLE_BITS, [[wild_symbols(30).tolist(), wild_symbols(12, 1).tolist()], [wild_symbols(40).tolist()]],
        lambda memory: len(memory.claimed()) > 20,
    ),
    "escapes": (
        TABLE_BITS, [[escapes(24), escapes(9)]], lambda memory: max(memory.claimed()) >= model().vocab
    ),
    "more candidates than the pool": (
        16, [crowd(), crowd()[:1]],
        lambda memory: memory.passed_over and len(memory.coded[-1][0].flags) == TRIED,
    ),
}  # fmt: skip


def test_hashes_of_contexts_agree() -> None:
    """Lines of all lengths, up to some that are longer than the search for their ends."""
    source = random_integers(2)
    symbols = [next(source) % 90 for _ in range(1200)]
    symbols += [7 if place in (40, 180, 300, 700) else 8 + next(source) % 90 for place in range(1200)]
    line_ends = np.arange(100) == 7
    found, array = np.empty(15, np.uint64), np.array(symbols, np.int32)
    for position in range(len(symbols)):
        hash_contexts(array, position, line_ends, found)
        assert [None if not h else int(h) for h in found] == hashes(symbols[:position], {7}), position


def test_tables_of_contexts_agree() -> None:
    """More contexts than the table holds, symbols that come hundreds of times, and some that come and go."""
    source = random_integers(3)
    table, reference = ContextTable.empty(TABLE_BITS), Table(TABLE_BITS)
    seen = set()
    for _ in range(6000):
        kind = next(source) % 4
        context = mix(1, next(source) % 3000 if kind else next(source) % 2) | 1
        symbol = next(source) % 7 if next(source) % 400 == 0 or kind else 8
        insert(table.checks, table.symbols, table.counts, np.uint64(context), symbol)
        reference.insert(context, symbol)
        seen.add(context)
    known = 0
    for context in seen:
        place, entry = int(lookup(table.checks, np.uint64(context))), reference.look_up(context)
        assert (place < 0) == (entry is None)
        if entry is not None:
            symbols, counts = table.symbols[place].tolist(), table.counts[place].tolist()
            assert entry.symbols == [(s, c) for s, c in zip(symbols, counts, strict=True) if s >= 0]
            known += 1
    assert 100 < known < len(seen)
    assert table.counts.max() == 255


def product_lanes(coder: PlainCodec, table_bits: int, frames: Sequence[Slots]) -> list[list[bytes]]:
    group = coder.begin_group(table_bits)
    arrays = [[np.array(symbols, np.int32) for symbols in slots] for slots in frames]
    return [
        [slot.payload for slot in coder.encode(slots, [77 + i for i in range(len(slots))], memory=group)]
        for slots in arrays
    ]


def reference_lanes(memory: Memory, frames: Sequence[Slots]) -> list[list[bytes]]:
    return [write_lanes(memory, slots, [77 + i for i in range(len(slots))]) for slots in frames]


@pytest.mark.parametrize("name", FRAMES)
def test_lanes_agree(name: str) -> None:
    table_bits, frames, expected = FRAMES[name]
    memory = Watched(model(), table_bits)
    assert product_lanes(PlainCodec(tiny(QUIET)[0], QUIET), table_bits, frames) == reference_lanes(memory, frames)
    assert expected(memory), "the input does not do what this case is for"


@pytest.mark.parametrize(("k2", "all_claimed"), [(1, False), (20, True), (62, False)])
def test_lanes_agree_on_extreme_models(tmp_path: Path, k2: int, all_claimed: bool) -> None:
    """Scores that are as large as can be, or so far apart that all weight is claimed, or all alike."""
    data = changed_model(MODEL_DATA, {"linears/head/k2": k2})
    path = tmp_path / "extreme.exact"
    path.write_bytes(data)
    memory = Watched(read_exact_model(data))
    frames = [[wild_symbols(20).tolist(), texts(18)[0]]]
    assert product_lanes(PlainCodec(load_target(str(path), QUIET)[0], QUIET), TABLE_BITS, frames) == reference_lanes(
        memory, frames
    )
    assert memory.nothing_left() == all_claimed


NOISE = bytes(next(source) >> 8 for source in [random_integers(1)] for _ in range(300))


def lines(number: int) -> bytes:
    return "".join(f"{babble(20, number + i)}\n{babble(15, 5)}\n" for i in range(2)).encode()


def written(frames: Sequence[Sequence[bytes]], goes_on: Sequence[bool]) -> bytes:
    """Return a part that the product writes from slots that are cut like this; NOISE is not for the model."""
    engine = StoredEngines(QUIET).named(str(TINY_EXACT))
    named = ModelIdentity(1, 28, sha256(MODEL_DATA).digest()[:8], model().vocabulary_digest()[:2])
    target = io.BytesIO()
    writer = PartWriter(target, FileHeader(0, named, b"four", MemoryIdentity(1, TABLE_BITS)))
    memory = engine.codec.begin_group(TABLE_BITS)
    for pieces, going_on in zip(frames, goes_on, strict=True):
        if not going_on and pieces != [NOISE]:
            memory = engine.codec.begin_group(TABLE_BITS)
        ends = list(accumulate(map(len, pieces), initial=0))
        plan = [
            SlotPlan(start, stop, 0, None if piece == NOISE else engine.tokenizer.encode(piece))
            for piece, (start, stop) in zip(pieces, pairwise(ends), strict=True)
        ]
        built = encode_frame(b"".join(pieces), plan, lambda: engine, None, partial(_itself, memory))
        writer.frame(replace(built.head, goes_on=going_on), built.payload, b"".join(pieces))
    writer.close()
    return target.getvalue()


def _itself(memory: SlotMemory) -> SlotMemory:
    return memory


FIRST, SECOND = STORY[:60].encode(), STORY[30:100].encode()
ESCAPED = STORY[300:360].encode() + b"\x00\x04\xff" + STORY[360:390].encode() + b"\x00\x04\xff\x00\x04"

ARCHIVES: dict[str, tuple[list[list[bytes]], list[bool]]] = {
    "a frame of noise inside a group": ([[FIRST], [NOISE], [SECOND], [ESCAPED]], [False, False, True, True]),
    "a frame of noise, groups": ([[NOISE], [lines(0)], [lines(1)], [FIRST]], [False, False, True, False]),
    "noise among the slots": ([[FIRST, NOISE, SECOND], [SECOND, FIRST]], [False, True]),
}  # fmt: skip


@pytest.mark.parametrize("name", ARCHIVES)
def test_it_decodes_what_the_product_writes(tiny_home: Path, name: str) -> None:
    frames, goes_on = ARCHIVES[name]
    archive = written(frames, goes_on)
    info = api.inspect(archive)
    assert [frame.goes_on for frame in info.frames] == goes_on
    assert [frame.model_slots for frame in info.frames] == [len(slots) - slots.count(NOISE) for slots in frames]
    content = b"".join(map(b"".join, frames))
    assert decode(archive, models) == content
    assert api.decompress(archive, options=QUIET) == content


def test_it_decodes_what_the_api_writes() -> None:
    content = babble(200).encode()
    archive = api.compress(content, model=str(TINY_EXACT), slot_tokens=16, group_frames=1, options=QUIET)
    assert api.inspect(archive).frames[0].model_slots > 4
    assert decode(archive, models) == content


def test_it_decodes_groups_that_the_product_forms() -> None:
    content, target = babble(200).encode(), io.BytesIO()
    params = CodecParams(slot_tokens=16, frame_slots=2, group_frames=2)
    StreamCompressor(target, 5, params, str(TINY_EXACT), StoredEngines(QUIET), None).run(io.BytesIO(content))
    frames = api.inspect(target.getvalue()).frames
    assert [frame.goes_on for frame in frames] == [False, True, False, True]
    assert decode(target.getvalue(), models) == content


def part(memory: Memory, symbols: Sequence[int], goes_on: bool = False, claimed: bool = True) -> tuple[bytes, bytes]:
    """Return a single-frame part of one model slot, and its content."""
    content = b"".join(model().symbols[symbol] for symbol in symbols)
    lane = write_lanes(memory, [symbols], [check(1, content)[0]], claimed)[0]
    head = bytes([0x10 | goes_on << 5]) + varint(len(content)) + varint(len(symbols)) + varint(len(lane))
    named = identity(model(), sha256(MODEL_DATA).digest()) + bytes([MEMORY])
    return single_part(WITH_MODEL | WITH_MEMORY, head, lane, content, 1, named), content


def test_a_claimed_symbol_may_come_by_what_it_has_beside(tiny_home: Path) -> None:
    memory = Watched(model())
    archive, content = part(memory, texts(40)[0] + escapes(10), claimed=False)
    assert memory.claimed()
    assert max(memory.claimed()) >= model().vocab
    assert decode(archive, models) == content
    assert api.decompress(archive, options=QUIET) == content


def with_memory(head: str, section: bytes, content: bytes, memory: int = MEMORY, flags: int = 6) -> bytes:
    named = identity(model(), sha256(MODEL_DATA).digest()) + bytes([memory])
    return single_part(flags, bytes.fromhex(head), section, content, 1, named)


HELLO = raw_section(b"hello\n")


def test_a_memory_that_nothing_needs_is_not_looked_at() -> None:
    archive = with_memory("12 06", HELLO, b"hello\n", 0xFF)
    assert decode(archive, models) == b"hello\n"
    assert api.decompress(archive, options=QUIET) == b"hello\n"


@pytest.mark.parametrize(
    "archive",
    [
        single_part(WITH_MEMORY, b"\x12\x06", HELLO, b"hello\n", 1, bytes([MEMORY])),
        with_memory("32 06", HELLO, b"hello\n"),
        single_part(WITH_MODEL, b"\x30\x01\x01\x02", b"\x01\x01", b"h", 1, bytes([1, 28]) + bytes(10)),
        *(
            with_memory("10 01 01 01", b"\x01", b"h", memory)
            for memory in (0, 10, 1 << 5 | 9, 1 << 5 | 25, 2 << 5 | 10)
        ),
    ],
    ids=["memory without model", "raw goes on", "no memory goes on", "0", "version 0", "2^9", "2^25", "version 2"],
)
def test_what_is_invalid_is_refused(tiny_home: Path, archive: bytes) -> None:
    with pytest.raises(Refused):
        decode(archive, models)
    with pytest.raises(SpecCompactError):
        api.decompress(archive, options=QUIET)


def test_a_part_does_not_go_on_from_another(tiny_home: Path) -> None:
    memory = Memory(model(), TABLE_BITS)
    first, content = part(memory, texts(20)[0])
    second, _ = part(memory, texts(20)[0], goes_on=True)
    assert decode(first, models) == content
    for archive in (second, first + second):
        with pytest.raises(Refused):
            decode(archive, models)
        with pytest.raises(DamagedError):
            api.decompress(archive, options=QUIET)
        with api.open(io.BytesIO(archive), options=QUIET) as reader, pytest.raises(DamagedError):
            reader.read()
        with api.open(io.BytesIO(archive), options=QUIET) as reader, pytest.raises(DamagedError):
            reader.seek(len(archive) - len(second))
            reader.read()


def test_the_examples_of_the_memory_hold() -> None:
    text = (ROOT / "EXACT.md").read_text("utf-8")
    functions: dict[str, Callable[..., int]] = {
        "log2": logodds.log2, "odds": logodds.odds, "squash": logodds.squash,
    }  # fmt: skip
    values = re.findall(r"^    (log2|odds|squash)\((-?\d+)(?:, (-?\d+))?\) = (-?\d+)$", text, re.MULTILINE)
    assert len(values) == 14
    for name, *arguments, value in values:
        assert functions[name](*(int(argument) for argument in arguments if argument)) == int(value)
    assert f"log {sha256(pack('<4096i', *logodds.LOG)).hexdigest()}" in text
    assert sha256(pack("<4096i", *logodds.EXP2)).hexdigest() == TABLE_DIGESTS["exp2"]
    stated = re.findall(r"^    context (\d+): (\w+)$", text, re.MULTILINE)
    found = hashes([7, 1, 9, 1, 300], {9})
    assert [(int(i), value) for i, value in stated] == [
        (i, "none" if context is None else f"{context:016x}") for i, context in enumerate(found)
    ]
