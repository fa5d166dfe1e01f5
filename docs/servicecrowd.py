"""Many callers of the service at once: how full batches are, how long one waits, what bad callers do to others."""

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from docs.serviceprobe import (
    PIECE,
    Server,
    calling,
    compress,
    decompress,
    noise,
    percentile,
    side_by_side,
    start,
)
from speccompact_grpc.v1 import speccompact_pb2 as pb
from speccompact_grpc.v1 import speccompact_pb2_grpc as pb_grpc

LEVEL = pb.CompressOptions(level=1)
_HONEST_SECONDS = 120.0
_BUSY = (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE)

Stub = pb_grpc.CompressionServiceStub


def batching(server: Server, pieces: Sequence[bytes], calls: int = 2) -> dict[str, Any]:
    """Return tokens per second of many callers, each with a small text, of one with one, and of one large text."""
    callers = len(pieces)
    found: dict[str, Any] = {"callers": callers, "text_bytes": len(pieces[0])}
    with calling(server.address) as stub:
        packed = [stub.CompressText(pb.CompressTextRequest(content=piece, options=LEVEL)) for piece in pieces]
        tokens = sum(answer.summary.tokens for answer in packed)
        found |= _alone(stub, pieces[0], packed[0].archive)
        large = b"".join(pieces)
        began = time.monotonic()
        archive, summary = compress(stub, large, LEVEL)
        found["large_compress"] = summary.tokens / (time.monotonic() - began)
        began = time.monotonic()
        _, summary = decompress(stub, archive)
        found["large_decompress"] = summary.tokens / (time.monotonic() - began)

    def act(number: int, *, back: bool) -> None:
        with calling(server.address) as own:
            for _ in range(calls):
                if back:
                    answer = own.DecompressText(pb.DecompressTextRequest(archive=packed[number].archive))
                    assert answer.content == pieces[number]
                else:
                    made = own.CompressText(pb.CompressTextRequest(content=pieces[number], options=LEVEL))
                    assert made.archive == packed[number].archive

    found["compress"] = calls * tokens / side_by_side(callers, lambda number: act(number, back=False))
    found["decompress"] = calls * tokens / side_by_side(callers, lambda number: act(number, back=True))
    return found | {
        "compress_of_large": _ratio(found["compress"], found["large_compress"]),
        "decompress_of_large": _ratio(found["decompress"], found["large_decompress"]),
        "decompress_of_alone": _ratio(found["decompress"], found["alone_decompress"]),
    }


def _alone(stub: Stub, piece: bytes, archive: bytes) -> dict[str, float]:
    began = time.monotonic()
    tokens = stub.CompressText(pb.CompressTextRequest(content=piece, options=LEVEL)).summary.tokens
    middle = time.monotonic()
    stub.DecompressText(pb.DecompressTextRequest(archive=archive))
    return {"alone_compress": tokens / (middle - began), "alone_decompress": tokens / (time.monotonic() - middle)}


def _ratio(part: float, whole: float) -> float:
    """Return a quotient; 0 where zstandard is smaller than the model, so that there are no tokens."""
    return part / whole if whole else 0.0


