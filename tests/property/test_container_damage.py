"""Whatever happens to an archive: the content, or an error of the library; a salvage gives only what was there."""

import contextlib
import io
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speccompact import api
from speccompact.errors import FormatError, LimitError, ModelError
from tests.archives import Pipe, noise, small
from tests.fakes import FakeEngines, prose

CONTENTS = {
    "frames": prose(9_000) + noise(500) + b"unusual: <|im_start|>\x00\xff" * 9,
    "one slot": prose(100),
    "slots": prose(900),
    "raw": noise(90),
    "zstd": b"abcdefgh" * 60,
    "empty": b"",
}
ENGINES = FakeEngines()
ARCHIVES = {name: small(content, ENGINES) for name, content in CONTENTS.items()}
ERRORS = (FormatError, LimitError, ModelError)
NAMES = st.sampled_from(sorted(ARCHIVES))


def contents(data: bytes) -> bytes | None:
    """Return what data decodes to, None for an error of the library."""
    try:
        return api.decompress(data, engines=ENGINES)
    except ERRORS:
        return None


def check(name: str, data: bytes, *, whole: bool = False) -> None:
    """Decode damaged data in every way; `whole` says that it must not decode."""
    content = CONTENTS[name]
    frames = api.inspect(ARCHIVES[name]).frames
    pieces = [content[frame.content_start :][: frame.content_bytes] for frame in frames]
    found = contents(data)
    assert found in ([None] if whole else [None, content])
    target = io.BytesIO()
    try:
        summary = api.decompress_stream(io.BytesIO(data), target, engines=ENGINES, salvage=True)
    except ModelError:
        return
    left = target.getvalue()
    assert summary.lost or left == content
    for piece in pieces:
        if left.startswith(piece):
            left = left[len(piece) :]
    assert left == b"", "the salvage gave bytes that no frame holds"
    for lost in summary.lost:
        assert lost.reason
        assert lost.stop is None or lost.start <= lost.stop
    assert [lost.start for lost in summary.lost] == sorted(lost.start for lost in summary.lost)


@pytest.mark.parametrize("name", ARCHIVES)
def test_every_flipped_byte(name: str) -> None:
    data = ARCHIVES[name]
    for at in range(len(data)):
        check(name, data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :], whole=True)


@pytest.mark.parametrize("name", ARCHIVES)
def test_every_truncation(name: str) -> None:
    data = ARCHIVES[name]
    for size in range(0, len(data), 1 if len(data) < 1000 else 11):
        check(name, data[:size], whole=True)


@given(NAMES, st.data())
def test_any_bytes_in_place_of_others(name: str, data: st.DataObject) -> None:
    archive = ARCHIVES[name]
    start, stop = sorted(data.draw(st.tuples(st.integers(0, len(archive)), st.integers(0, len(archive)))))
    check(name, archive[:start] + data.draw(st.binary(max_size=60)) + archive[stop:])


@given(NAMES, st.data())
def test_pieces_in_another_order(name: str, data: st.DataObject) -> None:
    archive = ARCHIVES[name]
    cuts = sorted({0, len(archive), *data.draw(st.lists(st.integers(0, len(archive)), max_size=4))})
    pieces = [archive[start:stop] for start, stop in pairwise(cuts)]
    check(name, b"".join(data.draw(st.permutations(pieces))))


@given(st.permutations(range(len(api.inspect(ARCHIVES["frames"]).frames))), st.booleans())
def test_frames_in_another_order(order: list[int], drop: bool) -> None:
    archive = ARCHIVES["frames"]
    frames = api.inspect(archive).frames
    begin, end = frames[0].offset, frames[-1].offset + frames[-1].compressed_bytes
    pieces = [archive[frames[index].offset :][: frames[index].compressed_bytes] for index in order[drop:]]
    mixed = archive[:begin] + b"".join(pieces) + archive[end:]
    check("frames", mixed, whole=mixed != archive)


@given(st.binary(max_size=400), st.sampled_from([b"", b"\xd3SPC\x01", b"\xd3SPC\x01\x01", b"\xd3SPC\x01\x03"]))
def test_anything_at_all(data: bytes, start: bytes) -> None:
    contents(start + data)
    with contextlib.suppress(*ERRORS):
        api.inspect(start + data)


@given(NAMES, st.integers(1, 5000), st.data())
def test_pipes_and_files_fail_alike(name: str, step: int, data: st.DataObject) -> None:
    archive = bytearray(ARCHIVES[name])
    archive[data.draw(st.integers(0, len(archive) - 1))] ^= data.draw(st.integers(1, 255))
    outcomes = []
    for source in (io.BytesIO(archive), Pipe(bytes(archive), step)):
        with pytest.raises(ERRORS) as caught:
            api.verify_stream(source, engines=ENGINES)  # type: ignore[arg-type]
        outcomes.append((caught.type, str(caught.value)))
    assert outcomes[0] == outcomes[1]
