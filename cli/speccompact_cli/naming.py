"""Names of files: what the output is called, and how any name is shown on a terminal."""

import os

from speccompact.errors import ArgumentError

SUFFIX = ".spc"
STANDARD = "-"
"""Stands for standard input or standard output."""


def shown(name: str | bytes | os.PathLike[str] | os.PathLike[bytes] | int) -> str:
    """Return a name that is safe to print: undecodable bytes and control characters become escapes.

    Args:
        name: a path as the system gave it; an int is a file descriptor.
    """
    if isinstance(name, int):
        return f"file descriptor {name}"
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def compressed_name(path: str) -> str:
    """Return the name of the compressed file: the suffix is appended."""
    return path + SUFFIX


def restored_name(path: str) -> str:
    """Return the name of the decompressed file: the suffix is taken off.

    Raises:
        ArgumentError: the name has no such suffix, so the output's name cannot be told.
    """
    if not path.endswith(SUFFIX) or os.path.basename(path) == SUFFIX:
        raise ArgumentError(f"{shown(path)}: the name does not end in {SUFFIX}; name the output with -o, or use -c")
    return path.removesuffix(SUFFIX)
