import io
import json
from pathlib import Path

import pytest

from speccompact import api
from speccompact.container.limits import Limits
from speccompact.errors import DamagedError, LimitError, TruncatedError
from tests.archives import MIXED, SLOT_TOKENS, Pipe, noise, small
from tests.fakes import FakeEngines, prose

ARCHIVE = small(MIXED)


def test_the_structure_is_told_without_decoding() -> None:
    info = api.inspect(ARCHIVE)
    assert info.format_version == 1
    assert info.compressed_bytes == len(ARCHIVE)
    assert info.content_bytes == len(MIXED)
    assert info.level == 5
    assert info.model_digests == (b"fakedigest"[:4].hex() + "00" * 4,)
    assert info.frames[0].content_start == 0
    assert sum(frame.content_bytes for frame in info.frames) == len(MIXED)
    assert sum(frame.zstd_slots for frame in info.frames) == 1
    assert info.bpb == 8 * len(ARCHIVE) / len(MIXED)
    assert info.payload_bytes < info.compressed_bytes


def test_the_same_through_every_door(tmp_path: Path) -> None:
    path = tmp_path / "mixed.spc"
    path.write_bytes(ARCHIVE)
    info = api.inspect(ARCHIVE)
    assert api.inspect(path) == api.inspect(str(path)) == info
    assert api.inspect(Pipe(ARCHIVE)) == api.inspect(io.BytesIO(ARCHIVE)) == info  # type: ignore[arg-type]


def test_json() -> None:
    document = api.inspect(ARCHIVE + small(noise(50))).to_json()
    assert json.loads(json.dumps(document)) == document
    assert document["parts"][1] == {
        "single_frame": True,
        "level": 5,
        "exact_version": None,
        "precision": None,
        "model_digest": None,
        "vocabulary_digest": None,
        "memory_version": None,
        "memory_entries": None,
    }
    assert set(document["frames"][0]) == {
        "part",
        "ordinal",
        "offset",
        "compressed_bytes",
        "payload_bytes",
        "content_start",
        "content_bytes",
        "model_slots",
        "zstd_slots",
        "raw_slots",
        "tokens",
        "charsets",
        "goes_on",
    }


def test_the_charset_of_a_text_shows() -> None:
    text = prose(4000).decode().encode("utf-16-le")
    info = api.inspect(api.compress(text, slot_tokens=SLOT_TOKENS, engines=FakeEngines()))
    assert {charset for frame in info.frames for charset in frame.charsets} == {1}


def test_frames_and_parts_are_bounded_where_it_is_asked_for() -> None:
    twice = ARCHIVE * 2
    count = len(api.inspect(twice).frames) + 2
    assert len(api.inspect(twice, limits=Limits(frames=count)).parts) == 2
    with pytest.raises(LimitError, match="frames and parts"):
        api.inspect(twice, limits=Limits(frames=count - 1))


def test_an_empty_content_has_no_frames() -> None:
    info = api.inspect(small(b""))
    assert (info.frames, info.content_bytes, info.bpb, info.slots) == ((), 0, 0.0, 0)


def test_damage_to_the_structure() -> None:
    with pytest.raises(DamagedError):
        api.inspect(ARCHIVE[:25] + bytes([ARCHIVE[25] ^ 1]) + ARCHIVE[26:])
    with pytest.raises(TruncatedError):
        api.inspect(ARCHIVE[:-1])
