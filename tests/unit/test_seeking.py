import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speccompact import api
from speccompact.errors import ArgumentError, DamagedError, TruncatedError
from tests.archives import MIXED, Pipe, noise, small
from tests.fakes import FakeEngines, prose

TEXT = prose(40_000) + noise(500) + MIXED
ARCHIVE = small(prose(40_000)) + small(noise(500)) + small(MIXED)


def test_reading_everything() -> None:
    with api.open(io.BytesIO(ARCHIVE), engines=FakeEngines()) as content:
        assert content.read() == TEXT
        assert content.read(1) == b""


@given(st.lists(st.tuples(st.integers(0, len(TEXT) + 5), st.integers(0, 20_000)), max_size=8))
def test_any_reads_at_any_places(reads: list[tuple[int, int]]) -> None:
    with api.open(io.BytesIO(ARCHIVE), engines=FakeEngines()) as content:
        for start, length in reads:
            assert content.seek(start) == start
            assert content.read(length) == TEXT[start : start + length]
            assert content.tell() == start + len(TEXT[start : start + length])


def test_only_what_is_read_is_decoded() -> None:
    engines = FakeEngines()
    frames = api.inspect(ARCHIVE).frames
    with api.open(io.BytesIO(ARCHIVE), engines=engines) as content:
        assert engines.codec.decoded == 0
        content.seek(frames[2].content_start + 5)
        assert content.read(100) == TEXT[content.tell() - 100 : content.tell()]
        assert engines.codec.decoded == frames[2].model_slots
        content.seek(frames[2].content_start)
        content.read(frames[2].content_bytes)
        assert engines.codec.decoded == frames[2].model_slots


def test_like_a_file(tmp_path: Path) -> None:
    path = tmp_path / "text.spc"
    path.write_bytes(small(prose(5000)))
    with api.open(path, engines=FakeEngines()) as content:
        assert content.readline() == prose(5000).splitlines(keepends=True)[0]
        assert content.seek(-5, io.SEEK_END) == 4995
        assert content.read() == prose(5000)[-5:]
        content.seek(10)
        assert content.seek(5, io.SEEK_CUR) == 15
        with pytest.raises(ValueError, match="negative"):
            content.seek(-1)
        assert content.readable()
        assert content.seekable()
        assert not content.writable()
        raw = content.raw
    assert raw.closed


def test_a_stream_of_the_caller_stays_open() -> None:
    stream = io.BytesIO(ARCHIVE)
    api.open(stream, engines=FakeEngines()).close()
    assert not stream.closed


def test_a_pipe_cannot_be_opened() -> None:
    with pytest.raises(ArgumentError, match="seekable"):
        api.open(Pipe(ARCHIVE), engines=FakeEngines())  # type: ignore[arg-type]


def test_damage_shows_where_it_is_read() -> None:
    broken = bytearray(ARCHIVE)
    frames = api.inspect(ARCHIVE).frames
    broken[frames[1].offset + 200] ^= 1
    with api.open(io.BytesIO(broken), engines=FakeEngines()) as content:
        assert content.read(10) == TEXT[:10]
        content.seek(frames[1].content_start)
        with pytest.raises(DamagedError, match="frame 1 at byte"):
            content.read(10)
        content.seek(frames[2].content_start)
        assert content.read(10) == TEXT[frames[2].content_start :][:10]


def test_a_cut_file_is_closed_again(tmp_path: Path) -> None:
    path = tmp_path / "text.spc"
    path.write_bytes(ARCHIVE[:-1])
    with pytest.raises(TruncatedError):
        api.open(path, engines=FakeEngines())
