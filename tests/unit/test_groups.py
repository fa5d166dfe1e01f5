"""Frames that share a memory, from stream to stream: in order, at any place, after damage."""

import io
import random
from dataclasses import replace

import pytest

from speccompact import api
from speccompact.container.format import FileHeader, MemoryIdentity, ModelIdentity, sha_prefix
from speccompact.container.frames import Kind
from speccompact.container.limits import Limits
from speccompact.container.locating import FrameMap, frame_at, locate
from speccompact.container.seekable import PartWriter
from speccompact.container.source import Source
from speccompact.errors import DamagedError, LimitError
from speccompact.params import EXACT_VERSION, MEMORY_VERSION, PRECISION
from speccompact.streams import decompressing
from speccompact.streams.engine import Engine
from speccompact.streams.framecodec import encode_frame
from speccompact.streams.summary import Summary
from speccompact.text.slots import plan_frame
from speccompact.text.texts import plan_texts
from tests.archives import SLOT_TOKENS, Pipe, noise
from tests.fakes import FakeCodec, FakeEngines, prose

TEXT = prose(60_000)


def pack(content: bytes, group_frames: int) -> bytes:
    return api.compress(content, slot_tokens=SLOT_TOKENS, group_frames=group_frames, engines=FakeEngines())


def frames_of(archive: bytes) -> tuple[Source, FrameMap]:
    source = Source(io.BytesIO(archive))
    return source, locate(source, Limits())


def group_starts(archive: bytes) -> list[bool]:
    source, frames = frames_of(archive)
    heads = [frame_at(source, Limits(), frames, n)[0].head for n in range(len(frames.offsets))]
    return [not head.goes_on for head in heads if head.count(Kind.MODEL)]


ARCHIVE = pack(TEXT, 3)
COUNT = len(group_starts(ARCHIVE))


def test_a_group_has_so_many_frames() -> None:
    assert COUNT >= 7
    assert group_starts(ARCHIVE) == [n % 3 == 0 for n in range(COUNT)]
    assert group_starts(pack(TEXT, 1)) == [True] * COUNT
    assert group_starts(pack(TEXT, 10_000)) == [True] + [False] * (COUNT - 1)


@pytest.mark.parametrize("group_frames", [0, 1, 2, 5, 10_000])
def test_there_and_back(group_frames: int) -> None:
    for content in (TEXT, prose(200), TEXT + noise(200_000) + TEXT, noise(9 << 20) + TEXT):
        archive = pack(content, group_frames)
        assert api.decompress(archive, engines=FakeEngines()) == content
        assert api.decompress(archive * 2, engines=FakeEngines()) == content * 2


@pytest.mark.parametrize("pipe", [False, True])
def test_any_range(pipe: bool) -> None:
    source = random.Random(3)
    for _ in range(12):
        start, length = source.randrange(len(TEXT)), source.randrange(20_000)
        target = io.BytesIO()
        stream = Pipe(ARCHIVE, 5000) if pipe else io.BytesIO(ARCHIVE)
        api.decompress_stream(stream, target, byte_range=(start, length), engines=FakeEngines())  # type: ignore[arg-type]
        assert target.getvalue() == TEXT[start : start + length]


def test_reading_at_any_place_decodes_no_more_than_the_group() -> None:
    frames = api.inspect(ARCHIVE).frames
    engines = FakeEngines()
    with api.open(io.BytesIO(ARCHIVE), engines=engines) as content:
        before = 0
        for number, decoded in ((4, 2), (5, 1), (3, 1), (5, 2), (0, 1), (6, 1)):
            content.seek(frames[number].content_start + 5)
            assert content.read(10) == TEXT[content.tell() - 10 : content.tell()]
            assert engines.codec.calls - before == decoded, number
            before = engines.codec.calls


def test_frames_without_text_are_no_part_of_a_group() -> None:
    border = api.inspect(ARCHIVE).frames[3].content_start
    content = TEXT[:border] + noise(9 << 20) + TEXT[border:]
    archive = pack(content, 10_000)
    starts = group_starts(archive)
    assert starts == [True] + [False] * (len(starts) - 1)
    with api.open(io.BytesIO(archive), engines=FakeEngines()) as stream:
        stream.seek(len(content) - 50)
        assert stream.read() == content[-50:]
        stream.seek(25_000)
        assert stream.read(100) == content[25_000:25_100]


def test_damage_takes_the_rest_of_its_group_and_no_more() -> None:
    frames = api.inspect(ARCHIVE).frames
    _, places = frames_of(ARCHIVE)
    damaged = bytearray(ARCHIVE)
    damaged[places.offsets[4] + 60] ^= 1
    with pytest.raises(DamagedError):
        api.decompress(bytes(damaged), engines=FakeEngines())
    target = io.BytesIO()
    summary = api.decompress_stream(io.BytesIO(damaged), target, salvage=True, engines=FakeEngines())
    lost = [(gap.start, gap.stop) for gap in summary.lost]
    starts = [frame.content_start for frame in frames]
    assert lost == [(starts[4], starts[5]), (starts[5], starts[6])]
    assert target.getvalue() == TEXT[: starts[4]] + TEXT[starts[6] :]
    assert "goes on from a frame" in summary.lost[1].reason


