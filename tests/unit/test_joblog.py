import json
from pathlib import Path
from typing import Any

import pytest

from speccompact.archive.joblog import JobLog, read_log
from speccompact.errors import DamagedError


def group(time: float, done: int, **values: Any) -> dict[str, Any]:
    return {"time": time, "event": "group", "content_bytes": 5, "done": done, "total": 20, "archive_bytes": 3} | values


def read(path: Path, *events: object) -> JobLog:
    lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
    (path / "log").write_text("\n".join(lines), "utf-8", "surrogatepass")
    return read_log(str(path / "log"))


def test_points_of_a_job(tmp_path: Path) -> None:
    log = read(tmp_path, {"time": 100, "event": "found"}, group(101, 5), group(103.5, 10, archive_bytes=4))
    assert list(log.points) == [(1, 5, 3), (3.5, 10, 4)]
    assert (log.total, log.seconds) == (20, 3.5)


def test_the_last_job_counts(tmp_path: Path) -> None:
    events = [group(1, 5), {"time": 2, "event": "done"}, {"time": 9, "event": "planned"}, group(11, 7)]
    assert read(tmp_path, *events).points == ((2, 7, 3),)
    assert read(tmp_path, *events[:2]).points == ((0, 5, 3),)
    assert read(tmp_path, *events[:3]).points == ((0, 5, 3),)


def test_what_was_left_out(tmp_path: Path) -> None:
    lost = {"time": 1, "event": "left-out", "path": "a\udcff", "reason": "gone"}
    assert read(tmp_path, lost, lost, group(1, 5)).left_out == (("a\udcff", "gone"),)


def test_a_clock_that_is_set_back(tmp_path: Path) -> None:
    assert [at for at, _, _ in read(tmp_path, group(10, 5), group(3, 10), group(12, 15)).points] == [0, 0, 2]


@pytest.mark.parametrize(
    "line",
    ['{"time": 1, "ev', "", "[]", "7", "[" * 100_000, '{"time": NaN, "event": "group"}', '{"time": true, "event": "x"}',
     '{"event": "group"}', json.dumps(group(1, -5)), json.dumps({"time": 1, "event": "group", "done": 5, "total": 9})],
)  # fmt: skip
def test_lines_that_are_no_events_are_passed_over(tmp_path: Path, line: str) -> None:
    assert read(tmp_path, line, group(1, 5), line).points == ((0, 5, 3),)
    with pytest.raises(DamagedError, match="--events"):
        read(tmp_path, line)
