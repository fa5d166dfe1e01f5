"""Groups that are decoded side by side: the same content, the same errors, and no more memory than said."""

import io
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import pytest

from speccompact import api
from speccompact.container.format import sha_prefix
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


class WatchedRoom(ahead._Room):
    """Room of which one can see that somebody waits for it."""

    rooms: ClassVar[list["WatchedRoom"]] = []

    def __init__(self, size: int, stopped: threading.Event) -> None:
        super().__init__(size, stopped)
        self._wanted: int | None = None
        self.rooms.append(self)

    def take(self, size: int) -> None:
        self._wanted = size
        super().take(size)
        self._wanted = None

    def wait_until_full(self) -> None:
        """Wait until the next frame has no room; only the reader can change that then."""
        for _ in range(60_000):
            with self._changed:
                if self._wanted is not None and self._left < min(self._wanted, self._size):
                    return
            time.sleep(0.001)
        raise AssertionError("there is room all the time")


@pytest.fixture
def rooms(monkeypatch: pytest.MonkeyPatch) -> list[WatchedRoom]:
    monkeypatch.setattr(WatchedRoom, "rooms", [])
    monkeypatch.setattr(ahead, "_Room", WatchedRoom)
    return WatchedRoom.rooms


def workers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("speccompact-group")]


def test_decoding_ahead_waits_for_the_reader(monkeypatch: pytest.MonkeyPatch, rooms: list[WatchedRoom]) -> None:
    monkeypatch.setattr(ahead, "_ROOM_BYTES", 15_000)  # two frames and a bit
    archive, engines = pack(TEXT, 1000), FakeEngines()
    with GroupsAhead(io.BytesIO(archive), Limits(), engines, 2) as group:
        decoded = []
        for frame in itertools.islice(frames_in_order(archive), 4):
            found = group.take(frame, lambda _: None)
            assert found is not None
            assert found[0] == TEXT[frame.content_start :][: frame.head.content_bytes]
            rooms[0].wait_until_full()
            decoded.append(engines.codec.calls)
    assert decoded == [3, 4, 5, 6]


def test_groups_that_are_too_large_are_left_to_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """What counts is the memory that frames take: the data of all of them together would be few enough here."""
    monkeypatch.setattr(ahead, "_GROUP_BYTES", 40_000)
    large, small = pack(TEXT, 1000), pack(TEXT, 1)
    assert len(large) < 40_000
    for parts in ((small,), (large,), (large, small), (small, large)):
        archive = b"".join(parts)
        with GroupsAhead(io.BytesIO(archive), Limits(), FakeEngines(), 2) as groups:
            found = [(frame, groups.take(frame, lambda _: None)) for frame in frames_in_order(archive)]
        assert all((parts[frame.part] is small) == (content is not None) for frame, content in found)
        assert unpack(archive, 2) == TEXT * len(parts)


def test_leaving_wakes_those_who_wait(monkeypatch: pytest.MonkeyPatch, rooms: list[WatchedRoom]) -> None:
    monkeypatch.setattr(ahead, "_ROOM_BYTES", 100)
    archive, engines = pack(TEXT, 1000), FakeEngines()
    with pytest.raises(KeyboardInterrupt), GroupsAhead(io.BytesIO(archive), Limits(), engines, 2) as groups:
        groups.take(next(frames_in_order(archive)), lambda _: None)
        rooms[0].wait_until_full()
        raise KeyboardInterrupt
    assert workers() == []
    assert engines.codec.calls == 2


def test_an_error_keeps_no_decoder_alive() -> None:
    archive = bytearray(pack(TEXT, 1000))
    frame = next(frames_in_order(bytes(archive)))
    archive[frame.offset + frame.prelude_bytes + 5] ^= 1
    stop = frame.offset + frame.prelude_bytes + frame.head.payload_bytes
    archive[stop : stop + 4] = sha_prefix(4, bytes(archive[frame.offset + frame.prelude_bytes : stop]))
    with GroupsAhead(io.BytesIO(archive), Limits(), FakeEngines(), 2) as groups:
        with pytest.raises(DamagedError, match="check fails") as caught:
            groups.take(frame, lambda _: None)
        assert caught.value.__cause__ is not None
        assert caught.value.__cause__.__traceback__ is None


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

    with pytest.raises(OSError, match="no space"):
        api.decompress_stream(io.BytesIO(pack(TEXT, 1)), Full(), options=Options(groups=3), engines=FakeEngines())
    assert workers() == []