def test_a_frame_that_goes_on_from_nothing_is_damaged() -> None:
    source, frames = frames_of(ARCHIVE)
    second = frame_at(source, Limits(), frames, 1)[1]
    head = ARCHIVE[: frames.offsets[0]]
    with pytest.raises(DamagedError):
        api.decompress(head + second + ARCHIVE[frames.offsets[2] :], engines=FakeEngines())


def test_a_frame_of_another_part_leaves_the_memory_alone() -> None:
    raw = pack(noise(300), 3)
    with api.open(io.BytesIO(ARCHIVE + raw), engines=FakeEngines()) as content:
        for start in (0, len(TEXT) + 5, api.inspect(ARCHIVE).frames[1].content_start):
            content.seek(start)
            assert content.read(10) == (TEXT + noise(300))[start : start + 10]


def test_the_order_of_reading_decides_nothing() -> None:
    """The first frame of a part goes on from nothing, also where a later one has left a memory."""
    _, frames = frames_of(ARCHIVE)
    first, head_check = frames.offsets[0] + 4, 4
    info = api.inspect(ARCHIVE).frames[0]
    size = info.compressed_bytes - info.payload_bytes - 4 - head_check - 4 - 8
    head = bytes([ARCHIVE[first] | 0x20]) + ARCHIVE[first + 1 : first + size]
    header = ARCHIVE[: frames.offsets[0] - 4]
    broken = ARCHIVE[:first] + head + sha_prefix(4, header, head) + ARCHIVE[first + size + head_check :]
    with pytest.raises(DamagedError, match="before it there is no frame with model slots in its part"):
        api.decompress(broken, engines=FakeEngines())
    with api.open(io.BytesIO(broken), engines=FakeEngines()) as content:
        content.seek(frames.starts[4])
        assert content.read(10) == TEXT[frames.starts[4] :][:10]
        content.seek(0)
        with pytest.raises(DamagedError, match="before it there is no frame with model slots in its part"):
            content.read(10)


def pack_frames(pieces: list[bytes]) -> bytes:
    """Return a part with a frame for each piece, all those of text in one group."""
    engine = FakeEngines().engine
    target = engine.codec.target
    model = ModelIdentity(EXACT_VERSION, PRECISION, target.digest[:8], target.vocabulary_digest[:2])
    memory = engine.codec.begin_group(12)
    archive = io.BytesIO()
    writer = PartWriter(archive, FileHeader(5, model, b"file", MemoryIdentity(MEMORY_VERSION, 12)))
    goes_on = False
    for piece in pieces:
        plan = plan_frame(piece, final=True, tokenizer=engine.tokenizer, slot_tokens=SLOT_TOKENS, frame_slots=64)
        built = encode_frame(piece, plan.slots, lambda: engine, memory=lambda: memory)
        writer.frame(replace(built.head, goes_on=goes_on and bool(built.head.count(Kind.MODEL))), built.payload, piece)
        goes_on = goes_on or bool(built.head.count(Kind.MODEL))
    writer.close()
    return archive.getvalue()


TEXTS = [TEXT[at : at + 3000] for at in (0, 3000, 6000, 9000)]
MIXED = [TEXTS[0], noise(300), *TEXTS[1:]]


def damaged(at: int) -> tuple[bytes, Summary]:
    """Return what a salvage of MIXED gets, with a byte changed so far behind the beginning of frame 1 or 2."""
    archive = bytearray(pack_frames(MIXED))
    assert api.decompress(bytes(archive), engines=FakeEngines()) == b"".join(MIXED)
    archive[at] ^= 1
    target = io.BytesIO()
    summary = api.decompress_stream(io.BytesIO(archive), target, salvage=True, engines=FakeEngines())
    return target.getvalue(), summary


@pytest.mark.parametrize("ahead", [5, 100])
def test_damage_to_a_frame_without_text_costs_that_frame_alone(ahead: int) -> None:
    """Also where it is the head: the frame checks of those that follow say that the memory is still theirs."""
    content, summary = damaged(api.inspect(pack_frames(MIXED)).frames[1].offset + ahead)
    assert content == b"".join(TEXTS)
    assert [(gap.start, gap.stop) for gap in summary.lost] == [(3000, 3300)]


@pytest.mark.parametrize("ahead", [5, 100])
def test_damage_to_text_behind_a_frame_without_costs_the_rest_of_the_group(ahead: int) -> None:
    content, summary = damaged(api.inspect(pack_frames(MIXED)).frames[2].offset + ahead)
    assert content == b"".join(MIXED[:2])
    reasons = [gap.reason for gap in summary.lost]
    assert len(reasons) == 3
    assert ("for a frame before it is lost" in reasons[1]) == (ahead == 5)
    assert "goes on from a frame that could not be decoded" in reasons[2]