def latency(server: Server, pieces: Sequence[bytes], calls: int) -> dict[str, Any]:
    """Return how long a small text takes at half the load that many callers make, and alone (seconds)."""
    callers = len(pieces)

    def one(stub: Stub, number: int) -> float:
        began = time.monotonic()
        stub.CompressText(pb.CompressTextRequest(content=pieces[number % callers], options=LEVEL))
        return time.monotonic() - began

    with calling(server.address) as stub:
        one(stub, 0)
        alone = percentile([one(stub, number) for number in range(max(5, calls // 10))], 0.5)

        def act(number: int) -> None:
            with calling(server.address) as own:
                one(own, number)
                one(own, number + 1)

        rate = 2 * callers / side_by_side(callers, act) / 2
        source, at, taken = random.Random(1), time.monotonic(), []
        with ThreadPoolExecutor(4 * callers) as threads:
            for number in range(calls):
                at += source.expovariate(rate)
                time.sleep(max(0.0, at - time.monotonic()))
                taken.append(threads.submit(one, stub, number))
        times = [result.result() for result in taken]
    p99 = percentile(times, 0.99)
    return {
        "calls": calls,
        "rate": rate,
        "alone_s": alone,
        "p50_s": percentile(times, 0.5),
        "p99_s": p99,
        "p99_of_alone": p99 / alone,
    }


class _Crowd:
    """Callers of whom a third behaves badly, in one way each."""

    def __init__(self, server: Server, pieces: Sequence[bytes], seconds: float) -> None:
        self.server, self.pieces = server, pieces
        with calling(server.address) as stub:
            made = [stub.CompressText(pb.CompressTextRequest(content=piece, options=LEVEL)) for piece in self.pieces]
        self.archives = [answer.archive for answer in made]
        self.end = time.monotonic() + seconds
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def count(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1

    def act(self, number: int) -> None:
        source = random.Random(number)
        bad = [self._cancels, self._stalls, self._garbage, self._exceeds]
        behave = bad[number // 3 % len(bad)] if number % 3 == 2 else self._honest
        with calling(self.server.address) as stub:
            while time.monotonic() < self.end:
                try:
                    behave(stub, source)
                except grpc.RpcError as error:
                    code = error.code()
                    if behave == self._honest and code not in _BUSY:
                        self.count(f"honest call ended with {code.name}")
                    self.count(f"{behave.__name__.strip('_')}: {code.name}")
                    time.sleep(source.random() * 0.5)

    def _honest(self, stub: Stub, source: random.Random) -> None:
        number = source.randrange(len(self.pieces))
        if source.random() < 0.7:
            request = pb.CompressTextRequest(content=self.pieces[number], options=LEVEL)
            right = stub.CompressText(request, timeout=_HONEST_SECONDS).archive == self.archives[number]
        else:
            wanted = pb.DecompressTextRequest(archive=self.archives[number])
            right = stub.DecompressText(wanted, timeout=_HONEST_SECONDS).content == self.pieces[number]
        self.count("honest right" if right else "honest wrong")

    def _cancels(self, stub: Stub, source: random.Random) -> None:
        call = stub.DecompressText.future(pb.DecompressTextRequest(archive=source.choice(self.archives)))
        time.sleep(source.random())
        call.cancel()
        self.count("cancelled")

    def _stalls(self, stub: Stub, source: random.Random) -> None:
        """Sends the beginning of a stream and then nothing, or does not read what comes."""
        over = threading.Event()

        def requests() -> Iterator[pb.CompressRequest]:
            yield start(LEVEL)
            yield pb.CompressRequest(data=source.choice(self.pieces))
            over.wait(10)

        call = stub.Compress(requests(), timeout=20)
        time.sleep(source.random() * 5)
        over.set()
        call.cancel()
        self.count("stalled")

    def _garbage(self, stub: Stub, source: random.Random) -> None:
        archive = bytearray(source.choice(self.archives))
        for _ in range(source.randrange(1, 9)):
            archive[source.randrange(len(archive))] ^= 1 << source.randrange(8)
        stub.DecompressText(pb.DecompressTextRequest(archive=bytes(archive)), timeout=_HONEST_SECONDS)

    def _exceeds(self, stub: Stub, source: random.Random) -> None:
        stub.CompressText(pb.CompressTextRequest(content=bytes(3 << 20)), timeout=_HONEST_SECONDS)


def hostile(server: Server, pieces: Sequence[bytes], callers: int, seconds: float) -> dict[str, Any]:
    """Return what became of honest callers among bad ones, and of the server's memory."""
    crowd = _Crowd(server, pieces, seconds)
    began, samples = time.monotonic(), list[tuple[float, int]]()
    over = threading.Event()

    def sample() -> None:
        while not over.wait(seconds / 200):
            samples.append((time.monotonic() - began, server.memory))

    sampler = threading.Thread(target=sample)
    sampler.start()
    side_by_side(callers, crowd.act)
    over.set()
    sampler.join()
    warm = [memory for at, memory in samples if 0.2 * seconds <= at < 0.4 * seconds]
    late = [memory for at, memory in samples if 0.8 * seconds <= at <= seconds]
    with calling(server.address) as stub:
        after = _alone(stub, crowd.pieces[0], crowd.archives[0])
    return {
        "callers": callers,
        "seconds": seconds,
        "counts": dict(sorted(crowd.counts.items())),
        "memory_warm": sum(warm) / len(warm) if warm else 0,
        "memory_late": sum(late) / len(late) if late else 0,
        "memory_growth": (sum(late) / len(late)) / (sum(warm) / len(warm)) - 1 if warm and late else 0,
        "alone_after": after,
    }


def slow_reader(server: Server, megabytes: int, pause: float) -> dict[str, Any]:
    """Return what the server's memory does while one caller sends as fast as it can and another reads slowly."""
    content = noise(1 << 20, 3) * megabytes
    with calling(server.address) as stub:
        archive, _ = compress(stub, content, LEVEL)
        decompress(stub, archive)
        before, most = server.memory, [0]
        over = threading.Event()

        def sample() -> None:
            while not over.wait(0.02):
                most[0] = max(most[0], server.memory)

        sampler = threading.Thread(target=sample)
        sampler.start()
        size, _ = decompress(stub, archive, pause)
        over.set()
        sampler.join()
    assert size == len(content)
    return {"content_bytes": size, "reads": size // PIECE, "memory_before": before, "memory_most": most[0] - before}
