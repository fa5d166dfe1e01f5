import shutil
from pathlib import Path

import pytest
import torch

from speccompact.errors import ArgumentError, ModelDamagedError, ModelError, ModelMissingError
from speccompact.modelstore.exactfile import write_exact_file
from speccompact.modelstore.loading import check_device, load_target
from speccompact.options import Options
from tests.tiny_model import TINY_DIGEST, TINY_EXACT, contents

DIGEST = bytes.fromhex(TINY_DIGEST)
OPTIONS = Options(threads=1)


@pytest.mark.parametrize(
    "wanted", ["tiny", TINY_DIGEST, TINY_DIGEST[:16], DIGEST, DIGEST[:8], str(TINY_EXACT)], ids=str
)
def test_a_model_by_name_digest_or_path(tiny_home: Path, wanted: str | bytes) -> None:
    target, tokenizer = load_target(wanted, OPTIONS)
    assert target.digest == DIGEST
    assert target.name == ("tiny.exact" if wanted == str(TINY_EXACT) else "tiny")
    assert target.positions == 2048
    assert target.vocabulary.size == 460
    assert target.vocabulary_digest == target.vocabulary.digest()
    text = b"The ferry \x04\xff did not come. <|im_start|>"
    assert target.vocabulary.join(tokenizer.encode(text)) == text


@pytest.mark.parametrize("wanted", ["absent", "00" * 8, bytes(8), bytes(32)])
def test_a_missing_model_names_the_command(tiny_home: Path, wanted: str | bytes) -> None:
    with pytest.raises(ModelMissingError, match="speccompact models"):
        load_target(wanted, OPTIONS)


def test_a_short_digest_is_no_digest(tiny_home: Path) -> None:
    with pytest.raises(ArgumentError):
        load_target(DIGEST[:7], OPTIONS)


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"absent\.exact"):
        load_target(str(tmp_path / "absent.exact"), OPTIONS)


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with a copy of the tiny model that a test may damage."""
    (tmp_path / "models").mkdir()
    monkeypatch.setenv("SPECCOMPACT_HOME", str(tmp_path))
    return Path(shutil.copy(TINY_EXACT, tmp_path / "models" / f"{TINY_DIGEST}.exact"))


@pytest.mark.parametrize("place", [0, 9, 5000, 200_000, -1])
def test_a_damaged_file_in_the_store_is_noticed(own_home: Path, place: int) -> None:
    data = bytearray(own_home.read_bytes())
    data[place] ^= 1
    own_home.write_bytes(data)
    with pytest.raises(ModelDamagedError):
        load_target(DIGEST, OPTIONS)


def test_a_truncated_file_is_noticed(own_home: Path) -> None:
    own_home.write_bytes(own_home.read_bytes()[:-1])
    with pytest.raises(ModelDamagedError):
        load_target(DIGEST, OPTIONS)


def test_network_and_tokenizer_must_fit_together(tmp_path: Path) -> None:
    metadata, tensors = contents()
    changed = dict(tensors)
    for name in ("embed", "head.weight", "head.channel"):
        changed[name] = tensors[name][:459]
    write_exact_file(tmp_path / "odd.exact", {**metadata, "vocab": 459}, changed)
    with pytest.raises(ModelError, match="459"):
        load_target(str(tmp_path / "odd.exact"), OPTIONS)


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    write_exact_file(tmp_path / "odd.exact", {"something": "else"}, {})
    with pytest.raises(ModelDamagedError):
        load_target(str(tmp_path / "odd.exact"), OPTIONS)


@pytest.mark.parametrize("device", ["nonsense", "cuda:", "cuda:x", "mps", ""])
def test_what_is_no_device_is_refused(device: str) -> None:
    with pytest.raises(ArgumentError, match="choose cpu, cuda or cuda:N"):
        check_device(Options(device=device))


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA GPU")
def test_a_gpu_that_is_not_there_is_refused() -> None:
    with pytest.raises(ArgumentError, match="finds no CUDA GPU"):
        check_device(Options(device="cuda"))


def test_the_cpu_has_one_name() -> None:
    assert {check_device(Options(device=name)) for name in ("cpu", "cpu:0")} == {"cpu"}
