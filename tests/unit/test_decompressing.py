import io

import pytest

from speccompact import api
from speccompact.container.format import sha_prefix
from speccompact.container.framing import pack_frame
from speccompact.container.limits import Limits
from speccompact.container.seekable import FrameReader
from speccompact.container.source import Source
from speccompact.errors import (
    ArgumentError,
    FormatError,
    LimitError,
    ModelDamagedError,
    ModelMissingError,
    NotSpecCompactError,
    TruncatedError,
    UnsupportedError,
)
from tests.archives import MIXED, Pipe, noise, small
from tests.fakes import FakeEngines, prose

TEXT = prose(60_000)
ARCHIVE = small(TEXT)


def test_mixed_content_comes_back() -> None:
    engines = FakeEngines()
    archive = small(MIXED)
    assert api.decompress(archive, engines=engines) == MIXED
    target = io.BytesIO()
    api.decompress_stream(Pipe(archive, 5), target, engines=engines)  # type: ignore[arg-type]
    assert target.getvalue() == MIXED


def test_concatenated_archives_hold_concatenated_contents() -> None:
    archive = ARCHIVE + small(b"") + small(noise(200)) + small(prose(500)) + ARCHIVE
    content = TEXT + noise(200) + prose(500) + TEXT
    assert api.decompress(archive, engines=FakeEngines()) == content
    summary = api.verify_stream(io.BytesIO(archive), engines=FakeEngines())
    assert (summary.parts, summary.content_bytes, summary.compressed_bytes) == (5, len(content), len(archive))


@pytest.mark.parametrize("seekable", [True, False])
@pytest.mark.parametrize(
    ("start", "length"), [(0, 10), (0, 0), (9_000, 1), (20_000, 15_000), (59_990, 100), (70_000, 5), (0, 60_000)]
)
def test_a_range_decodes_only_its_frames(start: int, length: int, seekable: bool) -> None:
    engines = FakeEngines()
    target = io.BytesIO()
    source = io.BytesIO(ARCHIVE) if seekable else Pipe(ARCHIVE, 1000)
    summary = api.decompress_stream(source, target, engines=engines, byte_range=(start, length))  # type: ignore[arg-type]
    assert target.getvalue() == TEXT[start : start + length]
    assert summary.content_bytes == len(target.getvalue())
    needed = [
        frame
        for frame in api.inspect(ARCHIVE).frames
        if frame.content_start < start + length and start < frame.content_start + frame.content_bytes
    ]
    assert engines.codec.decoded == sum(frame.model_slots for frame in needed)
    assert summary.frames == len(needed)


def test_a_range_over_parts() -> None:
    archive = ARCHIVE + small(noise(200)) + ARCHIVE
    target = io.BytesIO()
    api.decompress_stream(io.BytesIO(archive), target, engines=FakeEngines(), byte_range=(59_000, 2_000))
    assert target.getvalue() == (TEXT + noise(200) + TEXT)[59_000:61_000]


@pytest.mark.parametrize("arguments", [{"byte_range": (-1, 5)}, {"byte_range": (1, -5)}])
def test_impossible_ranges(arguments: dict[str, tuple[int, int]]) -> None:
    with pytest.raises(ArgumentError, match="byte_range"):
        api.decompress_stream(io.BytesIO(ARCHIVE), io.BytesIO(), byte_range=arguments["byte_range"])
    with pytest.raises(ArgumentError, match="salvage"):
        api.decompress_stream(io.BytesIO(ARCHIVE), io.BytesIO(), byte_range=(0, 1), salvage=True)


def test_the_output_limit_is_known_before_decoding() -> None:
    engines = FakeEngines()
    with pytest.raises(LimitError, match="output limit is 100"):
        api.decompress(ARCHIVE, limits=Limits(output_bytes=100), engines=engines)
    assert engines.codec.decoded == 0
    with pytest.raises(LimitError):
        api.decompress_stream(
            io.BytesIO(ARCHIVE), io.BytesIO(), limits=Limits(output_bytes=59_999), salvage=True, engines=engines
        )
    assert api.decompress(ARCHIVE, limits=Limits(output_bytes=60_000), engines=engines) == TEXT


