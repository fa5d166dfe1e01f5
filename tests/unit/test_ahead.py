"""Groups that are decoded side by side: the same content, the same errors, and no more memory than said."""

import io
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from speccompact import api
from speccompact.container.framing import Frame
from speccompact.container.limits import Limits
from speccompact.container.seekable import FrameReader
from speccompact.container.source import Source
from speccompact.errors import DamagedError, LimitError, ModelMissingError
from speccompact.options import Options
from speccompact.streams import ahead
from speccompact.streams.ahead import GroupsAhead
from speccompact.streams.engine import CodedSlot, Engine
from tests.archives import SLOT_TOKENS, Pipe, noise
from tests.fakes import FakeCodec, FakeEngines, FakeMemory, FakeSlot, FakeTarget, prose

TEXT = prose(60_000)


def pack(content: bytes, group_frames: int) -> bytes:
    return api.compress(content, slot_tokens=SLOT_TOKENS, group_frames=group_frames, engines=FakeEngines())


def unpack(archive: bytes, groups: int, engines: FakeEngines | None = None) -> bytes:
    target = io.BytesIO()
    options = Options(groups=groups)
    api.decompress_stream(io.BytesIO(archive), target, options=options, engines=engines or FakeEngines())
    return target.getvalue()


@pytest.mark.parametrize("groups", [1, 2, 3, 20])
@pytest.mark.parametrize("group_frames", [0, 1, 2, 3, 1000])
def test_the_content_is_the_same(groups: int, group_frames: int) -> None:
    for content in (TEXT, b"", noise(100), TEXT[:20_000] + noise(200_000) + TEXT[20_000:]):
        archive = pack(content, group_frames)
        assert unpack(archive, groups) == content
        assert unpack(archive * 2, groups) == content * 2


def test_the_summary_is_the_same() -> None:
    archive = pack(TEXT, 2)
    summaries = [
        api.verify_stream(io.BytesIO(archive), options=Options(groups=groups), engines=FakeEngines())
        for groups in (1, 3)
    ]
    assert summaries[0] == summaries[1]


def test_a_pipe_is_decoded_in_order() -> None:
    target = io.BytesIO()
    api.decompress_stream(Pipe(pack(TEXT, 2), 999), target, options=Options(groups=3), engines=FakeEngines())  # type: ignore[arg-type]
    assert target.getvalue() == TEXT


def test_what_stands_before_the_archive_is_not_looked_at() -> None:
    stream, target = io.BytesIO(b"before" + pack(TEXT, 2)), io.BytesIO()
    stream.seek(6)
    api.decompress_stream(stream, target, options=Options(groups=3), engines=FakeEngines())
    assert target.getvalue() == TEXT


class MeetingCodec(FakeCodec):
    """Lets nobody through before two are there."""

    def __init__(self, target: FakeTarget) -> None:
        super().__init__(target)
        self.barrier = threading.Barrier(2, timeout=20)

    def decode(
        self,
        slots: Sequence[CodedSlot],
        tick: Callable[[int], None] | None = None,
        memory: FakeMemory | None = None,
    ) -> list[FakeSlot | DamagedError]:
        self.barrier.wait()
        return super().decode(slots, tick, memory)


def test_groups_are_decoded_at_the_same_time() -> None:
    text = TEXT[:14_000]
    archive = pack(text, 1)
    engines = FakeEngines()
    engines.engine = Engine(MeetingCodec(engines.codec.target), engines.engine.tokenizer)
    assert len(api.inspect(archive).frames) == 2
    assert unpack(archive, 2, engines) == text


