"""The three standard streams: binary in and out, and what is said on standard error."""

import os
import shutil
import sys
from collections.abc import Sequence
from typing import BinaryIO, TextIO

from speccompact.errors import ArgumentError

QUIET = 0
NORMAL = 1
DETAILED = 2

_GAP = "  "
"""Between the fields of a line that is redrawn."""


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


def output_is_terminal() -> bool:
    """Whether content that goes to standard output is shown to a person."""
    return sys.stdout is not None and sys.stdout.isatty()


def silence_output() -> None:
    """Send what is still buffered for a closed pipe to nowhere, so that the interpreter's exit does not stumble."""
    if sys.stdout is not None:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def fitted(fields: Sequence[str], width: int) -> str:
    """Return fields as one line of at most `width` characters.

    What does not fit is left out field by field, from the last on: half a number is worse than none. The first field,
    a name, is shortened before the second is given up.
    """
    kept = list(fields)
    while len(kept) > 2 and len(_GAP.join(kept)) > width:
        kept.pop()
    if len(kept) > 1:
        room = width - len(_GAP.join(["", *kept[1:]]))
        if len(kept[0]) > room:
            kept = [kept[0][: room - 1] + "…", *kept[1:]] if room > 1 else kept[:1]
    return _GAP.join(kept)[: max(width, 0)]


class Console:
    """What a command says on standard error. Results never go here, only remarks about them.

    Args:
        verbosity: QUIET (errors only), NORMAL or DETAILED.
        stream: where to write; None means standard error.
        remarks: whether to say what was done where nothing special was asked for.
        bars: whether a progress bar may be drawn; not where content goes to the same terminal.
    """

    def __init__(
        self, verbosity: int = NORMAL, stream: TextIO | None = None, *, remarks: bool = True, bars: bool = True
    ) -> None:
        self.verbosity = verbosity
        self._remarks = remarks
        self._bars = bars
        self._stream = stream if stream is not None else sys.stderr
        self._drawn = 0

    @property
    def shows_progress(self) -> bool:
        """Whether a progress bar makes sense: a terminal that shows nothing else, and not -q."""
        return self._bars and self.verbosity > QUIET and self._stream is not None and self._stream.isatty()

    def draw(self, *fields: str) -> None:
        """Replace the line that is redrawn in place by another of as many fields as the terminal is wide for."""
        if self.shows_progress:
            line = fitted(fields, shutil.get_terminal_size().columns - 1)
            self.write("\r" + line.ljust(self._drawn))
            self._drawn = max(self._drawn, len(line))

    def wipe(self) -> None:
        """Take the line that is redrawn in place away."""
        if self._drawn:
            self.write("\r" + " " * self._drawn + "\r")
            self._drawn = 0

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
        self._say(f"speccompact: {text}\n")

    def note(self, text: str) -> None:
        """Say what was done, unless -q; where the result itself goes to standard output, only with -v."""
        if self.verbosity >= (NORMAL if self._remarks else DETAILED):
            self._say(f"{text}\n")

    def detail(self, text: str) -> None:
        """Say more, with -v."""
        if self.verbosity >= DETAILED:
            self._say(f"{text}\n")

    def report(self, text: str) -> None:
        """Say what was asked for, at any verbosity."""
        self._say(f"{text}\n")

    def _say(self, text: str) -> None:
        """Write whole lines, where no bar is in the way."""
        self.wipe()
        self.write(text)
