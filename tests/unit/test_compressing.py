import io

import pytest

from speccompact import api
from speccompact.errors import ArgumentError, ModelError
from tests.archives import MIXED, SLOT_TOKENS, Pipe, noise, small
from tests.fakes import FakeEngines, prose


@pytest.mark.parametrize("step", [1, 100, 4096, 1 << 20])
def test_how_the_input_arrives_changes_nothing(step: int) -> None:
    target = io.BytesIO()
    source = Pipe(MIXED, step)
    api.compress_stream(
        source,  # type: ignore[arg-type]
        target,
        slot_tokens=SLOT_TOKENS,
        group_frames=0,
        engines=FakeEngines(),
    )
    assert target.getvalue() == small(MIXED)


class Stalled(Pipe):
    """A pipe in non-blocking mode whose writer is slow."""

    def read(self, size: int = -1) -> bytes | None:
        return super().read(size) or None


def test_an_input_that_has_nothing_yet_is_not_taken_for_ended() -> None:
    with pytest.raises(BlockingIOError, match="non-blocking"):
        api.compress_stream(Stalled(b"the beginning"), io.BytesIO(), engines=FakeEngines())  # type: ignore[arg-type]


def test_a_one_slot_message_has_31_bytes_around_its_lane() -> None:
    archive = io.BytesIO()
    summary = api.compress_stream(io.BytesIO(prose(1000)), archive, engines=FakeEngines())
    assert summary.model_slots == 1
    assert summary.compressed_bytes - summary.payload_bytes == 31


def test_slots_cost_two_bytes_each_in_a_larger_file() -> None:
    archive = io.BytesIO()
    text = io.BytesIO(prose(150_000))
    summary = api.compress_stream(text, archive, slot_tokens=1200, engines=FakeEngines())
    assert summary.model_slots >= 18
    assert summary.compressed_bytes - summary.payload_bytes <= 36 + 1.9 * summary.slots


def test_binary_data_costs_next_to_nothing_and_loads_no_model() -> None:
    engines = FakeEngines()
    for data in (noise(1), noise(100), noise(3_000_000)):
        archive = api.compress(data, engines=engines)
        assert len(archive) - len(data) <= 20
        assert api.decompress(archive, engines=engines) == data
        assert api.inspect(archive).model_digests == ()
    assert engines.loads == 0


def test_empty_content() -> None:
    engines = FakeEngines()
    assert len(api.compress(b"", engines=engines)) == 13
    assert api.decompress(api.compress(b"", engines=engines)) == b""
    assert engines.loads == 0


def test_text_after_binary_frames_begins_a_part_with_a_model() -> None:
    content = noise(9 << 20) + prose(40_000)
    archive = api.compress(content, engines=FakeEngines())
    info = api.inspect(archive)
    assert [part.model_digest is not None for part in info.parts] == [False, True]
    assert api.decompress(archive, engines=FakeEngines()) == content


def test_slots_are_no_longer_than_the_model_can_hold() -> None:
    content, engines = prose(20_000), FakeEngines()
    engines.codec.target.positions = 100  # the fake codec refuses longer slots, as the real one does
    archive = api.compress(content, engines=engines)
    assert archive == api.compress(content, slot_tokens=100, engines=FakeEngines())
    assert archive == api.compress(content, slot_tokens=200, engines=engines)
    assert api.inspect(archive).tokens > 100
    assert api.decompress(archive, engines=engines) == content


def test_a_model_that_holds_next_to_nothing_is_refused() -> None:
    engines = FakeEngines()
    engines.codec.target.positions = 15
    with pytest.raises(ModelError, match="fake holds 15 tokens; slots have 16 or more"):
        api.compress(prose(1000), engines=engines)
    assert api.compress(noise(1000), engines=engines)


def test_summary_and_progress() -> None:
    seen: list[int] = []
    archive = io.BytesIO()
    engines = FakeEngines()
    source = io.BytesIO(prose(60_000))
    summary = api.compress_stream(source, archive, slot_tokens=SLOT_TOKENS, engines=engines, progress=seen.append)
    info = api.inspect(archive.getvalue())
    assert seen == sorted(seen)
    assert len(seen) > summary.frames
    assert seen[-1] == summary.content_bytes == 60_000
    assert summary.compressed_bytes == len(archive.getvalue())
    assert (summary.slots, summary.tokens, summary.frames) == (info.slots, info.tokens, len(info.frames))
    assert summary.payload_bytes == info.payload_bytes
    assert summary.passes == engines.codec.passes
    assert summary.ideal_bits == 8 * (summary.payload_bytes - summary.model_slots)
    assert summary.bpb == 8 * summary.compressed_bytes / 60_000


@pytest.mark.parametrize("arguments", [{"level": 0}, {"level": 10}, {"slot_tokens": 15}, {"slot_tokens": 1 << 20}])
def test_arguments_out_of_range(arguments: dict[str, int]) -> None:
    with pytest.raises(ArgumentError, match=next(iter(arguments))):
        api.compress(b"text", engines=FakeEngines(), **arguments)  # type: ignore[arg-type]
