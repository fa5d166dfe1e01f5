"""Client of the SpecCompact service, for threads and for asyncio. It loads neither torch nor Numba.

    from speccompact.client import Client, Connection

    with Client(Connection("127.0.0.1:50051")) as client:
        packed = client.compress(b"Call me Ishmael.", timeout=60)
        assert client.decompress(packed, timeout=60) == b"Call me Ishmael."

Whatever it receives is compared, frame by frame, with what was sent: an archive holds checks of its content. A call
that returns without an error has given all of its output. Calls are repeated only where that is safe:
`RetryPolicy`.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from speccompact.client.asyncclient import AsyncClient as AsyncClient
    from speccompact.client.connecting import Connection as Connection
    from speccompact.client.conversion import Priority as Priority
    from speccompact.client.jobviews import JOB_STATES as JOB_STATES
    from speccompact.client.jobviews import job_ended as job_ended
    from speccompact.client.jobviews import job_error as job_error
    from speccompact.client.jobviews import job_json as job_json
    from speccompact.client.jobviews import job_spec as job_spec
    from speccompact.client.jobviews import job_state as job_state
    from speccompact.client.jobviews import job_work as job_work
    from speccompact.client.retrying import RetryPolicy as RetryPolicy
    from speccompact.client.syncclient import Client as Client

_HOMES = {
    "AsyncClient": "asyncclient",
    "Client": "syncclient",
    "Connection": "connecting",
    "JOB_STATES": "jobviews",
    "Priority": "conversion",
    "RetryPolicy": "retrying",
    "job_ended": "jobviews",
    "job_error": "jobviews",
    "job_json": "jobviews",
    "job_spec": "jobviews",
    "job_state": "jobviews",
    "job_work": "jobviews",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
