"""What ships with the default model says the same in all its files: adapter, provenance, sources, card."""

import json
from typing import Any

from speccompact.modelstore.adapterfile import read_adapter
from speccompact.modelstore.download import file_sha256
from speccompact.modelstore.registered import ADAPTERS
from speccompact.modelstore.registry import DEFAULT_MODEL, REGISTRY

CARD = (ADAPTERS / f"{DEFAULT_MODEL}.md").read_text("utf-8")
COLUMNS = ("use", "path", "bytes", "sha256", "source", "licence")


def record_of(run: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((ADAPTERS / f"{run}.provenance.json").read_text("utf-8"))
    return record


RUNS = (record_of(f"{DEFAULT_MODEL}-first"), record_of(f"{DEFAULT_MODEL}-second"))
MEAN = record_of(DEFAULT_MODEL)


def files_of(part: dict[str, Any]) -> set[tuple[str, int, str]]:
    return {(file["path"], file["bytes"], file["sha256"]) for file in part["files"]}


def test_the_adapter_that_ships_is_the_mean_of_the_runs() -> None:
    path = ADAPTERS / f"{DEFAULT_MODEL}.safetensors"
    assert MEAN["result"]["adapter_sha256"] == file_sha256(path) == REGISTRY[DEFAULT_MODEL].adapter_sha256
    assert MEAN["averaged_sha256"] == [run["result"]["adapter_sha256"] for run in RUNS]
    adapter = read_adapter(path)
    for run in RUNS:
        assert run["model"] == MEAN["model"]
        assert run["settings"]["rank"] == adapter.rank
    assert MEAN["model"] == {"name": f"{DEFAULT_MODEL}-untuned", "fingerprint": adapter.base}


def test_the_second_run_starts_from_the_first_and_reads_more() -> None:
    first, second = RUNS
    assert second["start_sha256"] == first["result"]["adapter_sha256"]
    before, after = (files_of(run["corpus"]) for run in RUNS)
    assert before < after
    assert f"The first run read {len(before)} of these {len(after)} files." in CARD


def test_every_text_has_a_source_and_a_licence() -> None:
    head, *lines = (ADAPTERS / f"{DEFAULT_MODEL}.sources.tsv").read_text("utf-8").splitlines()
    assert tuple(head.split("\t")) == COLUMNS
    rows = [dict(zip(COLUMNS, line.split("\t"), strict=True)) for line in lines]
    assert all(row["source"] and row["licence"] for row in rows)
    for use, part in (("training", RUNS[1]["corpus"]), ("held out", MEAN["held_out"])):
        listed = {(row["path"], int(row["bytes"]), row["sha256"]) for row in rows if row["use"] == use}
        assert listed == files_of(part)
        assert f"{len(listed)} files, {sum(size for _, size, _ in listed) / 1e6:.1f} MB" in CARD


def test_the_card_has_the_commands_and_the_results() -> None:
    lines = CARD.splitlines()
    for record in (*RUNS, MEAN):
        assert record["command"] in " ".join(line.strip() for line in lines)
    for kind, row in MEAN["result"]["held_out"].items():
        cells = f"| {kind} | {row['start_bpb']:.4f} | {row['end_bpb']:.4f} | {row['change_percent']:+.2f} % |"
        assert cells in lines
