"""The archive commands, in this process, with the fake model."""

import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from speccompact.archive.entries import Entry
from speccompact.archive.events import Event
from speccompact_cli.archive_common import JobProgress
from speccompact_cli.console import Console
from speccompact_cli.main import run
from tests.archive_trees import facts, forge, make_tree, opened
from tests.fakes import FakeEngines, prose

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(
    tmp_path: Path, fake_engines: FakeEngines, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Command:
    """Run `speccompact archive` in tmp_path, where the folder `tree` is; returns code, output and remarks."""
    make_tree(tmp_path / "tree")
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(["archive", *arguments])
        out, said = capfd.readouterr()
        assert "Traceback" not in said
        return code, out, said

    return call


def test_there_and_back(command: Command, tmp_path: Path) -> None:
    code, out, said = command("create", "-2", "a.spca", "tree", "--events", "log.jsonl")
    assert (code, out) == (0, "")
    assert "a.spca: holds 2" in said
    assert "bpb" in said
    events = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert {"found", "planned", "group", "done"} <= {event["event"] for event in events}
    assert command("verify", "a.spca")[0] == 0
    assert command("verify", "--quick", "a.spca")[0] == 0
    assert command("diff", "a.spca", "tree")[:2] == (0, "")
    assert command("extract", "a.spca", "-C", "out")[0] == 0
    assert facts(tmp_path / "out" / "tree") == facts(tmp_path / "tree")


def test_list(command: Command) -> None:
    command("create", "a.spca", "tree")
    code, out, _ = command("list", "a.spca", "tree/docs", "--include", "*.md")
    assert (code, out) == (0, "tree/docs/copy.md\n")
    code, out, _ = command("list", "-l", "a.spca", "tree/run.sh", "tree/link")
    assert out.splitlines()[0].startswith("lrwxrwxrwx")
    assert out.splitlines()[0].endswith("tree/link -> docs/0.txt")
    assert out.splitlines()[1].startswith("-rwxr-x---")
    entries = [json.loads(line) for line in command("list", "--json", "a.spca")[1].splitlines()]
    names = {entry["path"]: entry for entry in entries}
    assert names["tree/holes"]["size"] == 3 << 20
    assert os.fsencode("tree/bytes\udcff\udcfe") in {os.fsencode(name) for name in names}
    assert names["tree/bytes\udcff\udcfe"]["path_base64"]


def test_a_time_that_no_calendar_knows_is_a_number(command: Command, tmp_path: Path) -> None:
    forge(tmp_path / "a.spca", [([Entry(b"odd", mtime_ns=(1 << 60) * 10**9)], b"")])
    code, out, _ = command("list", "-l", "a.spca")
    assert (code, f"{1 << 60} odd" in out) == (0, True)


def test_cat_says_what_it_decoded(command: Command, tmp_path: Path) -> None:
    command("create", "a.spca", "tree")
    code, out, said = command("cat", "-v", "a.spca", "tree/docs/3.txt")
    assert (code, out.encode()) == (0, (tmp_path / "tree" / "docs" / "3.txt").read_bytes())
    assert "1 of 3 groups decoded" in said
    assert command("cat", "a.spca", "tree/none")[0] == 2
    assert command("cat", "a.spca", "nothing")[0] == 1


def test_append_and_diff(command: Command, tmp_path: Path) -> None:
    command("create", "a.spca", "tree")
    (tmp_path / "tree" / "later.txt").write_bytes(prose(700, 5))
    code, out, _ = command("diff", "--json", "a.spca", "tree")
    assert code == 1
    assert {"path": "tree/later.txt", "what": ["new"]} in [json.loads(line) for line in out.splitlines()]
    assert command("append", "a.spca", "tree")[0] == 0
    assert command("diff", "--content", "a.spca", "tree")[:2] == (0, "")


def test_repair(command: Command, tmp_path: Path) -> None:
    command("create", "a.spca", "tree")
    (tmp_path / "bad.spca").write_bytes((tmp_path / "a.spca").read_bytes()[:-20])
    code, _, said = command("verify", "bad.spca")
    assert (code, "repair" in said) == (3, True)
    assert command("repair", "bad.spca", "a.spca")[0] == 1
    assert command("repair", "bad.spca", "good.spca")[0] == 0
    assert (tmp_path / "good.spca").read_bytes() == (tmp_path / "a.spca").read_bytes()


def test_lists_of_files(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "names").write_bytes(b"tree/docs/1.txt\ntree/docs/2.txt\n")
    assert command("create", "a.spca", "--files-from", "names")[0] == 0
    assert command("list", "a.spca")[1] == "tree/docs/1.txt\ntree/docs/2.txt\n"
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"tree/bytes\xff\xfe\0")))
    assert command("create", "b.spca", "-0", "--files-from", "-")[0] == 0
    assert command("list", "b.spca")[1] == "tree/bytes\\xff\\xfe\n"


