"""CompressionService over a real connection: whoever shares a pass, the bytes are those of the library alone."""

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

import speccompact
from speccompact_cli.main import run
from speccompact_grpc.compression import ServiceLimits
from speccompact_grpc.v1 import speccompact_pb2 as pb
from tests.service_server import SERVED, Served, serving
from tests.tiny_model import TINY_EXACT, babble

MODEL = str(TINY_EXACT)
_SECONDS = 60


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving() as running:
        yield running


def alone(content: bytes, level: int, slot_tokens: int | None = None, group_frames: int | None = None) -> bytes:
    """Return what the library makes of a text, as the command line does."""
    return speccompact.compress(
        content, level=level, model=MODEL, slot_tokens=slot_tokens, group_frames=group_frames, options=SERVED
    )


def text(size: int, seed: int) -> bytes:
    return babble(size, seed).encode()


def failed(call: Callable[[], object]) -> tuple[grpc.StatusCode, str, float | None]:
    """Return code, reason and retry delay of a call that fails."""
    with pytest.raises(grpc.RpcError) as caught:
        call()
    error: Any = caught.value  # also a grpc.Call, which its type does not say
    status = rpc_status.from_call(error)
    assert status is not None, error
    info, retry, delay = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo(), None
    for detail in status.details:
        if detail.Unpack(retry):
            delay = retry.retry_delay.ToMilliseconds() / 1000
        detail.Unpack(info)
    assert info.domain == "speccompact"
    code: grpc.StatusCode = error.code()
    return code, info.reason, delay


def compress_requests(pieces: list[bytes], **options: int) -> Iterator[pb.CompressRequest]:
    yield pb.CompressRequest(start=pb.CompressStart(options=pb.CompressOptions(**options)))  # type: ignore[arg-type]
    yield from (pb.CompressRequest(data=piece) for piece in pieces)


def decompress_requests(pieces: list[bytes], start: pb.DecompressStart | None = None) -> Iterator[pb.DecompressRequest]:
    yield pb.DecompressRequest(start=start or pb.DecompressStart())
    yield from (pb.DecompressRequest(data=piece) for piece in pieces)


