"""When a call is tried again."""

import math

import grpc
import pytest

from speccompact.client.faults import Fault
from speccompact.client.replaying import ReplayLog, StreamPieces
from speccompact.client.retrying import NO_RETRY, Retries, RetryPolicy
from speccompact.errors import (
    ArgumentError,
    ServiceBusyError,
    ServiceError,
    ServiceTimeoutError,
    ServiceUnavailableError,
)

GONE = Fault(grpc.StatusCode.UNAVAILABLE, "gone")
FULL = Fault(grpc.StatusCode.RESOURCE_EXHAUSTED, "full", "QUEUE_FULL", retry_after_s=3.0)
POLICY = RetryPolicy(tries=4, first_wait_s=1.0, factor=2.0, longest_wait_s=3.0)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def retries(timeout: float | None = None, jitter: float = 1.0, clock: Clock | None = None) -> Retries:
    return Retries(POLICY, timeout, "here:1", clock or Clock(), lambda: jitter)


def test_waits_grow_to_a_bound_and_tries_end() -> None:
    tries = retries()
    assert [tries.after(GONE, safe=True) for _ in range(3)] == [1.0, 2.0, 3.0]
    with pytest.raises(ServiceUnavailableError, match="here:1 cannot be reached: gone"):
        tries.after(GONE, safe=True)


@pytest.mark.parametrize("jitter", [0.0, 0.5, 1.0])
def test_a_part_of_a_wait_is_chance(jitter: float) -> None:
    assert retries(jitter=jitter).after(GONE, safe=True) == 0.5 + jitter / 2
    assert 3.0 <= retries(jitter=jitter).after(FULL, safe=True) <= 4.0


def test_the_service_says_when_to_come_back() -> None:
    patient = Fault(grpc.StatusCode.RESOURCE_EXHAUSTED, "full", "RATE", retry_after_s=61.0)
    with pytest.raises(ServiceBusyError, match=r"full; it asks to come back in 61 s"):
        retries().after(patient, safe=True)
    asked = Fault(grpc.StatusCode.UNAVAILABLE, "draining", "DRAINING", retry_after_s=7.0)
    assert retries().after(asked, safe=True) == 7.0


@pytest.mark.parametrize("fault", [GONE, FULL])
def test_what_is_not_safe_is_not_repeated(fault: Fault) -> None:
    with pytest.raises(ServiceError):
        retries().after(fault, safe=False)
    with pytest.raises(ServiceError):
        Retries(NO_RETRY, None, "here:1").after(fault, safe=True)


@pytest.mark.parametrize("code", [code for code in grpc.StatusCode if code != grpc.StatusCode.UNAVAILABLE])
def test_nothing_else_is_repeated(code: grpc.StatusCode) -> None:
    with pytest.raises(Exception, match="no"):
        retries().after(Fault(code, "no"), safe=True)


def test_no_wait_goes_beyond_the_deadline() -> None:
    clock = Clock()
    tries = retries(4.0, clock=clock)
    assert tries.remaining() == 4.0
    assert tries.after(GONE, safe=True) == 1.0
    clock.now += 2.5
    assert tries.remaining() == 1.5
    with pytest.raises(ServiceUnavailableError):
        tries.after(GONE, safe=True)
    with pytest.raises(ServiceBusyError):
        retries(3.0).after(FULL, safe=True)
    clock.now += 2
    with pytest.raises(ServiceTimeoutError):
        tries.remaining()
    assert retries().remaining() is None


@pytest.mark.parametrize("timeout", [0.0, -1.0, math.nan])
def test_a_timeout_is_a_time(timeout: float) -> None:
    with pytest.raises(ArgumentError, match=r"^timeout is"):
        retries(timeout)


def test_a_stream_that_gets_on_has_all_its_tries_again() -> None:
    tries = retries()
    for _ in range(20):
        assert tries.after(GONE, safe=True) == 1.0
        tries.progressed()


@pytest.mark.parametrize("values", [{"tries": 0}, {"first_wait_s": -1.0}, {"factor": 0.5}, {"longest_wait_s": 0.1}])
def test_policies_that_make_no_sense(values: dict[str, float]) -> None:
    with pytest.raises(ArgumentError, match=r"^retry is"):
        RetryPolicy(**values)  # type: ignore[arg-type]


def test_pieces_are_kept_while_there_is_room() -> None:
    log = ReplayLog(most=10)
    assert log.get(0) is None
    log.add(b"12345")
    log.add(b"67890")
    assert (log.get(0), log.get(1), log.get(2), log.replayable) == (b"12345", b"67890", None, True)
    log.add(b"x")
    assert not log.replayable
    assert log.get(3) is None


def test_a_second_try_gets_what_the_first_has_read() -> None:
    left = [b"a", b"b", b""]

    class Pipe:
        def read(self, size: int) -> bytes | None:
            return left.pop(0) if left else None

    pieces = StreamPieces(Pipe())
    assert [pieces.piece(index) for index in (0, 1)] == [b"a", b"b"]
    assert [pieces.piece(index) for index in (0, 1, 2)] == [b"a", b"b", b""]
    with pytest.raises(BlockingIOError, match="non-blocking"):
        pieces.piece(3)
