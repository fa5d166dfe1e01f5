"""Both clients and the command line against the service itself, on the tiny model."""

import asyncio
import io
import json
import runpy
import sys
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

import pytest

import speccompact
from speccompact.client import AsyncClient, Client, Connection, RetryPolicy
from speccompact.errors import (
    ArgumentError,
    DamagedError,
    LimitError,
    ModelMissingError,
    ServiceTimeoutError,
    SpecCompactError,
)
from speccompact_cli.main import run
from speccompact_grpc.compression import ServiceLimits
from tests.service_server import SERVED, Served, serving
from tests.source_tree import ROOT
from tests.tiny_model import TINY_EXACT, babble

MODEL = str(TINY_EXACT)
TEXTS = [babble(2000, seed).encode() for seed in range(5)]


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving() as running:
        yield running


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[Client]:
    with Client(Connection(served.address)) as client:
        yield client


@pytest.fixture(scope="module")
def archives() -> list[bytes]:
    return [speccompact.compress(text, level=1, model=MODEL, options=SERVED) for text in TEXTS]


def test_many_threads_get_the_bytes_of_the_library(client: Client, archives: list[bytes]) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert [*pool.map(lambda text: client.compress(text, level=1, timeout=120), TEXTS)] == archives
        assert [*pool.map(lambda archive: client.decompress(archive, timeout=120), archives)] == TEXTS


def test_many_tasks_get_the_bytes_of_the_library(served: Served, archives: list[bytes]) -> None:
    async def main() -> None:
        async with AsyncClient(Connection(served.address)) as client:
            packed = await asyncio.gather(*(client.compress(text, level=1) for text in TEXTS))
            assert packed == archives
            small = await asyncio.gather(*(client.compress_text(text, level=1) for text in TEXTS))
            assert small == archives
            assert await client.compress_many(TEXTS, level=1) == archives
            assert await asyncio.gather(*map(client.decompress_text, archives)) == TEXTS

    asyncio.run(main())


def test_input_that_comes_slowly(served: Served, archives: list[bytes]) -> None:
    async def slowly() -> AsyncIterator[bytes]:
        for at in range(0, len(TEXTS[0]), 700):
            await asyncio.sleep(0.002)
            yield TEXTS[0][at : at + 700]

    async def main() -> bytes:
        taken = bytearray()

        async def sink(data: bytes) -> None:
            taken.extend(data)

        async with AsyncClient(Connection(served.address)) as client:
            await client.compress_stream(slowly(), sink, level=1)
        return bytes(taken)

    assert asyncio.run(main()) == archives[0]


def test_inspection_and_models(client: Client, archives: list[bytes]) -> None:
    assert client.inspect(archives[0]) == speccompact.inspect(archives[0])
    (model,) = client.models()
    assert model.is_default
    assert model.digest.startswith(speccompact.inspect(archives[0]).model_digests[0])


def test_parts_of_content(client: Client, archives: list[bytes]) -> None:
    both = archives[0] + archives[1]
    assert client.decompress(both) == TEXTS[0] + TEXTS[1]
    target = io.BytesIO()
    client.decompress_stream(io.BytesIO(both), target, byte_range=(1990, 30))
    assert target.getvalue() == (TEXTS[0] + TEXTS[1])[1990:2020]
    saved = io.BytesIO()
    damaged = archives[0] + archives[1][:300] + b"!" + archives[1][301:]
    summary = client.decompress_stream(io.BytesIO(damaged), saved, salvage=True)
    assert (saved.getvalue(), len(summary.lost)) == (TEXTS[0], 1)


def test_the_errors_of_the_library_come_back(client: Client, archives: list[bytes]) -> None:
    damaged = archives[0][:300] + b"!" + archives[0][301:]
    for archive, kind in ((damaged, DamagedError), (archives[0][:-3], SpecCompactError)):
        with pytest.raises(kind) as told:
            client.decompress(archive)
        with pytest.raises(kind) as alone:
            speccompact.decompress(archive, options=SERVED)
        assert type(told.value) is type(alone.value)
    with pytest.raises(ModelMissingError):
        client.compress(TEXTS[0], model="nowhere")
    with pytest.raises(ModelMissingError):
        client.compress_text(TEXTS[0], model="nowhere")
    with pytest.raises(LimitError):
        client.decompress_stream(io.BytesIO(archives[0]), io.BytesIO(), max_output=10)
    with pytest.raises(ArgumentError):
        client.compress(TEXTS[0], level=10)


def test_a_deadline_in_mid_decode_frees_the_slots(served: Served, client: Client) -> None:
    class Endless(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            return TEXTS[0]

    endless: BinaryIO = Endless()  # type: ignore[assignment]
    with pytest.raises(ServiceTimeoutError):
        client.compress_stream(endless, io.BytesIO(), level=1, timeout=0.5)
    assert client.compress_text(b"still there", timeout=60)


def test_limits_of_the_service() -> None:
    policy = RetryPolicy(tries=3, first_wait_s=0.01)
    with (
        serving(limits=ServiceLimits(text_bytes=1000, call_bytes=2000)) as running,
        Client(Connection(running.address), policy) as client,
    ):
        with pytest.raises(LimitError):
            client.compress_text(TEXTS[0])
        with pytest.raises(LimitError):
            client.compress(TEXTS[0])


def test_the_command_line(
    served: Served,
    archives: list[bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    text, remote = tmp_path / "text", f"--remote={served.address}"
    text.write_bytes(TEXTS[0])
    assert run(["compress", "-q", "-1", "--rm", remote, "text"]) == 0
    assert (tmp_path / "text.spc").read_bytes() == archives[0]
    assert run(["decompress", "-q", "--stats", remote, "text.spc"]) == 0
    assert text.read_bytes() == TEXTS[0]
    assert "tokens per pass" in capsys.readouterr().err
    assert run(["inspect", "--json", remote, "text.spc"]) == 0
    assert json.loads(capsys.readouterr().out)["content_bytes"] == len(TEXTS[0])


def test_the_sample_runs(
    served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    script = ROOT / "samples" / "many_texts.py"
    (tmp_path / "text").write_bytes(b"\n\n".join(text[:400] for text in TEXTS))
    monkeypatch.setattr(sys, "argv", [str(script), served.address, str(tmp_path / "text")])
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out.startswith("8 texts of 1994 bytes became ")
    monkeypatch.setattr(sys, "argv", [str(script), "nowhere"])
    with pytest.raises(SystemExit, match="give HOST:PORT"):
        runpy.run_path(str(script), run_name="__main__")
