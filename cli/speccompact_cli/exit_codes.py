"""Exit codes of the command line: one for each family of errors, documented in README.md.

The library knows classes and numbers (``speccompact.errors``); what the shell sees is decided here and only here.
"""

import errno
import signal
from collections.abc import Mapping
from typing import Final

from speccompact.errors import (
    ArgumentError,
    FormatError,
    JobError,
    LimitError,
    ModelError,
    ServiceError,
    SpecCompactError,
)
from speccompact_cli.naming import shown

SUCCESS: Final = 0
FAILURE: Final = 1
"""The system refused: no such file, no permission, disk full, an output that already exists."""
USAGE: Final = 2
FORMAT: Final = 3
MODEL: Final = 4
LIMIT: Final = 5
JOB: Final = 6
"""Something was left out of an archive or of what was extracted, or one job is in the way of another."""
SERVICE: Final = 69
"""A service cannot be reached, does not serve this caller or fails, by the convention of sysexits.h."""
INTERNAL: Final = 70
"""A bug in this program, by the convention of sysexits.h."""
SIGNAL_BASE: Final = 128
"""A run ended by signal n exits with SIGNAL_BASE + n, as shells report it."""


class Stopped(BaseException):
    """A signal asked the process to end. Not an Exception, so that no handler on the way takes it for a failure.

    Attributes:
        signum: the number of the signal.
    """

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum


EXIT_CODES: Final[Mapping[type[BaseException], int]] = {
    OSError: FAILURE,
    SpecCompactError: FAILURE,
    ArgumentError: USAGE,
    FormatError: FORMAT,
    ModelError: MODEL,
    LimitError: LIMIT,
    JobError: JOB,
    ServiceError: SERVICE,
    MemoryError: LIMIT,
    BrokenPipeError: SIGNAL_BASE + signal.SIGPIPE,
    KeyboardInterrupt: SIGNAL_BASE + signal.SIGINT,
}
"""The nearest class on an error's own line of ancestors decides; what is not listed is INTERNAL."""


OPTION_NAMES: Final[Mapping[str, str]] = {
    "address": "--remote",
    "alpha": "--alpha",
    "batch": "--batch",
    "block": "--block",
    "byte_range": "--range",
    "certificate": "--tls-cert",
    "checkpoint_minutes": "--checkpoint-minutes",
    "compile": "--compile",
    "corpus": "--corpus",
    "counted": "--counted",
    "device": "--device",
    "drafter": "--drafter",
    "drafter_file": "--drafter-file",
    "embed": "--embed",
    "engine": "--engine",
    "evaluate_every": "--evaluate-every",
    "evaluate_length": "--evaluate-length",
    "evaluate_tokens": "--evaluate-tokens",
    "group_frames": "--group",
    "groups": "--parallel",
    "held_out": "--held-out",
    "inner": "--inner",
    "labels": "--labels",
    "layers": "--layers",
    "learning_rate": "--learning-rate",
    "length": "--length",
    "level": "--level",
    "listed": "--listed",
    "loss": "--loss",
    "markov": "--markov",
    "max_output": "--max-output",
    "micro_batch": "--micro-batch",
    "mix": "--mix",
    "model": "--model",
    "new": "--new",
    "output": "--output",
    "priority": "--priority",
    "rank": "--rank",
    "resume": "--resume",
    "rounding_from": "--rounding-from",
    "seed": "--seed",
    "short_share": "--short-share",
    "slot_tokens": "--slot-tokens",
    "start": "--start",
    "stride": "--stride",
    "text": "--text",
    "threads": "--threads",
    "timeout": "--timeout",
    "token": "--token-file",
    "tokens": "--tokens",
    "top": "--top",
    "trust": "--trust",
    "volume_bytes": "--volume-size",
    "warm_up": "--warm-up",
    "weights": "--weights",
    "width": "--width",
    "window": "--window",
}
"""What a user typed, by the name of the library's argument that it became."""


def exit_code(error: BaseException) -> int:
    """Return the exit code of a command that ended with this error."""
    if isinstance(error, Stopped):
        return SIGNAL_BASE + error.signum
    if _unmapped(error):
        return LIMIT
    for ancestor in type(error).__mro__:
        if ancestor in EXIT_CODES:
            return EXIT_CODES[ancestor]
    return INTERNAL


def describe(error: BaseException) -> str:
    """Return one line for the user: what happened, to what, and what to do where that is known."""
    if isinstance(error, ArgumentError):
        first, space, rest = str(error).partition(" ")
        return OPTION_NAMES.get(first, first) + space + rest
    if isinstance(error, SpecCompactError):
        return str(error)
    if isinstance(error, OSError):
        reason = error.strerror or str(error) or type(error).__name__
        if error.errno == errno.ENOSPC:
            reason += " (the disk is full)"
        return f"{shown(error.filename)}: {reason}" if error.filename is not None else reason
    if isinstance(error, MemoryError) or _unmapped(error):
        return "out of memory; compressing at a lower level or with smaller slots needs less"
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, Stopped):
        return "interrupted" if error.signum == signal.SIGINT else f"ended by signal {error.signum}"
    text = " ".join(str(error).split())
    return f"internal error, please report it ({type(error).__name__}: {text}); SPECCOMPACT_DEBUG=1 shows where"


def _unmapped(error: BaseException) -> bool:
    """Whether a library could not be loaded for want of memory, which Python says in the loader's words alone."""
    return isinstance(error, ImportError) and "failed to map segment" in str(error)
