"""Memory that is short, said as Python says it, whatever torch calls it."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def memory_errors() -> Iterator[None]:
    """Turn what torch raises where memory is short into a MemoryError: on the CPU it is a bare RuntimeError."""
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, torch.OutOfMemoryError) and "DefaultCPUAllocator" not in str(error):
            raise
        raise MemoryError(*str(error).splitlines()[:1]) from error
