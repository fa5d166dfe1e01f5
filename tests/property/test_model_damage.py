"""Damage to archives of the tiny model, through the facade: the content, or an error; never wrong bytes."""

import io
from itertools import pairwise
from pathlib import Path

import pytest

from speccompact import api
from speccompact.errors import FormatError, LimitError, ModelError
from tests.tiny_model import GOLDEN, TINY_EXACT
from tests.tiny_slots import QUIET
from tests.tiny_text import STORY

CONTENT = STORY[:60].encode() + b"\x04\xff" + STORY[60:90].encode()
ERRORS = (FormatError, LimitError, ModelError)


@pytest.fixture(scope="module")
def archive() -> bytes:
    """A few slots in one frame, about a hundred bytes."""
    return api.compress(CONTENT, model=str(TINY_EXACT), slot_tokens=16, options=QUIET)


def decoded(data: bytes) -> bytes | None:
    try:
        return api.decompress(data, options=QUIET)
    except ERRORS:
        return None


def salvaged(data: bytes) -> bytes:
    target = io.BytesIO()
    try:
        summary = api.decompress_stream(io.BytesIO(data), target, options=QUIET, salvage=True)
    except ModelError:
        return b""
    assert summary.lost
    return target.getvalue()


def test_the_archive_is_what_these_tests_are_about(tiny_home: Path, archive: bytes) -> None:
    (frame,) = api.inspect(archive).frames
    assert frame.model_slots >= 3
    assert decoded(archive) == CONTENT


def test_every_flipped_byte(tiny_home: Path, archive: bytes) -> None:
    for at in range(len(archive)):
        for flip in {1 << at % 8, 0xFF}:
            damaged = archive[:at] + bytes([archive[at] ^ flip]) + archive[at + 1 :]
            assert decoded(damaged) is None
        assert salvaged(damaged) == b""


def test_every_truncation(tiny_home: Path, archive: bytes) -> None:
    assert [decoded(archive[:size]) for size in range(len(archive))] == [None] * len(archive)


def test_every_repeated_or_missing_byte(tiny_home: Path, archive: bytes) -> None:
    for at in range(0, len(archive), 3):
        assert decoded(archive[:at] + archive[at : at + 1] + archive[at:]) is None
        assert decoded(archive[:at] + archive[at + 1 :]) is None


def test_damage_to_one_frame_of_many_costs_that_frame(tiny_home: Path) -> None:
    data = (GOLDEN / "valid" / "many_frames.spc").read_bytes()
    content = (GOLDEN / "valid" / "many_frames.content").read_bytes()
    frames = api.inspect(data).frames
    borders = [frame.content_start for frame in frames] + [len(content)]
    pieces = [content[start:stop] for start, stop in pairwise(borders)]
    for lost, frame in enumerate(frames):
        for part in (0.02, 0.5, 0.98):
            at = frame.offset + int(frame.compressed_bytes * part)
            damaged = data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]
            with pytest.raises(FormatError, match=f"frame {lost} "):
                api.decompress(damaged, options=QUIET)
            assert salvaged(damaged) == b"".join(piece for i, piece in enumerate(pieces) if i != lost)


def test_lanes_in_another_order(tiny_home: Path, archive: bytes) -> None:
    (frame,) = api.inspect(archive).frames
    start = len(archive) - 8 - frame.payload_bytes
    payload = archive[start:-8]
    for cut in range(1, len(payload)):
        assert decoded(archive[:start] + payload[cut:] + payload[:cut] + archive[-8:]) is None
