"""Streams of messages as files: order of messages, limits, and that nobody reads ahead of a slow reader."""

import threading
from collections.abc import Iterator
from typing import BinaryIO, cast

import grpc
import pytest

from speccompact_grpc.calls import Call, Cancelled
from speccompact_grpc.refusals import Refusal
from speccompact_grpc.streaming import CHUNK_BYTES, RequestStream, ResponseStream, run_streamed
from speccompact_grpc.v1 import speccompact_pb2 as pb

_SECONDS = 60.0


def kind(message: object) -> str | None:
    assert isinstance(message, pb.InspectRequest)
    return message.WhichOneof("payload")


def requests(*pieces: bytes) -> Iterator[pb.InspectRequest]:
    yield pb.InspectRequest(start=pb.InspectStart(include_frames=True))
    yield from (pb.InspectRequest(data=piece) for piece in pieces)


def test_what_is_sent_is_read_like_a_file() -> None:
    stream = RequestStream(requests(b"abc", b"", b"de", b"f" * 100), kind, 0)
    assert stream.start.include_frames
    assert stream.readable()
    assert not stream.seekable()
    assert [stream.read(2), stream.read(2), stream.read(9)] == [b"ab", b"c", b"de"]
    assert stream.read() == b"f" * 100
    assert stream.read(5) == b""


@pytest.mark.parametrize(
    "messages",
    [[], [pb.InspectRequest()], [pb.InspectRequest(data=b"x")], [*requests(), pb.InspectRequest()], [*requests()] * 2],
)
def test_messages_out_of_order_are_refused(messages: list[pb.InspectRequest]) -> None:
    with pytest.raises(Refusal) as caught:
        RequestStream(iter(messages), kind, 0).read()
    assert (caught.value.code, caught.value.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "MESSAGE")


def test_more_than_the_limit_is_refused() -> None:
    assert RequestStream(requests(b"ab", b"cd"), kind, 4).read() == b"abcd"
    with pytest.raises(Refusal) as caught:
        RequestStream(requests(b"ab", b"cd", b"e"), kind, 4).read()
    assert (caught.value.code, caught.value.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "SIZE")


def test_what_is_written_comes_in_chunks_and_the_result_last() -> None:
    data = bytes(range(256)) * 1000

    def work(target: BinaryIO) -> str:
        for start in range(0, len(data), 1000):
            target.write(data[start : start + 1000])
        target.write(data)
        return "done"

    made = list(run_streamed(Call(), work, "test"))
    chunks = [chunk for chunk in made if isinstance(chunk, bytes)]
    assert made[-1] == "done"
    assert b"".join(chunks) == data * 2
    assert all(0 < len(chunk) <= CHUNK_BYTES for chunk in chunks)


def test_nothing_is_read_ahead_of_a_slow_reader() -> None:
    taken, stuck = [0], threading.Event()

    def pieces() -> Iterator[pb.InspectRequest]:
        yield from requests()
        for _ in range(1000):
            taken[0] += 1
            yield pb.InspectRequest(data=bytes(100_000))

    source, call = RequestStream(pieces(), kind, 0), Call()

    def copy(target: BinaryIO) -> int:
        while piece := source.read(1 << 16):
            target.write(piece)
        return taken[0]

    made = run_streamed(call, copy, "test")
    assert next(made)
    before = -1
    while before != taken[0]:  # until nothing moves any more
        before = taken[0]
        stuck.wait(0.2)
    assert before < 20
    assert sum(len(cast(bytes, chunk)) for chunk in list(made)[:-1]) > 99_000_000
    assert taken[0] == 1000


def test_a_writer_whose_caller_has_gone_is_let_go() -> None:
    call, failures = Call(), list[BaseException]()

    def write(target: BinaryIO) -> None:
        try:
            while True:
                target.write(bytes(100_000))
        except Cancelled as error:
            failures.append(error.with_traceback(None))
            raise

    made = run_streamed(call, write, "test")
    assert next(made)
    made.close()  # type: ignore[attr-defined]  # a generator
    for thread in threading.enumerate():
        if thread.name == "test":
            thread.join(_SECONDS)
    assert len(failures) == 1


def test_a_failure_comes_after_what_was_written() -> None:
    def fail(target: BinaryIO) -> None:
        target.write(b"abc")
        raise ValueError("no more")

    made = run_streamed(Call(), fail, "test")
    assert next(made) == b"abc"
    with pytest.raises(ValueError, match="no more"):
        next(made)


def test_a_caller_who_has_gone_is_no_fault() -> None:
    def fail(target: BinaryIO) -> None:
        raise grpc.RpcError

    with pytest.raises(Cancelled):
        list(run_streamed(Call(), fail, "test"))


def test_a_response_can_only_be_written() -> None:
    stream = ResponseStream(Call())
    assert stream.writable()
    assert not stream.readable()
