"""What the commands of ``speccompact archive`` share: options, progress, the event log, the table at the end."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import click

from speccompact.archive.events import Event, EventLog, JobSummary, Listener
from speccompact.archive.readoptions import ArchiveLimits
from speccompact.archive.request import Request
from speccompact.errors import ArgumentError
from speccompact.modelstore.registry import DEFAULT_MODEL
from speccompact.params import DEFAULT_LEVEL
from speccompact.quantities import amount, duration
from speccompact_cli.console import Console, standard_input
from speccompact_cli.exit_codes import JOB, SUCCESS
from speccompact_cli.naming import STANDARD, shown
from speccompact_cli.progress import Activity

F = TypeVar("F", bound=Callable[..., Any])

_INTERVAL = 0.1
_BAR = 20  # characters
_FILE_BAR = 10
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def archive_argument(function: F) -> F:
    """ARCHIVE, as the system gave it."""
    return click.argument("archive", metavar="ARCHIVE")(function)


def selection_options(function: F) -> F:
    """--include, --exclude."""
    for option in (
        click.option("--exclude", multiple=True, metavar="GLOB", help="Leave out what matches; repeatable."),
        click.option("--include", multiple=True, metavar="GLOB", help="Take only what matches; repeatable."),
    ):
        function = option(function)
    return function


def source_options(function: F) -> F:
    """SOURCE…, --files-from, -0, globs, --xattrs."""
    function = click.argument("sources", metavar="[SOURCE]...", nargs=-1)(selection_options(function))
    for option in (
        click.option("--xattrs", is_flag=True, help="Keep extended attributes."),
        click.option(
            "-0", "--null", "by_null", is_flag=True, help="Names of --files-from end in NUL, not in a newline."
        ),
        click.option("--files-from", metavar="FILE", help="Take the paths listed in FILE, too; - is standard input."),
    ):
        function = option(function)
    return function


def event_option(function: F) -> F:
    """--events."""
    return click.option("--events", metavar="FILE", help="Append what happens to FILE, as lines of JSON.")(function)


def parse_size(_context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """Return the bytes of 700m, 4g and the like, in decimal units.

    Raises:
        BadParameter: it is something else, or nothing.
    """
    if value is None:
        return None
    number, unit = value[:-1], value[-1:].lower()
    if unit.isdigit():
        number, unit = value, ""
    if not (number.isascii() and number.isdecimal() and len(number) < 16 and unit in _UNITS) or not int(number):
        raise click.BadParameter(f"{value[:40]!r} is no size; write 700m or 4g", param=parameter)
    return int(number) * _UNITS[unit]


def entries_option(function: F) -> F:
    """--max-entries."""
    return click.option(
        "--max-entries", type=click.IntRange(min=0), metavar="N", help="Refuse archives with more entries."
    )(function)


def make_archive_limits(max_entries: int | None, max_output: int | None = None) -> ArchiveLimits:
    """Return the limits of a reader of archives."""
    limits = ArchiveLimits(output_bytes=max_output)
    return limits if max_entries is None else replace(limits, entries=max_entries)


def make_request(values: dict[str, Any]) -> Request:
    """Return what a job is asked for.

    Args:
        values: of `source_options`, and further fields of the request; a level or model that is None becomes the
            default.

    Raises:
        ArgumentError: nothing is named.
    """
    sources, files_from, by_null = values.pop("sources"), values.pop("files_from"), values.pop("by_null")
    named = _listed(files_from, by_null) if files_from is not None else ()
    if not sources and not named:
        raise ArgumentError("name a SOURCE, or a list with --files-from")
    level, model = values.pop("level", None), values.pop("model", None)
    return Request(
        sources,
        named,
        level=DEFAULT_LEVEL if level is None else level,
        model=model or DEFAULT_MODEL,
        **values,
    )


def _listed(name: str, by_null: bool) -> tuple[str, ...]:
    with contextlib.ExitStack() as stack:
        stream = standard_input() if name == STANDARD else stack.enter_context(open(name, "rb"))
        lines = stream.read().split(b"\0" if by_null else b"\n")
    return tuple(os.fsdecode(line) for line in lines if line)


@contextmanager
def watching(console: Console, label: str, events: str | None) -> Iterator[Listener]:
    """Give a listener that draws progress and writes the event log.

    Raises:
        OSError: the log cannot be written.
    """
    with contextlib.ExitStack() as stack:
        line = stack.enter_context(JobProgress(console, label))
        log = EventLog(stack.enter_context(open(events, "a", encoding="utf-8"))) if events else None

        def listen(event: Event) -> None:
            line.hear(event)
            if log is not None and event.name != "progress":
                log(event)

        yield listen


class JobProgress(Activity):
    """One line for a job: a bar of all bytes, rate, time left, size so far, then the file at work with its own bar."""

    def __init__(self, console: Console, label: str, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(console)
        self._label, self._clock = label, clock
        self._drawn, self._began, self._first = 0.0, clock(), -1

    def hear(self, event: Event) -> None:
        """Draw what an event says, ten times a second at most; say at once what was left out."""
        values: dict[str, Any] = event.values
        if event.name == "left-out":
            where = f"{shown(values['path'])}: " if values["path"] else ""
            self._console.error(f"{where}left out: {values['reason']}")
            return
        now = self._clock()
        if event.name == "planned":
            self._began, self._first = now, -1
        if now - self._drawn < _INTERVAL:
            return
        self._drawn = now
        if event.name == "found":
            self.show(self._label, f"looking: {values['entries']} entries", amount(values["bytes"]))
        elif values.get("total"):
            self.show(self._label, *self._fields(values, now - self._began))

    def _fields(self, values: dict[str, Any], seconds: float) -> list[str]:
        done, total = values["done"], values["total"]
        if self._first < 0:  # what an earlier run has done says nothing about the rate
            self._first = done
        share = min(done / total, 1.0)
        rate = (done - self._first) / seconds if seconds > 0 else 0.0
        left = duration((total - done) / rate) if rate > 0 else "?"
        fields = [
            f"{_bar(share, _BAR)} {share:4.0%}",
            f"{left} left",
            f"{amount(done)}/{amount(total)}",
            f"{amount(rate)}/s",
        ]
        if values.get("archive_bytes") and done:
            fields.append(f"{8 * values['archive_bytes'] / done:.3f} bpb")
        if values.get("path"):
            own = values["path_done"] / values["path_total"] if values.get("path_total") else 1.0
            fields.append(f"{shown(values['path'])} {_bar(own, _FILE_BAR)} {own:.0%}")
        return fields


def _bar(share: float, width: int) -> str:
    return "[" + ("#" * int(share * width)).ljust(width, "-") + "]"


def report_job(console: Console, archive: str, verb: str, summary: JobSummary, seconds: float) -> int:
    """Say what a job came to, as a table, and return its exit code."""
    lines = [
        f"{shown(archive)}: {verb} {summary.entries} entries, {amount(summary.content_bytes)} in {duration(seconds)}"
    ]
    if summary.text_bytes or summary.other_bytes:
        lines.append("            content     stored    bpb")
        for name, size, payload in (
            ("text", summary.text_bytes, summary.text_payload),
            ("other", summary.other_bytes, summary.other_payload),
            ("all", summary.content_bytes, summary.archive_bytes),
        ):
            lines.append(f"  {name:6}{amount(size):>11}{amount(payload):>11}  {8 * payload / size if size else 0:5.3f}")
        repeated = summary.content_bytes - summary.stored_bytes
        lines.append(f"  {summary.groups} groups; {amount(repeated)} repeated or holes; all includes names and checks")
    console.note("\n".join(lines))
    if summary.left_out:
        console.error(f"{shown(archive)}: {len(summary.left_out)} left out")
        return JOB
    return SUCCESS
