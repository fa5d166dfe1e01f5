"""Every command and option, in one process, with a model that is none."""

import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import click
import pytest

from speccompact_cli.exit_codes import USAGE
from speccompact_cli.main import program
from tests.cli.processes import Run
from tests.fakes import FakeEngines, prose
from tests.source_tree import ROOT

TEXT = prose(20_000)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_bytes(TEXT)
    return path


@pytest.fixture
def give(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], None]]:
    """Make a file standard input."""
    with ExitStack() as stack:
        yield lambda path: monkeypatch.setattr(sys, "stdin", stack.enter_context(path.open()))


def test_short_memory_while_decoding_names_the_need(
    call: Run, text: Path, fake_engines: FakeEngines, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call("compress", "text.txt")[0] == 0

    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(fake_engines.codec, "decode", fail)
    code, _, said = call("decompress", "-c", "text.txt.spc")
    assert (code, "up to 3.8 GB" in said, "--parallel" in said, "level" in said) == (5, True, False, False)
    code, _, said = call("verify", "--parallel", "3", "text.txt.spc")
    assert (code, "--parallel 3 takes that 3 times" in said) == (5, True)
    code, _, said = call("inspect", "--stats", "text.txt.spc")
    assert (code, "up to 3.8 GB" in said) == (5, True)


def test_there_and_back(call: Run, text: Path) -> None:
    text.chmod(0o600)
    os.utime(text, (1_000, 2_000))
    code, out, said = call("compress", "text.txt")
    assert (code, out) == (0, b"")
    assert said.startswith("text.txt: 20 kB → ")
    assert said.endswith(": text.txt.spc\n")
    assert text.exists()
    text.unlink()
    assert call("decompress", "text.txt.spc")[0] == 0
    assert text.read_bytes() == TEXT
    for path in (text, text.with_name("text.txt.spc")):
        assert path.stat().st_mtime == 2_000
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_standard_streams(call: Run, text: Path, give: Callable[[Path], None]) -> None:
    give(text)
    code, packed, said = call("compress", "-")
    assert (code, said) == (0, "")
    archive = text.with_name("archive")
    archive.write_bytes(packed)
    give(archive)
    assert call("decompress") == (0, TEXT, "")


def test_an_output_of_another_name(call: Run, text: Path) -> None:
    assert call("compress", "-q", "text.txt", "-o", "other") == (0, b"", "")
    assert call("decompress", "-q", "-o", "-", "other") == (0, TEXT, "")
    assert not text.with_name("text.txt.spc").exists()


def test_several_files_one_after_another_on_standard_output(call: Run, text: Path) -> None:
    text.with_name("more.txt").write_bytes(TEXT[::-1])
    code, packed, _ = call("compress", "-c", "text.txt", "more.txt")
    text.with_name("both.spc").write_bytes(packed)
    assert code == 0
    assert call("decompress", "-c", "both.spc")[1] == TEXT + TEXT[::-1]


def test_one_failure_does_not_stop_the_others(call: Run, text: Path) -> None:
    code, _, said = call("compress", "absent", "text.txt", ".")
    assert code == 1
    assert text.with_name("text.txt.spc").exists()
    assert "absent: No such file" in said
    assert ".: Is a directory" in said


def test_the_input_goes_only_when_asked_and_last(call: Run, text: Path) -> None:
    assert call("compress", "-k", "text.txt")[0] == 0
    assert text.exists()
    assert call("compress", "--rm", "text.txt")[0] == 1
    assert text.exists()
    assert call("compress", "--rm", "-f", "text.txt")[0] == 0
    assert not text.exists()
    assert call("decompress", "--rm", "text.txt.spc")[0] == 0
    assert text.read_bytes() == TEXT
    assert not text.with_name("text.txt.spc").exists()


@pytest.mark.parametrize(
    ("options", "level"),
    [((), 5), (("-1",), 1), (("-9",), 9), (("--level", "3"), 3), (("-9", "--level", "2", "-4"), 4)],
)
def test_levels(call: Run, text: Path, options: tuple[str, ...], level: int) -> None:
    assert call("compress", *options, "text.txt")[0] == 0
    code, out, _ = call("inspect", "--json", "text.txt.spc")
    assert (code, json.loads(out)["level"]) == (0, level)


def test_short_options_combine(call: Run, text: Path) -> None:
    code, _, said = call("compress", "-1fq", "--", "text.txt")
    assert (code, said) == (0, "")


def test_slots_of_another_length(call: Run, text: Path) -> None:
    assert call("compress", "--slot-tokens", "64", "--threads", "1", "text.txt")[0] == 0
    assert json.loads(call("inspect", "--json", "text.txt.spc")[1])["slots"] > 30


def test_a_range_decodes_only_its_frames(call: Run, text: Path, fake_engines: FakeEngines) -> None:
    assert call("compress", "-1", "--slot-tokens", "16", "text.txt")[0] == 0
    frames = json.loads(call("inspect", "--json", "text.txt.spc")[1])["frames"]
    assert len(frames) > 2
    fake_engines.codec.decoded = 0
    assert call("decompress", "--range", "5000:70", "text.txt.spc") == (0, TEXT[5000:5070], "")
    assert 0 < fake_engines.codec.decoded <= 2 * max(frame["model_slots"] for frame in frames)
    assert call("decompress", "--range", "5:7", "-o", "part", "text.txt.spc")[0] == 0
    assert text.with_name("part").read_bytes() == TEXT[5:12]


def test_damage_is_told_and_salvaged(call: Run, text: Path) -> None:
    assert call("compress", "-1", "--slot-tokens", "16", "text.txt")[0] == 0
    text.unlink()
    archive = text.with_name("text.txt.spc")
    data = bytearray(archive.read_bytes())
    data[len(data) // 2] ^= 0x40
    archive.write_bytes(data)
    code, _, said = call("verify", "text.txt.spc")
    assert (code, "frame" in said) == (3, True)
    code, _, said = call("decompress", "text.txt.spc")
    assert (code, text.exists()) == (3, False)
    code, _, said = call("decompress", "--salvage", "text.txt.spc")
    assert (code, "lost bytes" in said) == (3, True)
    saved = len(text.read_bytes())
    assert 0 < saved < len(TEXT)
    assert said.startswith(f"text.txt.spc: saved {saved} of {len(TEXT)} bytes in ")


@pytest.mark.parametrize("content", [b"", b"no archive", TEXT], ids=["empty", "short", "long"])
def test_what_is_no_archive_leaves_nothing_when_salvaged(call: Run, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.spc").write_bytes(content)
    code, out, said = call("decompress", "--salvage", "x.spc")
    assert (code, out, said.count("\n")) == (3, b"", 1)
    assert said.startswith("speccompact: x.spc: nothing could be saved")
    assert [path.name for path in tmp_path.iterdir()] == ["x.spc"]


def test_a_sound_file_verifies_and_needs_no_salvage(call: Run, text: Path) -> None:
    assert call("compress", "text.txt")[0] == 0
    code, out, said = call("verify", "text.txt.spc")
    assert (code, out, said.startswith("text.txt.spc: sound, 20 kB in ")) == (0, b"", True)
    assert call("decompress", "-f", "--salvage", "text.txt.spc")[0] == 0
    assert text.read_bytes() == TEXT


def test_more_content_than_allowed_is_refused(call: Run, text: Path) -> None:
    assert call("compress", "text.txt")[0] == 0
    for command in (["decompress", "-c"], ["verify"]):
        code, _, said = call(*command, "--max-output", "19999", "text.txt.spc")
        assert (code, bool(said)) == (5, True)


def test_a_range_beyond_the_end_is_cut_short(call: Run, text: Path) -> None:
    assert call("compress", "text.txt")[0] == 0
    assert call("decompress", "--range", f"{len(TEXT) - 5}:{'9' * 18}", "text.txt.spc") == (0, TEXT[-5:], "")
    assert call("decompress", "--range", f"{'9' * 18}:5", "text.txt.spc") == (0, b"", "")


@pytest.mark.parametrize(
    "value",
    ["-1:5", "5:-1", "9" * 5000 + ":1", "1:" + "9" * 5000, "1:9999999999999999999", ":", "٣:١"],
    ids=lambda value: value[:24],
)
def test_ranges_that_are_none(call: Run, text: Path, value: str) -> None:
    code, out, said = call("decompress", f"--range={value}", "text.txt.spc")
    assert (code, out, "--range" in said) == (2, b"", True)
    assert len(said) < 500


def test_inspect_gives_programs_the_name_itself(call: Run, text: Path) -> None:
    text.rename(text.with_name("a\nb"))
    assert call("compress", "-q", "a\nb")[0] == 0
    assert json.loads(call("inspect", "--json", "a\nb.spc")[1])["path"] == "a\nb.spc"


@pytest.mark.parametrize(
    "arguments",
    [
        ("compress", "--rm", "--keep", "text.txt"),
        ("compress", "-q", "-v", "text.txt"),
        ("decompress", "--rm", "-k", "text.txt.spc"),
        ("verify", "-qv", "text.txt"),
        ("models", "pull", "-qv", "smollm2-135m"),
    ],
)
def test_options_that_contradict_each_other_are_refused(call: Run, text: Path, arguments: tuple[str, ...]) -> None:
    code, out, said = call(*arguments)
    assert (code, out, "exclude each other" in said) == (2, b"", True)
    assert os.listdir(text.parent) == ["text.txt"]


def test_no_help_is_cut_or_shows_marks_of_its_source(call: Run) -> None:
    def look(group: click.Group, *path: str) -> None:
        for name in group.list_commands(click.Context(group)):
            command = group.get_command(click.Context(group), name)
            assert command is not None
            said = call(*path, name, "--help")[1].decode()
            assert "``" not in said, name
            assert "..." not in said.partition("Commands:")[2], name
            if isinstance(command, click.Group):
                look(command, *path, name)

    look(program)


def test_help_lists_every_exit_code_of_the_readme(call: Run) -> None:
    text = " ".join(call("--help")[1].decode().split())
    codes = re.findall(r"^\| (\d+) \|", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    assert len(codes) == 12
    assert all(re.search(rf"[ ,]{code} ", text) for code in codes)


def test_details_on_request(call: Run, text: Path) -> None:
    _, _, said = call("compress", "-v", "text.txt")
    assert "1 frames" in said
    assert re.search(r"\d tokens, \d+\.\d\d tokens per pass", said)
    assert "by the model's distribution" in said


def test_inspect_for_people(call: Run, text: Path) -> None:
    assert call("compress", "-7", "text.txt")[0] == 0
    code, out, said = call("inspect", "-v", "text.txt.spc")
    lines = out.decode().splitlines()
    assert (code, said, lines[0]) == (0, "", "text.txt.spc")
    for words in ("level       7", "content     20000 bytes", "1 model, 0 zstd, 0 raw", "not in the store"):
        assert any(words in line for line in lines), words


def test_inspect_tells_of_drafts_on_request(call: Run, text: Path) -> None:
    assert call("compress", "text.txt")[0] == 0
    code, out, _ = call("inspect", "--stats", "text.txt.spc")
    assert code == 0
    assert re.search(r"\d+ tokens in \d+ passes: \d+\.\d\d tokens per pass", out.decode())
    effort = json.loads(call("inspect", "--stats", "--json", "text.txt.spc")[1])["effort"]
    assert set(effort) == {"passes", "target_s", "draft_s", "drafts", "notes"}
    assert "effort" not in json.loads(call("inspect", "--json", "text.txt.spc")[1])
    code, _, said = call("inspect", "--stats", "-")
    assert (code, "name one" in said) == (2, True)


def test_bench_keeps_its_contract(call: Run, text: Path) -> None:
    code, out, _ = call("bench", "--json", "--repeat", "2", "text.txt")
    assert code == 0
    report = json.loads(out)
    assert {"files", "peak_rss_bytes", "machine", "model", "level"} <= set(report)
    (entry,) = report["files"]
    promised = {
        "path", "bytes", "compressed_bytes", "bpb", "tokens", "tokens_per_pass", "encode_tokens_per_s",
        "decode_tokens_per_s", "encode_mb_per_s", "decode_mb_per_s", "peers",
    }  # fmt: skip
    assert promised <= set(entry)
    assert (entry["path"], entry["bytes"], entry["repeat"]) == ("text.txt", len(TEXT), 2)
    assert entry["bpb"] == pytest.approx(8 * entry["compressed_bytes"] / len(TEXT))
    assert {"xz", "zstd"} <= set(entry["peers"])
    assert all(peer["bytes"] > 0 for peer in entry["peers"].values())


def test_bench_for_people(call: Run, text: Path) -> None:
    code, out, _ = call("bench", "--no-peers", "text.txt", "text.txt")
    assert code == 0
    assert out.decode().count("text.txt") == 4
    assert "model smollm2-135m, level 5" in out.decode()


def test_the_version(call: Run) -> None:
    code, out, _ = call("--version")
    assert code == 0
    assert re.fullmatch(rb"speccompact (\d+\.\d+\.\d+|not installed)\n", out)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["inspect", "--drafter=none"], "--drafter is about decoding; inspect decodes with --stats alone"),
        (["inspect", "--drafter-file=x"], "--drafter-file is about decoding"),
        (["inspect", "-T1"], "--threads is about decoding"),
        (["inspect", "--device=cpu"], "--device is about decoding"),
        (["inspect", "--stats", "--drafter=none", "--drafter-file=x"], '--drafter-file is "x", but the drafter none'),
        (["verify", "--drafter=suffix", "--drafter-file=x"], '--drafter-file is "x", but the drafter suffix has no'),
    ],
)
def test_options_without_effect_are_refused(call: Run, text: Path, more: list[str], message: str) -> None:
    call("compress", "-q", "-1", "text.txt")
    code, out, said = call(*more, "text.txt.spc")
    assert (code, out) == (USAGE, b"")
    assert message in said