@pytest.mark.parametrize("groups", [1, 2, 5])
def test_damage_is_told_as_ever(groups: int) -> None:
    archive = pack(TEXT, 2)
    frames = api.inspect(archive).frames
    for frame in (frames[0], frames[3], frames[-1]):
        damaged = bytearray(archive)
        damaged[frame.offset + frame.compressed_bytes - 20] ^= 1
        target = io.BytesIO()
        with pytest.raises(DamagedError, match=f"frame {frame.ordinal} at byte {frame.offset} is damaged: the payload"):
            api.decompress_stream(io.BytesIO(damaged), target, options=Options(groups=groups), engines=FakeEngines())
        assert target.getvalue() == TEXT[: frame.content_start]
    with pytest.raises(ModelMissingError):
        unpack(archive, groups, FakeEngines("other"))


def test_the_output_limit_holds() -> None:
    archive, target = pack(TEXT, 1), io.BytesIO()
    with pytest.raises(LimitError, match="output limit"):
        api.decompress_stream(
            io.BytesIO(archive),
            target,
            limits=Limits(output_bytes=9000),
            options=Options(groups=3),
            engines=FakeEngines(),
        )
    assert len(target.getvalue()) <= 9000


def frames_in_order(archive: bytes) -> Iterator[Frame]:
    reader = FrameReader(Source(io.BytesIO(archive)), Limits())
    while (frame := reader.next()) is not None:
        yield frame
        reader.pass_over(frame)


def settle(engines: FakeEngines) -> int:
    """Wait until nothing is decoded any more, and return the frames that were."""
    calls, quiet = -1, 0
    while quiet < 5:
        calls, before = engines.codec.calls, calls
        quiet = quiet + 1 if calls == before else 0
        time.sleep(0.05)
    return calls


def test_decoding_ahead_waits_for_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "_ROOM_BYTES", 15_000)  # two frames and a bit
    archive, engines = pack(TEXT, 1000), FakeEngines()
    with GroupsAhead(io.BytesIO(archive), Limits(), engines, 2) as group:
        decoded = []
        for frame in frames_in_order(archive):
            found = group.take(frame, lambda _: None)
            assert found is not None
            assert found[0] == TEXT[frame.content_start :][: frame.head.content_bytes]
            decoded.append(settle(engines))
    assert decoded[:4] == [3, 4, 5, 6]


def test_groups_that_are_too_large_are_left_to_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "_GROUP_BYTES", 3000)
    for group_frames, taken in ((1, True), (1000, False)):
        archive = pack(TEXT, group_frames)
        with GroupsAhead(io.BytesIO(archive), Limits(), FakeEngines(), 2) as groups:
            frame = next(frames_in_order(archive))
            assert (groups.take(frame, lambda _: None) is not None) == taken
        assert unpack(archive, 2) == TEXT


def test_leaving_wakes_those_who_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "_ROOM_BYTES", 100)
    archive, engines, before = pack(TEXT, 1000), FakeEngines(), threading.active_count()
    with pytest.raises(KeyboardInterrupt), GroupsAhead(io.BytesIO(archive), Limits(), engines, 2) as groups:
        groups.take(next(frames_in_order(archive)), lambda _: None)
        settle(engines)
        raise KeyboardInterrupt
    assert threading.active_count() == before
    assert engines.codec.calls < 4


@pytest.mark.parametrize(("group_frames", "parts"), [(1000, {1}), (5, {2}), (3, {3})])
def test_threads_are_shared_by_as_many_groups_as_there_are(
    group_frames: int, parts: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: set[int] = set()

    def part(codec: FakeCodec, parts: int) -> FakeCodec:
        asked.add(parts)
        return codec

    monkeypatch.setattr(FakeCodec, "part", part)
    assert unpack(pack(TEXT, group_frames), 3) == TEXT
    assert max(asked) == max(parts)


def test_an_error_of_the_reader_ends_all_threads() -> None:
    class Full(io.BytesIO):
        def write(self, _data: object) -> int:
            raise OSError("no space left")

    before = threading.active_count()
    with pytest.raises(OSError, match="no space"):
        api.decompress_stream(io.BytesIO(pack(TEXT, 1)), Full(), options=Options(groups=3), engines=FakeEngines())
    assert threading.active_count() == before