def pieces_of(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def test_callers_side_by_side_get_the_bytes_of_the_library(served: Served) -> None:
    chance = random.Random(1)
    wanted = [(text(chance.randrange(1, 900), seed), chance.choice([1, 1, 2, 5])) for seed in range(16)]
    wanted += [(b"", 5), (chance.randbytes(500), 1), (text(300, 3) + chance.randbytes(300), 2)]

    def call(item: tuple[bytes, int]) -> tuple[bytes, bytes]:
        content, level = item
        options = pb.CompressOptions(level=level)
        made = served.stub.CompressText(pb.CompressTextRequest(content=content, options=options), timeout=_SECONDS)
        back = served.stub.DecompressText(pb.DecompressTextRequest(archive=made.archive), timeout=_SECONDS)
        assert made.summary.content_bytes == back.summary.content_bytes == len(content)
        assert made.summary.tokens == back.summary.tokens
        return made.archive, back.content

    with ThreadPoolExecutor(len(wanted)) as threads:
        results = list(threads.map(call, wanted))
    for (content, level), (archive, back) in zip(wanted, results, strict=True):
        assert archive == alone(content, level)
        assert back == content


@pytest.mark.parametrize("level", [1, 5])
def test_the_bytes_are_those_of_the_command_line(served: Served, tmp_path: Path, level: int) -> None:
    content, archive = tmp_path / "text", tmp_path / "archive.spc"
    content.write_bytes(text(700, 11))
    assert run(["compress", f"--model={MODEL}", f"--level={level}", f"--output={archive}", str(content)]) == 0
    request = pb.CompressTextRequest(content=content.read_bytes(), options=pb.CompressOptions(level=level))
    assert served.stub.CompressText(request, timeout=_SECONDS).archive == archive.read_bytes()


@pytest.mark.parametrize(("level", "slot_tokens", "group_frames"), [(1, 32, 0), (2, 32, 3)])
def test_streams_with_several_frames(served: Served, level: int, slot_tokens: int, group_frames: int) -> None:
    content = text(8000, 5)
    made = list(
        served.stub.Compress(
            compress_requests(pieces_of(content, 700), level=level, slot_tokens=slot_tokens, group_frames=group_frames),
            timeout=_SECONDS,
        )
    )
    archive = b"".join(message.data for message in made)
    assert archive == alone(content, level, slot_tokens=slot_tokens, group_frames=group_frames)
    assert made[-1].summary.frames == len(speccompact.inspect(archive).frames)
    back = list(served.stub.Decompress(decompress_requests(pieces_of(archive, 100)), timeout=_SECONDS))
    assert b"".join(message.data for message in back) == content
    summary = back[-1].summary
    assert (summary.content_bytes, summary.compressed_bytes) == (len(content), len(archive))
    assert 0 < summary.passes <= summary.tokens
    assert {stats.drafter for stats in summary.drafts} <= {"suffix"}  # whether drafts pay depends on the machine


def test_ranges_salvage_and_limits_of_streams(served: Served) -> None:
    content = text(8000, 6)
    archive = alone(content, 1, slot_tokens=32)

    def decompress(data: bytes, start: pb.DecompressStart) -> list[pb.DecompressResponse]:
        return list(served.stub.Decompress(decompress_requests(pieces_of(data, 1000), start), timeout=_SECONDS))

    part = decompress(archive, pb.DecompressStart(byte_range=pb.ByteRange(start=5000, length=70)))
    assert b"".join(message.data for message in part) == content[5000:5070]
    damaged = bytearray(archive)
    damaged[speccompact.inspect(archive).frames[1].offset + 200] ^= 1
    found = decompress(bytes(damaged), pb.DecompressStart(salvage=True))
    assert [lost.start for lost in found[-1].summary.lost] == [speccompact.inspect(archive).frames[1].content_start]
    assert failed(lambda: decompress(bytes(damaged), pb.DecompressStart()))[:2] == (
        grpc.StatusCode.DATA_LOSS,
        "DAMAGED",
    )
    assert failed(lambda: decompress(archive, pb.DecompressStart(max_content_bytes=100)))[:2] == (
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "LIMIT",
    )


def test_many_items_and_a_bad_one(served: Served) -> None:
    with serving(limits=ServiceLimits(text_bytes=500)) as small:
        contents = [text(size, size) for size in (10, 400, 501, 77)]
        options = pb.CompressOptions(level=1)
        made = small.stub.CompressMany(pb.CompressManyRequest(contents=contents, options=options), timeout=_SECONDS)
        for content, result in zip(contents, made.results, strict=True):
            if len(content) > 500:
                assert (result.error.reason, result.error.number) == ("LIMIT", 40)
            else:
                assert result.compressed.archive == alone(content, 1)
        assert failed(lambda: small.stub.CompressMany(pb.CompressManyRequest()))[1] == "ARGUMENT"
        wrong = pb.CompressManyRequest(contents=contents, options=pb.CompressOptions(level=10))
        assert failed(lambda: small.stub.CompressMany(wrong))[:2] == (grpc.StatusCode.INVALID_ARGUMENT, "ARGUMENT")


@pytest.mark.parametrize(
    ("request_", "code", "reason"),
    [
        (pb.DecompressTextRequest(archive=b"no archive"), grpc.StatusCode.INVALID_ARGUMENT, "NOT_AN_ARCHIVE"),
        (pb.DecompressTextRequest(archive=b""), grpc.StatusCode.DATA_LOSS, "TRUNCATED"),
        (pb.CompressTextRequest(content=b"x" * (1 << 20) + b"y"), grpc.StatusCode.RESOURCE_EXHAUSTED, "LIMIT"),
        (
            pb.CompressTextRequest(content=b"x", options=pb.CompressOptions(model="/etc/passwd")),
            grpc.StatusCode.NOT_FOUND,
            "MODEL_MISSING",
        ),
        (
            pb.CompressTextRequest(content=b"x", options=pb.CompressOptions(slot_tokens=3)),
            grpc.StatusCode.INVALID_ARGUMENT,
            "ARGUMENT",
        ),
    ],
)
def test_what_cannot_be_done(
    served: Served,
    request_: pb.CompressTextRequest | pb.DecompressTextRequest,
    code: grpc.StatusCode,
    reason: str,
) -> None:
    if isinstance(request_, pb.CompressTextRequest):
        assert failed(lambda: served.stub.CompressText(request_, timeout=_SECONDS)) == (code, reason, None)
    else:
        assert failed(lambda: served.stub.DecompressText(request_, timeout=_SECONDS)) == (code, reason, None)


@pytest.mark.parametrize(
    "requests",
    [
        [],
        [pb.CompressRequest()],
        [pb.CompressRequest(data=b"x")],
        [pb.CompressRequest(start=pb.CompressStart()), pb.CompressRequest(start=pb.CompressStart())],
    ],
)
def test_messages_out_of_order(served: Served, requests: list[pb.CompressRequest]) -> None:
    code, reason, _ = failed(lambda: list(served.stub.Compress(iter(requests), timeout=_SECONDS)))
    assert (code, reason) == (grpc.StatusCode.INVALID_ARGUMENT, "MESSAGE")


def test_inspect_and_models(served: Served) -> None:
    archive = alone(text(8000, 5), 1, slot_tokens=32)
    info = speccompact.inspect(archive)
    first = pb.InspectRequest(start=pb.InspectStart(include_frames=True))
    requests = [first, *(pb.InspectRequest(data=piece) for piece in pieces_of(archive, 512))]
    found = served.stub.Inspect(iter(requests), timeout=_SECONDS)
    assert (found.content_bytes, found.tokens, found.frame_count) == (info.content_bytes, info.tokens, len(info.frames))
    assert [frame.offset for frame in found.frames] == [frame.offset for frame in info.frames]
    assert found.parts[0].model_digest == info.parts[0].model_digest
    (model,) = served.stub.ListModels(pb.ListModelsRequest(), timeout=_SECONDS).models
    assert model.is_default
    assert model.digest.startswith(info.model_digests[0])


def test_inspect_describes_a_bounded_number_of_parts(served: Served) -> None:
    archive = alone(b"x", 1) * ((1 << 15) + 1)
    start = pb.InspectRequest(start=pb.InspectStart())
    with pytest.raises(grpc.RpcError) as caught:
        served.stub.Inspect(
            iter([start, *(pb.InspectRequest(data=piece) for piece in pieces_of(archive, 1 << 16))]), timeout=_SECONDS
        )
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


def test_a_call_of_a_few_bytes_comes_through_beside_cancelled_ones(served: Served) -> None:
    """Half of the callers give up at once; the others' bytes are right, and no slot stays behind."""
    archive = alone(text(1500, 8), 1, slot_tokens=64)
    content = text(1500, 8)

    def call(number: int) -> None:
        future = served.stub.DecompressText.future(pb.DecompressTextRequest(archive=archive), timeout=_SECONDS)
        if number % 2:
            future.cancel()
        else:
            assert future.result().content == content

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(call, range(16)))
    assert served.stub.DecompressText(pb.DecompressTextRequest(archive=archive), timeout=_SECONDS).content == content


def test_first_output_comes_before_the_last_input(served: Served) -> None:
    piece = random.Random(5).randbytes(1 << 16) * 16  # no text, and quick: it only passes through
    received = threading.Event()

    def requests() -> Iterator[pb.CompressRequest]:
        yield from compress_requests([piece] * 9)
        assert received.wait(_SECONDS)
        yield pb.CompressRequest(data=b"end")

    responses = served.stub.Compress(requests(), timeout=_SECONDS)
    parts = [next(responses).data]
    received.set()
    parts += [message.data for message in responses]
    assert parts[0]
    assert speccompact.decompress(b"".join(parts)) == piece * 9 + b"end"
