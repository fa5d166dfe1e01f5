"""The client for asyncio, against a service that fails on demand. What both clients share is tested with the other."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import grpc
import pytest

import speccompact
from speccompact.client import AsyncClient, Connection, RetryPolicy
from speccompact.errors import (
    JobError,
    LimitError,
    NotSpecCompactError,
    ServiceError,
    ServiceTimeoutError,
    ServiceUnavailableError,
)
from speccompact_grpc.v1 import speccompact_pb2 as pb
from tests.fake_service import FakeService, refuse, serving, spoil
from tests.fakes import FakeEngines, prose

TEXT = prose(200_000)
SHORT = prose(700)
QUICK = RetryPolicy(tries=3, first_wait_s=0.01, longest_wait_s=0.02)
DRAINING = refuse(grpc.StatusCode.UNAVAILABLE, "the service ends", "DRAINING")
FULL = refuse(grpc.StatusCode.RESOURCE_EXHAUSTED, "the queue is full", "QUEUE_FULL", retry_s=0.02)

Job = Callable[[AsyncClient, FakeService], Awaitable[None]]


def run(job: Job) -> None:
    """Run a coroutine with a client of a service of its own."""
    service = FakeService()

    async def main(address: str) -> None:
        async with AsyncClient(Connection(address), QUICK) as client:
            await job(client, service)

    with serving(service) as address:
        asyncio.run(main(address))


async def slowly(data: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(data), 90_000):
        await asyncio.sleep(0)
        yield data[at : at + 90_000]


@pytest.fixture(scope="module")
def archive() -> bytes:
    return speccompact.compress(TEXT, engines=FakeEngines())


def test_there_and_back(archive: bytes) -> None:
    async def job(client: AsyncClient, service: FakeService) -> None:
        assert await client.compress(TEXT) == archive
        assert await client.decompress(archive) == TEXT
        packed = await client.compress_text(SHORT)
        assert packed == speccompact.compress(SHORT, engines=FakeEngines())
        assert await client.decompress_text(packed) == SHORT
        good, bad = await client.compress_many([SHORT, b"bad"])
        assert (good, type(bad)) == (packed, LimitError)
        assert await client.inspect(archive) == await client.inspect(slowly(archive)) == speccompact.inspect(archive)
        assert [model.name for model in await client.models()] == ["fake"]

    run(job)


def test_calls_side_by_side() -> None:
    async def job(client: AsyncClient, service: FakeService) -> None:
        texts = [b"%d " % number + SHORT for number in range(20)]
        packed = await asyncio.gather(*map(client.compress, texts))
        assert await asyncio.gather(*map(client.decompress, packed)) == texts

    run(job)


def test_the_sink_sets_the_pace(archive: bytes) -> None:
    async def job(client: AsyncClient, service: FakeService) -> None:
        taken: list[bytes] = []
        busy = False

        async def sink(data: bytes) -> None:
            nonlocal busy
            assert not busy
            busy = True
            await asyncio.sleep(0.001)
            taken.append(data)
            busy = False

        summary = await client.decompress_stream(slowly(archive), sink)
        assert b"".join(taken) == TEXT
        assert summary.content_bytes == len(TEXT)

    run(job)


@pytest.mark.parametrize("fault", [DRAINING, FULL])
def test_a_refused_call_is_repeated_with_all_of_its_input(
    archive: bytes, fault: Callable[[grpc.ServicerContext], object]
) -> None:
    async def job(client: AsyncClient, service: FakeService) -> None:
        service.faults += [fault, fault]
        taken = bytearray()

        async def sink(data: bytes) -> None:
            taken.extend(data)

        await client.compress_stream(slowly(TEXT), sink)
        assert bytes(taken) == archive
        service.faults += [fault] * 3
        with pytest.raises(ServiceError):
            await client.models()
        assert len(service.calls) == 6

    run(job)


@pytest.mark.parametrize(
    ("how", "words"), [("cut", "cut short"), ("swap", "answer"), ("double", "behind"), ("count", "counts")]
)
def test_an_answer_that_is_wrong_is_none(how: str, words: str) -> None:
    async def job(client: AsyncClient, service: FakeService) -> None:
        service.faults.append(spoil(how))
        with pytest.raises(ServiceError, match=words):
            await client.compress(TEXT)
        service.faults.append(spoil("break"))
        with pytest.raises(ServiceUnavailableError):
            await client.compress(TEXT)
        assert service.calls == ["Compress"] * 2

    run(job)


def test_a_deadline_and_a_cancelled_task_end_the_call_at_both_ends() -> None:
    async def job(client: AsyncClient, service: FakeService) -> None:
        service.faults.append(spoil("wait"))
        with pytest.raises(ServiceTimeoutError):
            await client.compress(TEXT, timeout=0.5)
        assert await asyncio.to_thread(service.cancelled.wait, 60)
        service.waiting.clear()
        service.cancelled.clear()
        service.faults.append(spoil("wait"))
        task = asyncio.create_task(client.compress(TEXT))
        assert await asyncio.to_thread(service.waiting.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(service.cancelled.wait, 60)

    run(job)


@pytest.mark.parametrize("where", ["source", "sink"])
def test_a_task_can_be_cancelled_while_it_waits_for_its_own_side(where: str) -> None:
    ended: list[str] = []

    async def for_ever(reached: asyncio.Event) -> None:
        reached.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(where)

    async def job(client: AsyncClient, service: FakeService) -> None:
        reached = asyncio.Event()

        async def source() -> AsyncIterator[bytes]:
            yield TEXT
            if where == "source":
                await for_ever(reached)

        async def sink(data: bytes) -> None:
            await for_ever(reached)

        task = asyncio.create_task(client.compress_stream(source(), sink))
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while not ended:
            await asyncio.sleep(0.001)
        assert await client.compress(SHORT) == speccompact.compress(SHORT, engines=FakeEngines())

    run(job)


def test_what_fails_on_this_side_is_raised_as_it_is() -> None:
    closed: list[bool] = []

    async def broken() -> AsyncIterator[bytes]:
        try:
            yield TEXT
            raise OSError(5, "the disk is broken")
        finally:
            closed.append(True)

    async def full(data: bytes) -> None:
        raise OSError(28, "No space left")

    async def nothing(data: bytes) -> None: ...

    async def job(client: AsyncClient, service: FakeService) -> None:
        with pytest.raises(OSError, match="the disk is broken"):
            await client.compress_stream(broken(), nothing)
        with pytest.raises(OSError, match="the disk is broken"):
            await client.inspect(broken())
        with pytest.raises(OSError, match="No space left"):
            await client.compress_stream(slowly(TEXT), full)
        with pytest.raises(NotSpecCompactError):
            await client.decompress(TEXT)
        assert closed == [True, True]

    run(job)


def test_jobs() -> None:
    async def job(client: AsyncClient, service: FakeService) -> None:
        service.faults.append(DRAINING)
        made = await client.jobs.submit(pb.JobSpec(archive_verify=pb.ArchiveVerifyJob(archive="in/a.spca")))
        assert len(service.submitted) == 1
        assert await client.jobs.get(made.id) == made
        states = [pb.JOB_STATE_RUNNING, pb.JOB_STATE_RUNNING, pb.JOB_STATE_SUCCEEDED]
        service.jobs[made.id] = [pb.Job(id=made.id, state=state) for state in states]
        service.faults += [spoil("cut"), DRAINING]
        assert [seen.state async for seen in client.jobs.watch(made.id)] == states
        assert [seen.id async for seen in client.jobs.list([pb.JOB_STATE_SUCCEEDED])] == [made.id]
        assert (await client.jobs.cancel(made.id)).state == pb.JOB_STATE_CANCELLED
        with pytest.raises(JobError):
            await client.jobs.get("nothing")

    run(job)
