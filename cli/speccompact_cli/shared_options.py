"""Options that several commands share, and what they mean together."""

from collections.abc import Callable
from typing import Any, TypeVar, get_args

import click

from speccompact.container.limits import Limits
from speccompact.errors import ArgumentError
from speccompact.modelstore.registry import DEFAULT_MODEL
from speccompact.options import DEFAULT_DRAFTER, DrafterName, Options
from speccompact.params import DEFAULT_LEVEL, MAX_SLOT_TOKENS, MIN_SLOT_TOKENS
from speccompact_cli.console import DETAILED, NORMAL, QUIET, Console, output_is_terminal

_SLOT_TOKENS = click.IntRange(MIN_SLOT_TOKENS, MAX_SLOT_TOKENS)

F = TypeVar("F", bound=Callable[..., Any])


def files_argument(*, required: bool) -> Callable[[F], F]:
    """FILE… as the system gave it; "-" stands for a standard stream."""
    return click.argument("files", metavar="FILE..." if required else "[FILE]...", nargs=-1, required=required)


def output_options(function: F) -> F:
    """-o, -c, -f, --rm, -k."""
    for option in (
        click.option("-k", "--keep", is_flag=True, help="Keep the input (this is the default)."),
        click.option("--rm", "remove", is_flag=True, help="Remove the input after success."),
        click.option("-f", "--force", is_flag=True, help="Overwrite files; write binary data to a terminal."),
        click.option("-c", "--stdout", "to_stdout", is_flag=True, help="Write to standard output."),
        click.option("-o", "--output", metavar="FILE", help="Write to FILE; - is standard output."),
    ):
        function = option(function)
    return function


def quiet_option(function: F) -> F:
    """-q."""
    return click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors.")(function)


def verbosity_options(function: F) -> F:
    """-q and -v."""
    verbose = click.option("-v", "--verbose", is_flag=True, help="Say more on standard error.")
    return quiet_option(verbose(function))


def coding_options(function: F) -> F:
    """-1 … -9, --level, --model, --slot-tokens, --group: what changes the compressed bytes."""
    options = [
        click.option("--level", type=click.IntRange(1, 9), help=f"1 fast … 9 small [default: {DEFAULT_LEVEL}]."),
        click.option("--model", metavar="NAME|DIGEST", help=f"One of `models list` [default: {DEFAULT_MODEL}]."),
        click.option("--slot-tokens", type=_SLOT_TOKENS, metavar="N", help="Tokens of a slot, at most."),
        click.option("--group", type=click.IntRange(min=0), metavar="N", help="Frames that share a memory; 0: none."),
    ]
    options += [
        click.option(f"-{level}", "level", flag_value=level, type=int, hidden=level != 1, help="… -9: as --level.")
        for level in range(1, 10)
    ]
    for option in reversed(options):
        function = option(function)
    return function


def running_options(function: F) -> F:
    """--threads, --device: what changes time only."""
    for option in (
        click.option("--device", default="cpu", show_default=True, metavar="NAME", help="cpu or cuda[:N]."),
        click.option(
            "-T",
            "--threads",
            type=click.IntRange(min=0),
            default=0,
            show_default=True,
            metavar="N",
            help="CPU threads; 0 means all.",
        ),
    ):
        function = option(function)
    return function


def parallel_option(function: F) -> F:
    """--parallel, for what decodes."""
    return _parallel("Groups of frames decoded at once, each with the memory of one.")(function)


def parallel_making_option(function: F) -> F:
    """--parallel, for what makes archives."""
    return _parallel("Groups made at once by the local engine, each with the memory of one.")(function)


def _parallel(help_text: str) -> Callable[[F], F]:
    count = click.IntRange(min=1)
    return click.option("--parallel", type=count, default=1, show_default=True, metavar="N", help=help_text)


def drafter_options(function: F) -> F:
    """--drafter, --drafter-file."""
    for option in (
        click.option(
            "--drafter-file",
            default="",
            metavar="FILE",
            help="Its weights, or the name of a model for --drafter model [default: those that ship].",
        ),
        click.option(
            "--drafter",
            type=click.Choice(get_args(DrafterName)),
            default=DEFAULT_DRAFTER,
            show_default=True,
            help="What proposes tokens while decoding.",
        ),
    ):
        function = option(function)
    return function


def limit_options(function: F) -> F:
    """--max-output."""
    return click.option(
        "--max-output", type=click.IntRange(min=0), metavar="BYTES", help="Refuse content longer than this."
    )(function)


def make_limits(max_output: int | None) -> Limits:
    """Return the reader's limits."""
    return Limits(output_bytes=max_output)


def make_options(
    threads: int, device: str, groups: int = 1, drafter: DrafterName = DEFAULT_DRAFTER, drafter_file: str = ""
) -> Options:
    """Return the library's runtime options.

    Raises:
        ArgumentError: a value makes no sense.
    """
    kind, _, index = device.partition(":")
    if kind not in ("cpu", "cuda") or (index and not index.isdecimal()):
        raise ArgumentError(f'--device is "{device}"; choose cpu, cuda or cuda:N')
    return Options(threads=threads, device=device, groups=groups, drafter=drafter, drafter_file=drafter_file)


def make_console(quiet: bool, verbose: bool = False, *, to_stdout: bool = False) -> Console:
    """Return what a command speaks through.

    Where the result goes to standard output, remarks need -v, and a terminal there is not drawn on.

    Raises:
        ArgumentError: both are wanted.
    """
    if quiet and verbose:
        raise ArgumentError("-q and -v exclude each other")
    if quiet:
        return Console(QUIET)
    bars = not (to_stdout and output_is_terminal())
    if verbose:
        return Console(DETAILED, bars=bars)
    return Console(NORMAL, remarks=not to_stdout, bars=bars)


def require_single_output(
    files: tuple[str, ...], output: str | None, to_stdout: bool, remove: bool, keep: bool
) -> None:
    """Refuse combinations of output options that contradict each other.

    Raises:
        ArgumentError: saying which.
    """
    if output is not None and to_stdout:
        raise ArgumentError("-o and -c exclude each other")
    if output is not None and len(files) > 1:
        raise ArgumentError("-o names one output; give one FILE, or use -c to write them one after another")
    if remove and keep:
        raise ArgumentError("--rm and --keep exclude each other")
    if remove and (to_stdout or output == "-" or "-" in files):
        raise ArgumentError("--rm needs named files for input and output")
