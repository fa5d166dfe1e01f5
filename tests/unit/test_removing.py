from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from speccompact.errors import ArgumentError, ModelError, ModelMissingError
from speccompact.modelstore import registry
from speccompact.modelstore.removing import Removal, remove_model
from speccompact.modelstore.store import StoredModel, find, list_models, register


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECCOMPACT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def add(name: str, number: int = 0) -> StoredModel:
    return register(name, {"number": number}, {"x": np.full(4, number, np.int32)})


def files(home: Path) -> list[str]:
    return sorted(path.name for path in home.rglob("*") if path.is_file())


def test_a_model_with_one_name_goes_with_it(home: Path) -> None:
    model, other = add("one", 1), add("other", 2)
    assert remove_model("one") == Removal(model.digest.hex(), model.size, ())
    assert list_models() == [other]
    assert files(home) == [f"{other.digest.hex()}.exact", "other.json"]
    with pytest.raises(ModelMissingError, match="no model 'one'"):
        remove_model("one")


def test_a_model_stays_as_long_as_it_has_a_name() -> None:
    model = add("one")
    add("alias")
    assert remove_model("one") == Removal(model.digest.hex(), None, ("alias",))
    assert find(model.digest).names == ("alias",)
    assert remove_model("alias").freed == model.size
    assert list_models() == []


@pytest.mark.parametrize("digits", [16, 64])
def test_a_digest_takes_all_names(home: Path, digits: int) -> None:
    model = add("one")
    add("alias")
    assert remove_model(model.digest.hex()[:digits]) == Removal(model.digest.hex(), model.size, ())
    assert files(home) == []
    with pytest.raises(ModelMissingError):
        remove_model(model.digest.hex()[:digits])


def test_what_lost_its_name_goes_by_its_digest() -> None:
    old, new = add("m", 1), add("m", 2)
    assert remove_model(old.digest.hex()).freed == old.size
    assert list_models() == [new]


def test_a_name_whose_model_is_gone(home: Path) -> None:
    model = add("one")
    model.path.unlink()
    assert remove_model("one") == Removal(model.digest.hex(), None, ())
    assert files(home) == []


def test_a_registered_model_can_be_pulled_again_later(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = add("tiny")
    entry = replace(registry.REGISTRY["smollm2-135m-untuned"], name="tiny", exact_digest=model.digest.hex())
    monkeypatch.setitem(registry.REGISTRY, "tiny", entry)
    add("mine")
    with pytest.raises(ArgumentError, match=r"tiny is also called mine here"):
        remove_model("tiny")
    assert find("tiny").names == ("mine", "tiny")
    remove_model("mine")
    assert find("tiny").path.exists()
    assert remove_model("tiny").freed == model.size
    assert files(home) == []


@pytest.mark.parametrize("name", ["nosuch", "smollm2-135m", "../names/one", "", "ab" * 8])
def test_what_is_not_here(name: str) -> None:
    add("one")
    with pytest.raises(ModelMissingError, match="models list"):
        remove_model(name)
    assert find("one")


def test_digests_that_begin_alike(home: Path) -> None:
    (home / "models").mkdir(parents=True)
    for tail in ("00", "11"):
        (home / "models" / f"{'ab' * 31}{tail}.exact").touch()
    with pytest.raises(ModelError, match="2 models"):
        remove_model("ab" * 8)
    assert len(list_models()) == 2