def test_volumes(command: Command, tmp_path: Path) -> None:
    assert command("create", "a.spca", "tree", "--volume-size", "10k")[0] == 0
    assert (tmp_path / "a.spca.002").exists()
    assert command("verify", "a.spca")[0] == 0


def test_groups_side_by_side(command: Command, tmp_path: Path) -> None:
    assert command("create", "a.spca", "tree")[0] == command("create", "--parallel", "3", "b.spca", "tree")[0] == 0
    assert (tmp_path / "a.spca").read_bytes() == (tmp_path / "b.spca").read_bytes()
    (tmp_path / "tree" / "later.txt").write_bytes(prose(700, 5))
    assert command("append", "--parallel", "2", "b.spca", "tree")[0] == 0
    assert command("verify", "b.spca")[0] == 0


def test_report(command: Command, tmp_path: Path) -> None:
    command("create", "a.spca", "tree", "--events", "log")
    assert command("report", "a.spca", "a.html", "--log", "log")[:2] == (0, "")
    page = (tmp_path / "a.html").read_text("utf-8")
    assert all(words in page for words in ("<h1>a.spca</h1>", "xz -9e", "The job"))
    assert command("report", "a.spca", "a.html", "--no-sample")[0] == 1
    assert command("report", "-f", "--no-sample", "a.spca", "a.html")[0] == 0
    assert "xz -9e" not in (tmp_path / "a.html").read_text("utf-8")
    assert command("report", "a.spca", "b.html", "--log", "a.spca")[0] == 3
    assert not (tmp_path / "b.html").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["create", "a.spca"], 2, "SOURCE"),
        (["create", "a.spca", "nowhere"], 1, "nowhere"),
        (["create", "taken", "tree"], 1, "-f"),
        (["create", "a.spca", "tree", "--engine", "abacus"], 2, "--engine"),
        (["create", "a.spca", "tree", "--volume-size", "lots"], 2, "700m"),
        (["create", "a.spca", "tree", "--slot-tokens", "1"], 2, "--slot-tokens"),
        (["create", "nosuch://bucket/a.spca", "tree"], 2, "nosuch"),
        (["extract", "taken"], 3, "taken: the file does not begin"),
        (["extract", "nowhere"], 1, "nowhere"),
        (["list", "taken"], 3, "taken: the file does not begin"),
        (["create", "nowhere/a.spca", "tree"], 1, "No such file or directory"),
        (["append", "nowhere", "tree"], 1, "nowhere"),
        (["repair", "taken", "out"], 3, "taken: the file does not begin"),
        (["repair", "-f", "taken", "taken"], 2, "--output"),
        (["report", "taken", "out.html"], 3, "does not begin"),
        (["report", "nowhere", "out.html"], 1, "nowhere"),
        (["report", "taken", "out.html", "--sample", "0"], 2, "700m"),
        (["create", "a.spca", "tree", "--parallel", "0"], 2, "--parallel"),
        (["create", "a.spca", "tree", "--parallel", "2", "--engine", "ray"], 2, "local engine"),
        (["frobnicate"], 2, "frobnicate"),
    ],
)
def test_mistakes(command: Command, tmp_path: Path, arguments: list[str], code: int, words: str) -> None:
    (tmp_path / "taken").write_bytes(b"taken")
    before = sorted(os.listdir(tmp_path))
    found, out, said = command(*arguments)
    assert (found, out) == (code, "")
    assert words in said
    assert sorted(os.listdir(tmp_path)) == before


