from pathlib import Path

from speccompact.training.metrics import MetricsFile


def test_lines_after_a_checkpoint_that_was_gone_back_to_do_not_count(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path / "metrics.jsonl")
    for step in range(1, 6):
        file.append({"step": step, "bits": 9})
    file.resume(3)
    file.append({"step": 4, "bits": 1})
    assert [(line["step"], line["bits"]) for line in file.read()] == [(1, 9), (2, 9), (3, 9), (4, 1)]
    file.resume(-1)
    assert file.read() == []
    assert (tmp_path / "metrics.jsonl").read_text().count("\n") == 8


def test_a_torn_line_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    file = MetricsFile(path)
    file.append({"step": 1})
    path.write_bytes(path.read_bytes() + b'{"step": 2, "bi')
    file.resume(1)
    file.append({"step": 2})
    assert file.read() == [{"step": 1}, {"step": 2}]
