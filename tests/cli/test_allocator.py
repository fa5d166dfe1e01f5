"""What the program tells the C library's allocator."""

import ctypes
import os
import subprocess
import sys
from unittest import mock

import pytest

from speccompact_cli.allocator import keep_freed_memory

FAULTS = """
import os, resource, sys, threading
import numpy as np
from speccompact_cli.allocator import keep_freed_memory
if sys.argv[1] == "set":
    keep_freed_memory()

def work():
    for _ in range(50):
        blocks = [np.ones(12 << 20, np.uint8) for _ in range(3)]

thread = threading.Thread(target=work)
thread.start()
thread.join()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
"""


def has_mallopt() -> bool:
    try:
        return bool(ctypes.CDLL(None).mallopt)
    except (AttributeError, OSError):
        return False


@pytest.mark.skipif(not has_mallopt(), reason="another C library than glibc")
def test_memory_is_cleared_once_and_not_every_time() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    faults = {
        argument: int(
            subprocess.run(
                [sys.executable, "-c", FAULTS, argument], env=environment, capture_output=True, text=True, check=True
            ).stdout
        )
        for argument in ("set", "unset")
    }
    assert faults["set"] < faults["unset"] / 2


@pytest.mark.parametrize("name", ["MALLOC_ARENA_MAX", "GLIBC_TUNABLES"])
def test_the_user_comes_first(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "1")
    with mock.patch("ctypes.CDLL", side_effect=AssertionError):
        keep_freed_memory()


@pytest.mark.parametrize("library", [mock.Mock(spec=[]), OSError()])
def test_other_systems_are_left_alone(library: object, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("MALLOC_", "GLIBC_"))]:
        monkeypatch.delenv(name)
    with mock.patch("ctypes.CDLL", side_effect=[library]):
        keep_freed_memory()