def test_what_was_left_out_shows_in_the_code(command: Command, tmp_path: Path) -> None:
    command("create", "a.spca", "tree")
    (tmp_path / "out" / "tree").mkdir(parents=True)
    (tmp_path / "out" / "tree" / "run.sh").write_text("mine")
    code, _, said = command("extract", "a.spca", "-C", "out")
    assert code == 6
    assert "tree/run.sh: left out: already exists" in said
    assert (tmp_path / "out" / "tree" / "run.sh").read_text() == "mine"


def test_damage_is_named_with_file_and_place(command: Command, tmp_path: Path) -> None:
    command("create", "a.spca", "tree")
    data = (tmp_path / "a.spca").read_bytes()
    with opened(tmp_path / "a.spca") as archive:
        place = archive.catalogue.groups[archive.entries[b"tree/run.sh"].pieces[0].group]
        catalogue = archive.trailer.catalogue_offset
    for at, words in (
        (place.offset + 8, f"a.spca: tree/run.sh: group {place.number} at byte {place.offset}: the head"),
        (place.offset + 60, f"a.spca: tree/run.sh: the table of group {place.number} at byte {place.offset + 48}"),
        (place.offset + place.record_bytes - 9, f"a.spca: tree/run.sh: the payload of group {place.number} at byte"),
        (catalogue + 8, f"a.spca: catalogue at byte {catalogue}"),
        (catalogue + 60, f"a.spca: catalogue at byte {catalogue}"),
        (len(data) - 20, "a.spca: the archive has no trailer"),
    ):
        (tmp_path / "a.spca").write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        code, _, said = command("cat", "a.spca", "tree/run.sh")
        assert code == 3
        assert words in said


@pytest.mark.parametrize("name", ["list", "cat", "extract", "verify", "diff", "report", "repair"])
def test_every_reader_can_refuse_many_entries(command: Command, name: str) -> None:
    command("create", "a.spca", "tree")
    rest = {"cat": ["tree/run.sh"], "diff": ["tree"], "report": ["out.html"], "repair": ["out"]}.get(name, [])
    code, out, said = command(name, "--max-entries", "3", "a.spca", *rest)
    assert (code, out) == (5, "")
    assert "the limit is 3" in said or "more than 3" in said


class FakeConsole:
    def __init__(self) -> None:
        self.lines: list[tuple[str, ...]] = []

    def draw(self, *fields: str) -> None:
        self.lines.append(fields)


def test_progress_shows_the_job_and_the_file_at_work() -> None:
    console = FakeConsole()
    now = iter([0.0, 1.0, 2.0, 3.0])
    line = JobProgress(cast(Console, console), "a.spca", clock=lambda: next(now))
    line.hear(Event("planned", {"entries": 2, "bytes": 1000}))
    line.hear(
        Event(
            "progress",
            {"done": 250, "total": 1000, "path": b"a\n", "path_done": 3, "path_total": 6, "archive_bytes": 0},
        )
    )
    line.hear(Event("group", {"done": 500, "total": 1000, "archive_bytes": 125}))
    shown = console.lines
    assert shown[0][1:3] == ("[#####---------------]  25%", "? left")
    assert shown[0][-1].endswith(" [#####-----] 50%")
    assert "\n" not in shown[0][-1]
    assert shown[1][1:] == ("[##########----------]  50%", "0:04 left", "500 B/1 kB", "125 B/s", "2.000 bpb")
