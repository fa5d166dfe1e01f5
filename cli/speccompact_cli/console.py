"""The three standard streams: binary in and out, and what is said on standard error."""

import os
import sys
from typing import BinaryIO, TextIO

from speccompact.errors import ArgumentError

QUIET = 0
NORMAL = 1
DETAILED = 2


def standard_input() -> BinaryIO:
    """Return standard input as binary.

    Raises:
        ArgumentError: it is closed.
    """
    if sys.stdin is None:
        raise ArgumentError("standard input is closed; name a FILE")
    return sys.stdin.buffer


def standard_output() -> BinaryIO:
    """Return standard output as binary.

    Raises:
        ArgumentError: it is closed.
    """
    if sys.stdout is None:
        raise ArgumentError("standard output is closed; use -o FILE")
    return sys.stdout.buffer


def input_is_terminal() -> bool:
    """Whether a person would have to type the input."""
    return sys.stdin is not None and sys.stdin.isatty()


def silence_output() -> None:
    """Send what is still buffered for a closed pipe to nowhere, so that the interpreter's exit does not stumble."""
    if sys.stdout is not None:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


class Console:
    """What a command says on standard error. Results never go here, only remarks about them.

    Args:
        verbosity: QUIET (errors only), NORMAL or DETAILED.
        stream: where to write; None means standard error.
        remarks: whether to say what was done where nothing special was asked for.
    """

    def __init__(self, verbosity: int = NORMAL, stream: TextIO | None = None, *, remarks: bool = True) -> None:
        self.verbosity = verbosity
        self._remarks = remarks
        self._stream = stream if stream is not None else sys.stderr

    @property
    def shows_progress(self) -> bool:
        """Whether a progress bar makes sense: a terminal, and not -q."""
        return self.verbosity > QUIET and self._stream is not None and self._stream.isatty()

    def write(self, text: str) -> None:
        """Write text as it is. A standard error that is gone or full is no reason to fail."""
        if self._stream is None:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            self._stream = None

    def error(self, text: str) -> None:
        """Say why something failed, at any verbosity."""
        self.write(f"speccompact: {text}\n")

    def note(self, text: str) -> None:
        """Say what was done, unless -q; where the result itself goes to standard output, only with -v."""
        if self.verbosity >= (NORMAL if self._remarks else DETAILED):
            self.write(f"{text}\n")

    def detail(self, text: str) -> None:
        """Say more, with -v."""
        if self.verbosity >= DETAILED:
            self.write(f"{text}\n")
