"""`speccompact models`, in this process."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from speccompact.modelstore.adapterfile import write_adapter
from speccompact.modelstore.store import StoredModel
from tests.cli.processes import Run
from tests.tiny_adapter import tiny_adapter
from tests.tiny_gguf import tiny_llama, write_safetensors


def test_pull_tells_the_licence_and_what_is_there(call: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def found(_name: str, *, progress: object) -> StoredModel:
        return StoredModel(bytes(32), tmp_path, 195_000_000, ("smollm2-135m",), "")

    monkeypatch.setattr("speccompact.modelstore.pull.pull", found)
    code, _, said = call("models", "pull", "smollm2-135m")
    assert (code, "there already" in said, "weights Apache-2.0" in said) == (0, True, True)


def test_convert_merges_an_adapter(call: Run, tmp_path: Path) -> None:
    tiny_llama().write(tmp_path / "base.gguf")
    write_adapter(tmp_path / "logs.safetensors", tiny_adapter())
    assert call("models", "convert", "base.gguf")[0] == 0
    code, _, said = call("models", "convert", "base.gguf", "--adapter", "logs.safetensors")
    assert (code, said.startswith("logs: ")) == (0, True)
    assert call("models", "convert", "base.gguf", "--adapter", "logs.safetensors", "--name", "other")[0] == 0
    models = {row["name"]: row for row in json.loads(call("models", "list", "--json")[1])}
    assert models["base"]["digest"] != models["logs"]["digest"] == models["other"]["digest"]
    digest = hashlib.sha256((tmp_path / "logs.safetensors").read_bytes()).hexdigest()
    assert models["logs"]["source"] == f"base.gguf + logs.safetensors {digest[:8]}"
    code, _, said = call("models", "convert", "base.gguf", "--adapter", "base.gguf")
    assert (code, "base.gguf" in said) == (4, True)
    code, _, said = call("models", "convert", "base.gguf", "--name", "smollm2-135m")
    assert (code, "choose another with --name" in said) == (2, True)


def test_a_tuned_model_is_moved_and_removed(call: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_llama().write(tmp_path / "base.gguf")
    (tmp_path / "tuned").mkdir()
    write_adapter(tmp_path / "tuned" / "adapter.safetensors", tiny_adapter())
    assert call("models", "convert", "base.gguf", "--adapter", "tuned/adapter.safetensors", "-v")[2].startswith(
        "base.gguf: convert\ntuned: "
    )
    path = call("models", "path", "tuned")[1].decode().strip()
    digest = Path(path).stem
    assert call("models", "path", digest[:16])[1].decode().strip() == path
    assert " base.gguf + tuned " in call("models", "list")[1].decode()
    monkeypatch.setenv("SPECCOMPACT_HOME", str(tmp_path / "elsewhere"))
    for there in ("", "there already, "):
        code, _, said = call("models", "import", path, "--name", "ours")
        assert (code, said.startswith(f"ours: {there}"), digest[:16] in said) == (0, True, True)
    code, _, said = call("models", "import", path, "--name", "smollm2-135m")
    assert (code, "choose another with --name" in said) == (2, True)
    code, _, said = call("models", "import", "base.gguf")
    assert (code, said.startswith("speccompact: base.gguf: ")) == (4, True)
    assert call("models", "import", "absent")[0] == 1
    assert call("models", "import", path, "--name", "alias")[0] == 0
    code, _, said = call("models", "remove", "ours", "nosuch")
    assert (code, said.splitlines()[0]) == (4, f"ours: name removed; the model, digest {digest[:16]}, is still alias")
    assert "no model 'nosuch'" in said
    code, _, said = call("models", "remove", "alias")
    assert (code, f"archives made with it need the digest {digest[:16]} again" in said) == (0, True)
    assert call("models", "path", digest[:16])[0] == 4


def test_a_checkpoint_of_training_is_no_adapter(call: Run, tmp_path: Path) -> None:
    tiny_llama().write(tmp_path / "base.gguf")
    write_safetensors(tmp_path / "last.safetensors", {"x": np.zeros(2, np.float32)}, {"speccompact.training": "{}"})
    code, _, said = call("models", "convert", "base.gguf", "--adapter", "last.safetensors")
    assert (code, "checkpoint of training; use adapter.safetensors beside it" in said) == (4, True)
    code, _, said = call("models", "convert", "base.gguf", "--adapter", "absent.safetensors")
    assert (code, said) == (1, "speccompact: absent.safetensors: No such file or directory\n")


def test_models_for_people_and_programs(call: Run, tmp_path: Path) -> None:
    code, out, _ = call("models", "list")
    assert (code, "smollm2-135m" in out.decode(), "not pulled" in out.decode()) == (0, True, True)
    entry = json.loads(call("models", "list", "--json")[1])[0]
    assert (entry["name"], entry["path"]) == ("smollm2-135m", None)
    assert call("models", "path")[:2] == (0, f"{tmp_path / 'store'}\n".encode())
