import io
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

import speccompact
from speccompact import api
from speccompact.errors import ModelMissingError
from tests.archives import Pipe, noise, raw_part, small
from tests.fakes import FakeEngines, prose
from tests.source_tree import ROOT


class Endless(io.RawIOBase):
    """Gives `chunk` `times` times, without holding it more than once."""

    def __init__(self, chunk: bytes, times: int) -> None:
        super().__init__()
        self._pieces = iter([chunk] * times)
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview | bytearray") -> int:  # type: ignore[override]
        self._rest = self._rest or next(self._pieces, b"")
        piece, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(piece)] = piece
        return len(piece)


class Nowhere(io.RawIOBase):
    """Takes everything and counts it."""

    def __init__(self) -> None:
        super().__init__()
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: "bytes | bytearray | memoryview") -> int:  # type: ignore[override]
        self.size += len(data)
        return len(data)


def peak(run: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_content() -> None:
    def compress(times: int) -> None:
        target = Nowhere()
        api.compress_stream(Endless(noise(1 << 16), times), target, engines=FakeEngines())  # type: ignore[arg-type]
        assert target.size > times * 10

    compress(1)
    assert peak(lambda: compress(640)) < 1.1 * peak(lambda: compress(320))


@pytest.mark.parametrize("salvage", [False, True])
def test_memory_does_not_grow_with_the_archive(salvage: bool) -> None:
    part = raw_part([noise(1 << 20)] * 2)

    def decompress(times: int) -> None:
        target = Nowhere()
        api.decompress_stream(Endless(part, times), target, salvage=salvage)  # type: ignore[arg-type]
        assert target.size == times << 21

    decompress(1)
    assert peak(lambda: decompress(32)) < 1.1 * peak(lambda: decompress(4))


def test_memory_of_random_access_is_a_frame(tmp_path: Path) -> None:
    path = tmp_path / "large.spc"
    path.write_bytes(raw_part([noise(1 << 20)] * 24))

    def read() -> None:
        with api.open(path) as content:
            for start in range(23 << 20, 0, -(5 << 20)):
                content.seek(start)
                content.read(100)

    assert peak(read) < 6 << 20


def test_one_shot_functions_agree_with_the_streams() -> None:
    content = prose(5000)
    target = io.BytesIO()
    api.compress_stream(io.BytesIO(content), target, engines=FakeEngines())
    assert target.getvalue() == api.compress(content, engines=FakeEngines())
    assert api.decompress(target.getvalue(), engines=FakeEngines()) == content


def test_the_level_is_recorded_and_changes_slots() -> None:
    content = prose(60_000)
    infos = [api.inspect(api.compress(content, level=level, engines=FakeEngines())) for level in (1, 5)]
    assert [info.level for info in infos] == [1, 5]
    assert infos[0].slots > infos[1].slots


def test_a_missing_model_is_said_before_anything_is_decoded() -> None:
    with pytest.raises(ModelMissingError):
        api.decompress(small(prose(500)), engines=FakeEngines("other"))


def test_the_package_offers_the_same_functions() -> None:
    assert speccompact.compress is api.compress
    assert speccompact.open is api.open
    assert speccompact.Limits().output_bytes is None


def test_decoding_what_needs_no_model_loads_no_torch() -> None:
    script = (
        "import sys, speccompact; data = sys.stdin.buffer.read(); speccompact.inspect(data); "
        "sys.stdout.buffer.write(speccompact.decompress(data)); assert 'torch' not in sys.modules"
    )
    archive = raw_part([b"one ", b"two"])
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, input=archive, capture_output=True, check=True)
    assert done.stdout == b"one two"


@pytest.mark.parametrize("step", [1, 63, 65_536])
def test_everything_through_pipes(step: int) -> None:
    content = prose(3000) + noise(5000)
    archive, back = Nowhere(), io.BytesIO()
    api.compress_stream(Pipe(content, step), archive, engines=FakeEngines())  # type: ignore[arg-type]
    data = api.compress(content, engines=FakeEngines())
    assert archive.size == len(data)
    api.decompress_stream(Pipe(data, step), back, engines=FakeEngines())  # type: ignore[arg-type]
    assert back.getvalue() == content
