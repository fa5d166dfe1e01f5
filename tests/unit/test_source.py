import io

import pytest

from speccompact.container.source import Source
from speccompact.errors import TruncatedError
from tests.archives import Pipe, noise

DATA = noise(300_000)


@pytest.mark.parametrize("seekable", [True, False])
def test_peeking_and_skipping(seekable: bool) -> None:
    source = Source(io.BytesIO(DATA) if seekable else io.BufferedReader(Pipe(DATA, 1000)))
    assert source.seekable == seekable
    assert source.peek(10) == DATA[:10]
    source.skip(5)
    assert source.peek(10) == DATA[5:15]
    source.skip(250_000)
    assert source.offset == 250_005
    assert source.peek(100_000) == DATA[250_005:]
    with pytest.raises(TruncatedError):
        source.skip(50_000)


def test_a_long_skip_past_the_end_of_a_file() -> None:
    source = Source(io.BytesIO(DATA))
    source.skip(len(DATA))
    assert source.peek(1) == b""
    source.rewind(0)
    with pytest.raises(TruncatedError):
        source.skip(len(DATA) + 1)


def test_rewinding_and_the_tail_of_a_stream_that_did_not_start_at_zero() -> None:
    stream = io.BytesIO(b"before" + DATA)
    stream.seek(6)
    source = Source(stream)
    source.skip(1000)
    assert source.tail(4) == (DATA[-4:], len(DATA))
    assert source.peek(3) == DATA[1000:1003]
    source.rewind(10)
    assert source.peek(3) == DATA[10:13]
    source.rewind(12)
    assert (source.peek(3), source.offset) == (DATA[12:15], 12)
    assert source.tail(len(DATA) + 9) == (DATA, len(DATA))


def test_a_look_ahead_holds_no_more_than_asked_for() -> None:
    pipe = Pipe(DATA, 1 << 20)
    Source(pipe).peek(10)  # type: ignore[arg-type]
    assert pipe.position <= 1 << 16