@pytest.mark.parametrize("group_frames", [0, 3])
def test_a_pipe_is_not_decoded_before_the_group_of_the_range(group_frames: int) -> None:
    archive = pack(TEXT, group_frames)
    frames, engines, target = api.inspect(archive).frames, FakeEngines(), io.BytesIO()
    start = frames[7].content_start
    stream = Pipe(archive, 5000)
    api.decompress_stream(stream, target, byte_range=(start, 10), engines=engines)  # type: ignore[arg-type]
    assert target.getvalue() == TEXT[start : start + 10]
    assert engines.codec.calls == (2 if group_frames else 1)


def test_a_large_group_of_a_pipe_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompressing, "_GROUP_BYTES", 2000)
    archive, target = pack(TEXT, 10_000), io.BytesIO()
    start = api.inspect(archive).frames[7].content_start
    stream = Pipe(archive, 5000)
    api.decompress_stream(stream, target, byte_range=(start, 10), engines=FakeEngines())  # type: ignore[arg-type]
    assert target.getvalue() == TEXT[start : start + 10]


def test_a_range_that_needs_no_memory_decodes_no_group() -> None:
    raw = noise(300)
    engines, target, stream = FakeEngines(), io.BytesIO(), Pipe(ARCHIVE + pack(raw, 3), 5000)
    api.decompress_stream(stream, target, byte_range=(len(TEXT) + 5, 10), engines=engines)  # type: ignore[arg-type]
    assert target.getvalue() == raw[5:15]
    assert engines.codec.calls == 0


def test_what_is_kept_of_a_pipe_is_counted_as_it_lies_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    archive, raw = pack(TEXT, 10_000), pack(noise(300), 3)
    monkeypatch.setattr(decompressing, "_GROUP_BYTES", len(archive))
    engines, target, stream = FakeEngines(), io.BytesIO(), Pipe(archive + raw, 5000)
    api.decompress_stream(stream, target, byte_range=(len(TEXT) + 5, 10), engines=engines)  # type: ignore[arg-type]
    assert target.getvalue() == noise(300)[5:15]
    assert engines.codec.calls > 0


@pytest.mark.parametrize("pipe", [False, True])
def test_progress_goes_on_while_a_group_is_decoded_for_a_range(pipe: bool) -> None:
    frames, seen = api.inspect(ARCHIVE).frames, list[int]()
    stream = Pipe(ARCHIVE, 5000) if pipe else io.BytesIO(ARCHIVE)
    place = (frames[5].content_start, 10)
    api.decompress_stream(stream, io.BytesIO(), byte_range=place, engines=FakeEngines(), progress=seen.append)  # type: ignore[arg-type]
    assert seen == sorted(seen)
    for frame in frames[3:6]:
        assert len([at for at in seen if frame.offset < at < frame.offset + frame.compressed_bytes]) > 2


class UncountedCodec(FakeCodec):
    """Does not say how many passes it takes: a statistic."""

    @property
    def passes(self) -> int:
        return 0

    @passes.setter
    def passes(self, passes: int) -> None:
        pass


def test_a_frame_that_the_model_has_lost_ends_the_group() -> None:
    border = api.inspect(ARCHIVE).frames[1].content_start
    content = TEXT[:border] + noise(6000).hex().encode() + TEXT[border:]
    engines = FakeEngines()
    engines.engine = Engine(UncountedCodec(engines.codec.target), engines.engine.tokenizer)
    archive = api.compress(content, slot_tokens=SLOT_TOKENS, group_frames=10_000, engines=engines)
    assert [frame.model_slots > 0 for frame in api.inspect(archive).frames[:3]].count(False) >= 1
    assert group_starts(archive).count(True) == 2
    assert api.decompress(archive, engines=engines) == content


def test_one_slot_that_the_model_loses_does_not_cost_the_frame() -> None:
    engines = FakeEngines()
    texts = [prose(3000, 1), b"?", prose(900, 2)]
    plan, _ = plan_texts(texts, tokenizer=engines.engine.tokenizer, slot_tokens=512, frame_slots=64)
    memory = engines.codec.begin_group(12)
    built = encode_frame(b"".join(texts), plan.slots, lambda: engines.engine, memory=lambda: memory)
    assert {slot.kind for slot in built.head.slots} == {Kind.MODEL}


@pytest.mark.parametrize(("field", "value"), [("table_bits", 15), ("frame_tokens", 1000)])
def test_limits_of_the_memory(field: str, value: int) -> None:
    with pytest.raises(LimitError, match="memory"):
        api.decompress(ARCHIVE, limits=Limits(**{field: value}), engines=FakeEngines())
