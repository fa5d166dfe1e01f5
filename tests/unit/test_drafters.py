"""Drafters by name: what is made, and what stands in where weights are missing or of another vocabulary."""

import json
from pathlib import Path

import pytest

from speccompact.errors import ModelError
from speccompact.modelstore.download import file_sha256
from speccompact.options import DrafterName, Options
from speccompact.speculative import shipped
from speccompact.speculative.block import BlockDrafter
from speccompact.speculative.blockfile import vocabulary_of
from speccompact.speculative.causal import ModelDrafter
from speccompact.speculative.drafter import NoDrafter
from speccompact.speculative.drafters import make_drafter, make_drafting
from speccompact.speculative.hybrid import HybridDrafter
from speccompact.speculative.shipped import WEIGHTS, shipped_block
from speccompact.speculative.suffix import SuffixDrafter
from speccompact.text.vocabulary import Vocabulary
from tests.tiny_block import tiny_block, write_tiny_block
from tests.tiny_model import TINY_EXACT, tiny
from tests.tiny_slots import QUIET

MOST_BYTES = 16_000_000
"""Of a file of weights that ships."""

OTHER = Vocabulary([bytes([65 + index]) for index in range(20)])


def made(name: DrafterName, file: str = "", vocabulary: Vocabulary | None = None) -> tuple[type, str, str]:
    options = Options(threads=1, drafter=name, drafter_file=file)
    drafter, kind, note = make_drafter(vocabulary or tiny(QUIET)[0].vocabulary, options)
    return type(drafter), kind, note


def test_what_needs_nothing() -> None:
    assert made("none") == (NoDrafter, "none", "")
    assert made("suffix") == (SuffixDrafter, "suffix", "")


def test_weights_of_ones_own(tmp_path: Path) -> None:
    file = str(write_tiny_block(tmp_path / "mine"))
    assert made("block", file) == (BlockDrafter, "block", "")
    assert made("hybrid", file) == (HybridDrafter, "hybrid", "")
    assert made("model", str(TINY_EXACT)) == (ModelDrafter, "model", "")


def test_a_model_of_the_store(tiny_home: Path) -> None:
    assert made("model", "tiny") == (ModelDrafter, "model", "")


def test_where_weights_do_not_fit_suffix_stands_in(tmp_path: Path) -> None:
    file = str(write_tiny_block(tmp_path / "mine"))
    for name, weights, reason in (
        ("block", "", "no block drafter ships for this vocabulary"),
        ("hybrid", "", "no block drafter ships for this vocabulary"),
        ("model", "", "name a small model"),
        ("block", file, "mine was made for another vocabulary"),
        ("hybrid", file, "mine was made for another vocabulary"),
        ("model", str(TINY_EXACT), "tiny.exact has another vocabulary"),
    ):
        kind, shown, note = made(name, weights, OTHER)  # type: ignore[arg-type]
        assert (kind, shown) == (SuffixDrafter, "suffix")
        assert note.startswith(f"suffix drafts in place of {name}: ")
        assert reason in note
    options = Options(drafter="block", drafter_file=file)
    assert len(make_drafting(OTHER, options).effort.notes) == 1


@pytest.mark.parametrize(("name", "file"), [("block", "absent"), ("hybrid", "absent"), ("model", "absent.exact")])
def test_a_file_that_is_not_there_is_an_error(tiny_home: Path, name: DrafterName, file: str) -> None:
    with pytest.raises(ModelError, match="absent"):
        made(name, file)


def test_weights_that_ship_are_small_and_say_what_they_were_made_of() -> None:
    shipping = sorted(WEIGHTS.glob("*.safetensors"))
    assert [path.name for path in shipping] == ["smollm2-135m.safetensors"]
    for path in shipping:
        assert path.stat().st_size <= MOST_BYTES
        record = json.loads(path.with_suffix(".provenance.json").read_text("utf-8"))
        assert record["result"]["drafter_sha256"] == file_sha256(path)
        assert shipped_block(vocabulary_of(path)) is not None


@pytest.mark.parametrize("name", ["block", "hybrid"])
def test_damaged_weights_of_the_package_keep_no_archive_shut(
    name: DrafterName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipped, "WEIGHTS", tmp_path)
    whole = write_tiny_block(tmp_path / "tiny.safetensors").read_bytes()
    for size in (0, 5, 100, len(whole) - 1):
        (tmp_path / "tiny.safetensors").write_bytes(whole[:size])
        kind, shown, note = made(name)
        assert (kind, shown) == (SuffixDrafter, "suffix")
        assert note.startswith(f"suffix drafts in place of {name}: {tmp_path / 'tiny.safetensors'}: ")
    with pytest.raises(ModelError):  # what was asked for by name is another matter
        made(name, str(tmp_path / "tiny.safetensors"))


def test_what_ships_is_found_by_its_vocabulary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shipped_block(OTHER.digest().hex()) is None
    write_tiny_block(tmp_path / "tiny.safetensors")
    monkeypatch.setattr(shipped, "WEIGHTS", tmp_path)
    found = shipped_block(tiny_block().vocabulary_digest)
    assert found is not None
    assert found.shape == tiny_block().shape
    assert made("hybrid") == (HybridDrafter, "hybrid", "")


def test_a_network_costs_nothing_by_a_clock_that_stands_still(tmp_path: Path) -> None:
    file = str(write_tiny_block(tmp_path / "mine.safetensors"))
    drafter, _, _ = make_drafter(tiny(QUIET)[0].vocabulary, Options(drafter="hybrid", drafter_file=file), clock=float)
    assert isinstance(drafter, HybridDrafter)
    assert drafter._clock() == drafter._clock() == 0.0