def test_frame_limits() -> None:
    with pytest.raises(LimitError, match="tokens"):
        api.decompress(ARCHIVE, limits=Limits(frame_tokens=100), engines=FakeEngines())


def test_progress_counts_compressed_bytes() -> None:
    seen: list[int] = []
    api.decompress_stream(io.BytesIO(ARCHIVE), io.BytesIO(), engines=FakeEngines(), progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == len(ARCHIVE)


def test_verify_writes_nothing_and_counts() -> None:
    engines = FakeEngines()
    summary = api.verify_stream(io.BytesIO(ARCHIVE), engines=engines)
    assert (summary.content_bytes, summary.compressed_bytes, summary.lost) == (60_000, len(ARCHIVE), ())
    assert summary.passes == engines.codec.passes > 0


def test_another_model_is_missing() -> None:
    with pytest.raises(ModelMissingError):
        api.decompress(ARCHIVE, engines=FakeEngines("other"))


def test_a_store_that_gives_the_wrong_model() -> None:
    engines = FakeEngines()
    other = FakeEngines("other")
    engines.engine = other.engine
    with pytest.raises(ModelDamagedError, match="other"):
        api.decompress(ARCHIVE, engines=engines)


@pytest.mark.parametrize(("offset", "name"), [(10, "exact version"), (11, "precision")])
def test_a_newer_arithmetic(offset: int, name: str) -> None:
    """Bytes 10 and 11 of a header; its check is made good, and so are those of the first frame."""
    reader = FrameReader(Source(io.BytesIO(ARCHIVE)), Limits())
    frame = reader.next()
    assert frame is not None
    header = bytearray(frame.header_bytes)
    header[offset] += 1
    payload = frame.split_payload(reader.data(frame))
    data = bytes(header) + sha_prefix(4, bytes(header)) + pack_frame(bytes(header), frame.head, payload, b"")
    with pytest.raises(UnsupportedError, match=name):
        api.decompress_stream(Pipe(data, 1000), io.BytesIO(), engines=FakeEngines())  # type: ignore[arg-type]


@pytest.mark.parametrize("seekable", [True, False])
def test_what_the_structure_tells_is_told_before_anything_is_decoded(seekable: bool) -> None:
    end = len(ARCHIVE) - 30
    flipped = ARCHIVE[:end] + bytes([ARCHIVE[end] ^ 1]) + ARCHIVE[end + 1 :]
    for data in (ARCHIVE + b"junk", ARCHIVE[:-5], flipped):
        engines = FakeEngines()
        target = io.BytesIO()
        source = io.BytesIO(data) if seekable else Pipe(data, 1000)
        with pytest.raises(FormatError, match="decompress --salvage"):
            api.decompress_stream(source, target, engines=engines)  # type: ignore[arg-type]
        assert (engines.codec.decoded == 0) == seekable
        assert target.getvalue() == (b"" if seekable else TEXT)


def test_too_much_content_is_told_before_anything_is_decoded() -> None:
    engines = FakeEngines()
    with pytest.raises(LimitError, match=f"output limit is {len(TEXT) - 1}"):
        api.decompress(ARCHIVE, engines=engines, limits=Limits(output_bytes=len(TEXT) - 1))
    assert engines.codec.decoded == 0


def test_a_stream_is_read_from_where_it_stands() -> None:
    source, target = io.BytesIO(b"before" + ARCHIVE), io.BytesIO()
    source.seek(6)
    api.decompress_stream(source, target, engines=FakeEngines())
    assert target.getvalue() == TEXT


def test_what_is_no_archive() -> None:
    with pytest.raises(NotSpecCompactError, match="magic"):
        api.decompress(b"plain text")
    with pytest.raises(TruncatedError, match="no data"):
        api.decompress(b"")
