"""The C library's allocator, told to keep what is freed: a pass frees and takes the same megabytes hundreds of times.

Left alone, glibc gives them back to the system at once, which clears every page when it comes again: some percent of
the time of compressing. Only a program may say this, not a library, so it is said here.
"""

import ctypes
import os

_ARENA_MAX, _MMAP_THRESHOLD, _TOP_PAD, _TRIM_THRESHOLD = -8, -3, -2, -1

_SETTINGS = (
    (_ARENA_MAX, 1),  # arenas of threads are small and cannot keep such blocks
    (_MMAP_THRESHOLD, 1 << 25),  # the most that is possible
    (_TRIM_THRESHOLD, (1 << 31) - 1),
    (_TOP_PAD, 1 << 26),
)


def keep_freed_memory() -> None:
    """Set glibc's allocator, before threads begin. Nothing happens elsewhere, or where the user has set it."""
    if "GLIBC_TUNABLES" in os.environ or any(name.startswith("MALLOC_") for name in os.environ):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    for parameter, value in _SETTINGS:
        mallopt(parameter, value)
