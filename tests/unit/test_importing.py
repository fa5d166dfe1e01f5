import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from speccompact.errors import ArgumentError, ModelDamagedError, ModelError
from speccompact.modelstore import importing
from speccompact.modelstore.exactfile import write_exact_file
from speccompact.modelstore.importing import import_model
from speccompact.modelstore.loading import take_apart
from speccompact.modelstore.store import find, list_models
from tests.tiny_model import TINY_DIGEST, TINY_EXACT


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECCOMPACT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_a_copy_is_named_and_complete(home: Path) -> None:
    model, there = import_model(TINY_EXACT, "ours")
    assert (model.digest.hex(), model.names, model.source, there) == (TINY_DIGEST, ("ours",), "imported", False)
    assert model.path.read_bytes() == TINY_EXACT.read_bytes()
    assert find("ours") == find(TINY_DIGEST[:16]) == model
    before = {path: path.stat().st_mtime_ns for path in home.rglob("*")}
    assert import_model(TINY_EXACT, "ours") == (model, True)
    assert import_model(model.path) == (model, True)
    assert {path: path.stat().st_mtime_ns for path in home.rglob("*")} == before
    assert import_model(model.path, "alias")[0].names == ("alias", "ours")


def test_without_a_name_it_is_found_by_its_digest(tmp_path: Path) -> None:
    copy = shutil.copy(TINY_EXACT, tmp_path / f"{TINY_DIGEST}.exact")
    model, there = import_model(copy)
    assert (model.names, there) == ((), False)
    assert find(bytes.fromhex(TINY_DIGEST)[:8]) == model


def test_a_damaged_copy_in_the_store_is_replaced() -> None:
    model, _ = import_model(TINY_EXACT, "ours")
    model.path.write_bytes(b"damaged")
    assert import_model(TINY_EXACT, "ours")[1] is False
    assert model.path.read_bytes() == TINY_EXACT.read_bytes()


def test_the_digest_in_the_name_has_to_be_right(tmp_path: Path) -> None:
    copy = shutil.copy(TINY_EXACT, tmp_path / f"{'ab' * 32}.exact")
    with pytest.raises(ModelDamagedError, match=f"its SHA-256 is {TINY_DIGEST}, not abab.*; copy it again"):
        import_model(copy)
    assert list_models() == []


@pytest.mark.parametrize("name", ["smollm2-135m", "No Name", "ab" * 8])
def test_names_that_it_cannot_have(name: str) -> None:
    with pytest.raises(ArgumentError):
        import_model(TINY_EXACT, name)
    assert list_models() == []


def test_what_is_no_model(tmp_path: Path, home: Path) -> None:
    place = tmp_path / "x"
    whole = TINY_EXACT.read_bytes()
    for content in (b"", b"GGUF and more", whole[:-1], whole + b"x", whole[:-900]):
        place.write_bytes(content)
        with pytest.raises(ModelDamagedError, match=r"/x: .*; copy it again from where"):
            import_model(place)
    write_exact_file(place, {"number": 1}, {"x": np.zeros(3, np.int32)})
    with pytest.raises(ModelDamagedError, match="/x: not a model of this release"):
        import_model(place)
    with pytest.raises(FileNotFoundError):
        import_model(tmp_path / "absent")
    with pytest.raises(IsADirectoryError):
        import_model(tmp_path)
    assert not home.exists()


def test_a_file_that_changes_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    place = tmp_path / "x"
    shutil.copy(TINY_EXACT, place)
    look = take_apart

    def look_and_change(*arguments: object) -> object:
        found = look(*arguments)  # type: ignore[arg-type]
        data = place.read_bytes()
        os.unlink(place)
        place.write_bytes(data[:-1] + b"x")
        return found

    monkeypatch.setattr(importing, "take_apart", look_and_change)
    with pytest.raises(ModelDamagedError, match="changed while"):
        import_model(place, "ours")
    assert list_models() == []
    assert [path for path in home.rglob("*") if path.is_file()] == []


def test_a_store_that_cannot_be_written(home: Path) -> None:
    home.write_text("in the way")
    with pytest.raises(ModelError, match="home: "):
        import_model(TINY_EXACT)
