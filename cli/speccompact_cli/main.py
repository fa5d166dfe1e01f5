"""Entry point: the command group, and the fence that no traceback passes."""

import contextlib
import importlib
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

import click

from speccompact_cli.console import Console, silence_output
from speccompact_cli.exit_codes import SUCCESS, Stopped, exit_code
from speccompact_cli.reports import report_failure

_COMMANDS = {
    "archive": ("archive_cmd", "Pack trees of files, and get back any of them."),
    "bench": ("bench_cmd", "Measure size and speed after a verified round trip."),
    "compress": ("compress_cmd", "Compress files to FILE.spc."),
    "decompress": ("decompress_cmd", "Decompress FILE.spc."),
    "inspect": ("inspect_cmd", "Show what a compressed file holds, without decoding it."),
    "jobs": ("jobs_cmd", "Let a service work on files of its own machine."),
    "models": ("models_cmd", "List, fetch, convert, move and remove models."),
    "serve": ("serve_cmd", "Serve compression over gRPC."),
    "train": ("train_cmd", "Tune a model on text of your own."),
    "verify": ("verify_cmd", "Decode and check, without writing anything."),
}
"""Name, module and help line. Modules load on use: help for all of them must not wait for what one of them needs."""

_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""With the interrupt among them: a KeyboardInterrupt that strikes while Python runs text (``exec``, as importing does
for dataclasses) is remembered, and the interpreter then kills itself at its exit, whatever the code, even if the
exception was handled."""


class CommandGroup(click.Group):
    """A group that knows its commands by name and loads the module of the one that is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names, sorted."""
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load one command; None where there is no such name."""
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"speccompact_cli.{_COMMANDS[cmd_name][0]}")
        command = getattr(module, f"{cmd_name}_command")
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help lines without loading anything."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in sorted(_COMMANDS.items())])


def _print_version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        from importlib import metadata  # slow to import, and only this option needs it

        try:
            release = metadata.version("speccompact")
        except metadata.PackageNotFoundError:  # run from a source tree
            release = "not installed"
        click.echo(f"speccompact {release}")
        context.exit()


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "-V",
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Show the version.",
)
def program() -> None:
    """Lossless compression of text with a language model.

    Exit codes: 0 done, 1 the system refused, 2 wrong use, 3 damaged or foreign data, 4 model missing or damaged,
    5 a limit was reached, 6 an archive job left something out, 69 a service refused or failed, 70 a bug in this
    program, 130 interrupted, 141 the reader of the output went away, 143 ended by SIGTERM.
    """


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; every error is said on standard error in one line.

    Args:
        arguments: without the program's name; None means those of the process.
    """
    console = Console()
    try:
        # Not program.main(): it would turn a broken pipe and Ctrl-C into exits of its own.
        with program.make_context("speccompact", list(sys.argv[1:] if arguments is None else arguments)) as context:
            code = program.invoke(context)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code if isinstance(code, int) else SUCCESS
    except click.exceptions.Exit as wish:
        return wish.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except BrokenPipeError as error:
        silence_output()
        return exit_code(error)
    except (Exception, KeyboardInterrupt, Stopped) as error:
        report_failure(console, error)
        with contextlib.suppress(OSError):
            silence_output()
        return exit_code(error)


def main() -> NoReturn:
    """Run as a program: signals that end it clean up first, and the process exits with the code."""
    for signum in _ENDING_SIGNALS:
        if signal.getsignal(signum) is not signal.SIG_IGN:  # nohup and shells have their reasons
            signal.signal(signum, _stop)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            # A name or remark that the terminal's encoding lacks is shown escaped; it must not end the program.
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.exit(run())


def _stop(signum: int, _frame: FrameType | None) -> NoReturn:
    raise Stopped(signum)
