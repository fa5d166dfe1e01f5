"""Progress bars on standard error: share done, rate, time left."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from speccompact.quantities import amount, duration
from speccompact_cli.console import Console

_INTERVAL = 0.1
"""Seconds between two drawings."""

_BAR_WIDTH = 20

_STAGES_IN_BYTES = ("download", "extract")
"""Stages of fetching a model that count bytes; converting counts weights, which mean nothing to a user."""


class Activity:
    """One line on a terminal that is redrawn in place while work goes on and wiped when it ends.

    Args:
        console: decides whether anything is drawn at all.
    """

    def __init__(self, console: Console) -> None:
        self._console = console

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Wipe the line."""
        self._console.wipe()

    def show(self, *fields: str) -> None:
        """Replace the line by another, of fields in the order of their importance."""
        self._console.draw(*fields)


class Progress(Activity):
    """A bar for one piece of work.

    Args:
        console: decides whether anything is drawn at all.
        label: what is being worked on, safe to print.
        total: bytes that make the whole, or None where unknown.
        clock: seconds, monotonic.
        content: content bytes that those of `total` stand for, where known: the bar then counts content.
        in_bytes: whether bytes are counted; other amounts are shown as a share alone.
    """

    def __init__(
        self,
        console: Console,
        label: str,
        total: int | None,
        clock: Callable[[], float] = time.monotonic,
        *,
        content: int | None = None,
        in_bytes: bool = True,
    ) -> None:
        super().__init__(console)
        self._label = label
        self._total = total
        self._content = content
        self._in_bytes = in_bytes
        self._clock = clock
        self._began = clock()
        self._drawn = self._began

    def update(self, done: int, total: int | None = None) -> None:
        """Say how far the work is.

        Args:
            done: bytes that are finished.
            total: bytes that make the whole, where it became known only now.
        """
        now = self._clock()
        if now - self._drawn < _INTERVAL:
            return
        self._drawn = now
        total = total if total is not None else self._total
        if total and self._content is not None:
            done, total = done * self._content // total, self._content
        self.show(*self._fields(done, total, now - self._began))

    def _fields(self, done: int, total: int | None, seconds: float) -> list[str]:
        rate = done / seconds if seconds > 0 else 0.0
        if not total:
            return [self._label, amount(done), f"{amount(rate)}/s"]
        share = min(done / total, 1.0)
        filled = int(share * _BAR_WIDTH)
        bar = "#" * filled + "-" * (_BAR_WIDTH - filled)
        left = duration((total - done) / rate) if rate and done <= total else "?"
        fields = [self._label, f"[{bar}] {share:4.0%}", f"{left} left"]
        return [*fields, f"{amount(done)}/{amount(total)}", f"{amount(rate)}/s"] if self._in_bytes else fields


class StageProgress:
    """One progress bar after another, for the stages of fetching a model; with -v also a line for each as it begins."""

    def __init__(self, console: Console, name: str) -> None:
        self._console = console
        self._name = name
        self._stage = ""
        self._bar: Progress | None = None

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Say how far a stage is; a new stage begins a new bar."""
        if stage != self._stage or self._bar is None:
            self.close()
            in_bytes = stage in _STAGES_IN_BYTES
            self._console.detail(f"{self._name}: {stage}" + (f" {amount(total)}" if in_bytes else ""))
            self._stage, self._bar = stage, Progress(self._console, f"{self._name}: {stage}", total, in_bytes=in_bytes)
        self._bar.update(done, total)

    @property
    def idle(self) -> bool:
        """Whether nothing had to be done so far."""
        return self._bar is None

    def close(self) -> None:
        """Wipe what is drawn."""
        if self._bar is not None:
            self._bar.close()
