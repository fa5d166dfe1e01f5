from pathlib import Path

from speccompact.training.metrics import MetricsFile


def test_lines_after_a_checkpoint_that_was_gone_back_to_do_not_count(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path / "metrics.jsonl")
    for step in range(1, 6):
        file.append({"step": step, "bits": 9})
    file.resume(3, {"threads": 2})
    file.append({"step": 4, "bits": 1})
    assert [(line["step"], line["bits"]) for line in file.read()[0]] == [(1, 9), (2, 9), (3, 9), (4, 1)]
    file.resume(-1, {})
    assert file.read() == ([], [{"resumed": -1}])
    assert (tmp_path / "metrics.jsonl").read_text().count("\n") == 8


def test_a_torn_line_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    file = MetricsFile(path)
    file.append({"step": 1})
    path.write_bytes(path.read_bytes() + b'{"step": 2, "bi')
    file.resume(1, {})
    file.append({"step": 2})
    assert file.read() == ([{"step": 1}, {"step": 2}], [{"resumed": 1}])


def test_the_parts_of_a_run(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path / "metrics.jsonl")
    for step, threads in ((-1, 1), (4, 2), (9, 3), (4, 4), (6, 5)):
        file.resume(step, {"threads": threads})
        file.append({"step": step + 1})
    assert file.read()[1] == [{"resumed": step, "threads": threads} for step, threads in ((-1, 1), (4, 4), (6, 5))]
