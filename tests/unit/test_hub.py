import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from speccompact.errors import ArgumentError
from speccompact.modelstore import hub
from speccompact.modelstore.checkpoints import load_checkpoint
from speccompact.modelstore.hub import parse_reference
from tests import tiny_gguf
from tests.stub_server import Page, StubServer, running

pytest.importorskip("huggingface_hub")

COMMIT = "c0ffee" * 6 + "c0ff"
ROOT = Path(__file__).parents[2]

FETCH = """
import sys
from speccompact.errors import SpecCompactError
from speccompact.modelstore.hub import fetch_hub_folder
try:
    print(*fetch_hub_folder(sys.argv[1]), sep="\\n")
except SpecCompactError as error:
    print(type(error).__name__, error)
"""


@pytest.fixture
def server() -> Iterator[StubServer]:
    with running() as stub:
        yield stub


def fetch(server: StubServer, cache: Path, reference: str) -> list[str]:
    """Fetch in a process of its own, because the library reads its environment when it is imported."""
    environment = {key: text for key, text in os.environ.items() if not key.startswith(("HF_", "HUGGING"))}
    environment |= {
        "HF_ENDPOINT": server.url,
        "HF_HOME": str(cache),
        "HF_HUB_DISABLE_XET": "1",
        "PYTHONPATH": str(ROOT),
    }
    environment |= {"HF_HUB_DISABLE_TELEMETRY": "1", "NO_PROXY": "127.0.0.1"}
    command = [sys.executable, "-c", FETCH, reference]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout.splitlines()


def serve(server: StubServer, tmp_path: Path) -> None:
    """Offer a repository with a checkpoint, and with files that nobody should ask for."""
    weights = tiny_gguf.write_safetensors(tmp_path / "w", tiny_gguf.hf_weights()).read_bytes()
    files = {
        "config.json": json.dumps(tiny_gguf.hf_config()).encode(),
        "tokenizer.json": json.dumps(tiny_gguf.hf_tokenizer()).encode(),
        "model.safetensors": weights,
        "pytorch_model.bin": b"pickle",
        "README.md": b"text",
    }
    info: dict[str, Any] = {"_id": "0", "id": "owner/tiny", "sha": COMMIT, "private": False, "tags": [], "downloads": 0}
    info["siblings"] = [{"rfilename": name} for name in files]
    page = Page(json.dumps(info).encode(), "application/json")
    for revision in ("", "/revision/main", "/revision/v1", f"/revision/{COMMIT}"):
        server.pages[f"/api/models/owner/tiny{revision}"] = page
    for name, body in files.items():
        headers = {"ETag": f'"{hashlib.sha1(body).hexdigest()}"', "X-Repo-Commit": COMMIT}
        server.pages[f"/owner/tiny/resolve/{COMMIT}/{name}"] = Page(body, headers=headers)


@pytest.mark.parametrize("reference", ["hf:owner/tiny", "hf:owner/tiny@v1"])
def test_a_checkpoint_is_fetched_at_one_commit(server: StubServer, tmp_path: Path, reference: str) -> None:
    serve(server, tmp_path)
    folder, source = fetch(server, tmp_path / "cache", reference)
    assert source == f"hf:owner/tiny@{COMMIT}"
    assert load_checkpoint(folder).config.layers == tiny_gguf.LAYERS
    asked = {path.rpartition("/")[2] for _, path, _ in server.requests if "/resolve/" in path}
    assert asked == {"config.json", "tokenizer.json", "model.safetensors"}
    assert all(COMMIT in path for _, path, _ in server.requests if "/resolve/" in path)


def test_an_absent_repository_is_an_error(server: StubServer, tmp_path: Path) -> None:
    (answer,) = fetch(server, tmp_path / "cache", "hf:owner/absent")
    assert answer.startswith("ModelError hf:owner/absent: ")


def test_a_repository_without_a_file_is_an_error(server: StubServer, tmp_path: Path) -> None:
    serve(server, tmp_path)
    del server.pages[f"/owner/tiny/resolve/{COMMIT}/model.safetensors"]
    (answer,) = fetch(server, tmp_path / "cache", "hf:owner/tiny")
    assert answer.startswith("ModelError hf:owner/tiny: ")


def test_references_are_parsed() -> None:
    assert parse_reference("hf:owner/name") == ("owner/name", None)
    assert parse_reference("hf:owner/name.x@refs/pr/1") == ("owner/name.x", "refs/pr/1")
    for wrong in ("hf:name", "hf:a/b/c", "hf:../b", "owner/name", "hf:owner/name@", "hf:o/n@a b", "hf:ö/n"):
        with pytest.raises(ArgumentError):
            parse_reference(wrong)


def test_without_the_library_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ArgumentError, match=r"speccompact\[hub\]"):
        hub.fetch_hub_folder("hf:owner/name")
