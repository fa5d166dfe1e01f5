"""What ships with the default model says the same in all its files: adapter, provenance, sources, card."""

import json
from typing import Any

import pytest

from speccompact.modelstore.adapterfile import read_adapter
from speccompact.modelstore.download import file_sha256
from speccompact.modelstore.registered import ADAPTERS
from speccompact.modelstore.registry import DEFAULT_MODEL, REGISTRY

CARD = (ADAPTERS / f"{DEFAULT_MODEL}.md").read_text("utf-8")
COLUMNS = ("use", "path", "bytes", "sha256", "source", "licence")


@pytest.fixture(scope="module")
def provenance() -> dict[str, Any]:
    record: dict[str, Any] = json.loads((ADAPTERS / f"{DEFAULT_MODEL}.provenance.json").read_text("utf-8"))
    return record


def test_the_run_made_the_adapter_that_ships(provenance: dict[str, Any]) -> None:
    path = ADAPTERS / f"{DEFAULT_MODEL}.safetensors"
    assert provenance["result"]["adapter_sha256"] == file_sha256(path) == REGISTRY[DEFAULT_MODEL].adapter_sha256
    adapter = read_adapter(path)
    assert adapter.base == provenance["model"]["fingerprint"]
    assert adapter.rank == provenance["settings"]["rank"]
    assert provenance["model"]["name"] == f"{DEFAULT_MODEL}-untuned"


def test_every_text_has_a_source_and_a_licence(provenance: dict[str, Any]) -> None:
    head, *lines = (ADAPTERS / f"{DEFAULT_MODEL}.sources.tsv").read_text("utf-8").splitlines()
    assert tuple(head.split("\t")) == COLUMNS
    rows = [dict(zip(COLUMNS, line.split("\t"), strict=True)) for line in lines]
    assert all(row["source"] and row["licence"] for row in rows)
    for use, part in (("training", "corpus"), ("held out", "held_out")):
        listed = {(row["path"], int(row["bytes"]), row["sha256"]) for row in rows if row["use"] == use}
        read = {(file["path"], file["bytes"], file["sha256"]) for file in provenance[part]["files"]}
        assert listed == read
        size = sum(bytes_ for _, bytes_, _ in read)
        assert f"{len(read)} files, {size / 1e6:.1f} MB" in CARD


def test_the_card_has_the_command_and_the_results(provenance: dict[str, Any]) -> None:
    lines = CARD.splitlines()
    assert provenance["command"] in " ".join(line.strip() for line in lines)
    for kind, row in provenance["result"]["held_out"].items():
        cells = f"| {kind} | {row['start_bpb']:.4f} | {row['end_bpb']:.4f} | {row['change_percent']:+.2f} % |"
        assert cells in lines
