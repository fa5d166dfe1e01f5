"""What the measurements of the service share: a server process, its memory, texts, and callers in threads."""

import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc

from speccompact_grpc.v1 import speccompact_pb2 as pb
from speccompact_grpc.v1 import speccompact_pb2_grpc as pb_grpc

ROOT = Path(__file__).resolve().parent.parent
PIECE = 1 << 16
_START_SECONDS = 120.0
_CHANNEL = (("grpc.use_local_subchannel_pool", 1),)


@dataclass(frozen=True)
class Server:
    """A server process.

    Attributes:
        address: HOST:PORT.
        pid: of the process.
        metrics: HOST:PORT of its metrics.
    """

    address: str
    pid: int
    metrics: str

    @property
    def memory(self) -> int:
        """Resident bytes of the process, now."""
        with open(f"/proc/{self.pid}/statm", encoding="ascii") as stream:
            return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    @property
    def threads(self) -> int:
        """Threads of the process, now."""
        return len(os.listdir(f"/proc/{self.pid}/task"))


def free_port() -> int:
    """Return a port of the loopback interface that nobody uses."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@contextmanager
def server_process(model: str, *options: str) -> Iterator[Server]:
    """Run ``speccompact serve`` and stop it at the end."""
    address, metrics = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "speccompact_cli", "serve", "--listen", address, "--metrics", metrics]
    command += ["--models", model, "--drain-seconds", "5", *options]
    path = os.pathsep.join(map(str, (ROOT, ROOT / "cli", ROOT / "proto")))
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, stderr=subprocess.DEVNULL)
    try:
        with grpc.insecure_channel(address) as channel:
            grpc.channel_ready_future(channel).result(_START_SECONDS)
        yield Server(address, process.pid, metrics)
    finally:
        process.terminate()
        process.wait(60)


@contextmanager
def calling(address: str) -> Iterator[pb_grpc.CompressionServiceStub]:
    """Give a caller with a connection of its own."""
    with grpc.insecure_channel(address, options=_CHANNEL) as channel:
        yield pb_grpc.CompressionServiceStub(channel)


def texts(count: int, size: int, files: Sequence[Path] = ()) -> list[bytes]:
    """Return pieces of `size` bytes from files, by default documents of this project, as different as there are."""
    paths = list(files) or sorted(ROOT.glob("*.md")) + sorted(ROOT.glob("docs/*.md")) + sorted(
        ROOT.glob("samples/*.txt")
    )
    whole = b"\n".join(path.read_bytes() for path in paths)
    step = max(1, (len(whole) - size) // count)
    return [whole[at * step : at * step + size] for at in range(count)]


def start(options: pb.CompressOptions | None = None) -> pb.CompressRequest:
    """Return the first message of Compress."""
    return pb.CompressRequest(start=pb.CompressStart(options=options))


def compress(
    stub: pb_grpc.CompressionServiceStub, content: bytes, options: pb.CompressOptions
) -> tuple[bytes, pb.Summary]:
    """Compress through a stream; return the archive and the totals."""

    def requests() -> Iterator[pb.CompressRequest]:
        yield start(options)
        for at in range(0, len(content), PIECE):
            yield pb.CompressRequest(data=content[at : at + PIECE])

    parts, summary = [], pb.Summary()
    for answer in stub.Compress(requests()):
        parts.append(answer.data)
        if answer.HasField("summary"):
            summary = answer.summary
    return b"".join(parts), summary


def decompress(stub: pb_grpc.CompressionServiceStub, archive: bytes, pause: float = 0.0) -> tuple[int, pb.Summary]:
    """Decompress through a stream; return the bytes of content and the totals.

    Args:
        pause: seconds between two reads.
    """

    def requests() -> Iterator[pb.DecompressRequest]:
        yield pb.DecompressRequest(start=pb.DecompressStart())
        for at in range(0, len(archive), PIECE):
            yield pb.DecompressRequest(data=archive[at : at + PIECE])

    size, summary = 0, pb.Summary()
    for answer in stub.Decompress(requests()):
        size += len(answer.data)
        if answer.HasField("summary"):
            summary = answer.summary
        if pause:
            time.sleep(pause)
    return size, summary


def side_by_side(count: int, act: Callable[[int], object]) -> float:
    """Run an action in so many threads at once and return the seconds that it took; what one raises is raised."""
    failed: list[BaseException] = []

    def run(number: int) -> None:
        try:
            act(number)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return time.monotonic() - began


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which so large a share of all lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def noise(size: int, seed: int) -> bytes:
    """Return random bytes."""
    return random.Random(seed).randbytes(size)
