"""The loop over FILE…: each is tried, what fails is said, and the first failure decides the exit code."""

from collections.abc import Callable, Sequence

import speccompact
from speccompact.errors import ArgumentError, SpecCompactError
from speccompact_cli.console import Console, input_is_terminal
from speccompact_cli.exit_codes import SUCCESS, exit_code
from speccompact_cli.files import Source
from speccompact_cli.naming import STANDARD, shown
from speccompact_cli.reports import report_failure


def inputs(files: Sequence[str]) -> Sequence[str]:
    """Return the inputs to work on: those named, else standard input.

    Raises:
        ArgumentError: nothing is named and standard input is a terminal.
    """
    if files:
        return files
    if input_is_terminal():
        raise ArgumentError("standard input is a terminal; name a FILE, or - to type the input")
    return (STANDARD,)


def content_size(console: Console, source: Source) -> int | None:
    """Return the content bytes of an archive, for a progress bar; None where that cannot be told, or is of no use.

    Modifies: nothing; the stream of a regular file is put back to its start.
    """
    if not console.shows_progress or source.status is None:
        return None
    try:
        return speccompact.inspect(source.stream).content_bytes
    except SpecCompactError:
        return None  # the command itself will say what is wrong
    finally:
        source.stream.seek(0)


def for_each(files: Sequence[str], console: Console, job: Callable[[str], int]) -> int:
    """Run a job for each input; one failure does not stop the others.

    Args:
        files: inputs.
        console: where failures are said.
        job: takes an input and returns an exit code, or raises.

    Returns:
        The exit code of the first input that failed, or SUCCESS.
    """
    result = SUCCESS
    for path in files:
        try:
            code = job(path)
        except BrokenPipeError:
            raise  # whoever reads the output is gone: the rest of the work is for nobody
        except Exception as error:
            report_failure(console, error, shown(path))
            code = exit_code(error)
        result = result or code
    return result
