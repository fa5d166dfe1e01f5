import io
import sys

import pytest

from speccompact_cli.console import DETAILED, NORMAL, QUIET, Console, fitted
from speccompact_cli.progress import Progress, StageProgress
from speccompact_cli.shared_options import make_console


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_terminal_sees_share_rate_and_time_left() -> None:
    terminal, clock = Terminal(), Clock()
    with Progress(Console(NORMAL, terminal), "book.txt", 1000, clock) as progress:
        clock.now += 1
        progress.update(250)
    shown = terminal.getvalue()
    assert "book.txt  [#####---------------]  25%  0:03 left  250 B/1 kB  250 B/s" in shown
    assert shown.endswith("\r")


def test_content_is_counted_where_its_size_is_known() -> None:
    terminal, clock = Terminal(), Clock()
    with Progress(Console(NORMAL, terminal), "book.spc", 1000, clock, content=8000) as progress:
        clock.now += 1
        progress.update(250)
    assert " 25%  0:03 left  2 kB/8 kB  2 kB/s" in terminal.getvalue()


def test_a_remark_takes_the_bar_away_first() -> None:
    terminal, clock = Terminal(), Clock()
    console = Console(NORMAL, terminal)
    progress = Progress(console, "x", 10, clock)
    clock.now += 1
    progress.update(5)
    console.error("trouble")
    assert terminal.getvalue().endswith(" \rspeccompact: trouble\n")


@pytest.mark.parametrize(
    ("to_stdout", "terminal", "drawn"), [(True, True, False), (True, False, True), (False, True, True)]
)
def test_no_bar_among_content_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, to_stdout: bool, terminal: bool, drawn: bool
) -> None:
    monkeypatch.setattr(sys, "stdout", Terminal() if terminal else io.StringIO())
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert make_console(False, False, to_stdout=to_stdout).shows_progress == drawn


def test_it_is_not_redrawn_at_every_call() -> None:
    terminal, clock = Terminal(), Clock()
    with Progress(Console(NORMAL, terminal), "x", None, clock) as progress:
        for done in range(100):
            clock.now += 0.01
            progress.update(done)
    assert 8 <= terminal.getvalue().count("/s") <= 10


def test_a_long_name_is_cut_to_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    terminal, clock = Terminal(), Clock()
    progress = Progress(Console(NORMAL, terminal), "n" * 100, 10, clock)
    clock.now += 1
    progress.update(5)
    assert len(terminal.getvalue()) == 40
    assert terminal.getvalue().endswith("n…  [##########----------]  50%")


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (99, "training  50%  1:15 left  -3.00 %"),
        (33, "training  50%  1:15 left  -3.00 %"),
        (32, "training  50%  1:15 left"),
        (24, "training  50%  1:15 left"),
        (23, "training  5…  1:15 left"),
        (13, "t…  1:15 left"),
        (12, "training  50"),
        (3, "tra"),
        (0, ""),
    ],
)
def test_what_does_not_fit_is_left_out_as_a_whole(width: int, line: str) -> None:
    assert fitted(["training  50%", "1:15 left", "-3.00 %"], width) == line


def test_stages_are_bars_and_with_v_lines_too() -> None:
    terminal = Terminal()
    stages = StageProgress(Console(DETAILED, terminal), "tiny")
    assert stages.idle
    stages("download", 0, 93_000_000)
    stages("download", 93_000_000, 93_000_000)
    stages("convert", 0, 1_000_000)
    assert terminal.getvalue().splitlines() == ["tiny: download 93 MB", "tiny: convert"]
    assert not stages.idle


def test_what_is_not_bytes_is_shown_as_a_share() -> None:
    terminal, clock = Terminal(), Clock()
    with Progress(Console(NORMAL, terminal), "tiny: convert", 1000, clock, in_bytes=False) as progress:
        clock.now += 1
        progress.update(250)
    assert "\rtiny: convert  [#####---------------]  25%  0:03 left\r" in terminal.getvalue()


@pytest.mark.parametrize("console", [Console(QUIET, Terminal()), Console(NORMAL, io.StringIO())])
def test_nothing_is_drawn_when_quiet_or_not_on_a_terminal(console: Console) -> None:
    clock = Clock()
    with Progress(console, "x", 10, clock) as progress:
        clock.now += 1
        progress.update(5)
    assert console._stream is not None
    assert isinstance(console._stream, io.StringIO)
    assert console._stream.getvalue() == ""


def test_a_console_whose_stream_is_gone_stays_silent() -> None:
    class Gone(io.StringIO):
        def write(self, _text: str) -> int:
            raise OSError(32, "Broken pipe")

    console = Console(NORMAL, Gone())
    console.error("first")
    console.error("second")
