"""The sample in Node.js, from the published proto file alone: it runs in CI, and wherever its packages can be had."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

import speccompact
from tests import service_server
from tests.fake_service import FakeService, refuse, serving, spoil
from tests.fakes import FakeEngines, prose
from tests.source_tree import ROOT
from tests.tiny_model import TINY_EXACT, babble

PROTO = ROOT / "proto" / "speccompact_grpc" / "v1" / "speccompact.proto"
SAMPLE = ROOT / "samples" / "node"
TEXT = prose(200_000)
SECONDS = 240


def absent(reason: str) -> None:
    """Skip, but not in CI: there, what a test needs has to be."""
    assert not os.environ.get("CI"), reason
    pytest.skip(reason)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with the sample, its packages and the proto file, and nothing else of the project."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        absent("Node.js is not installed")
    folder = tmp_path_factory.mktemp("node")
    for path in (PROTO, *SAMPLE.iterdir()):
        if path.is_file():
            shutil.copy(path, folder)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1", "--loglevel=error"]
    environment = os.environ | {"npm_config_cache": str(folder / "cache"), "npm_config_update_notifier": "false"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        absent("the packages of the sample take too long to fetch")
    if done.returncode:
        absent(f"the packages of the sample cannot be fetched: {done.stderr.strip()[-200:]}")
    return folder


@pytest.fixture
def service() -> FakeService:
    return FakeService()


@pytest.fixture
def address(service: FakeService) -> Iterator[str]:
    with serving(service) as address:
        yield address


def roundtrip(folder: Path, tmp_path: Path, address: str, text: bytes = TEXT) -> tuple[int, str, str]:
    """Run the sample on a text: exit code, output and errors."""
    (tmp_path / "text").write_bytes(text)
    command = ["node", "roundtrip.js", "speccompact.proto", address, str(tmp_path / "text")]
    environment = os.environ | {"SPECCOMPACT_TOKEN": "secret"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_a_file_goes_there_and_back(folder: Path, tmp_path: Path, address: str, service: FakeService) -> None:
    service.faults.append(refuse(grpc.StatusCode.UNAVAILABLE, "the service ends", "DRAINING"))
    code, out, said = roundtrip(folder, tmp_path, address)
    assert (code, said) == (0, "")
    wanted = speccompact.compress(TEXT, engines=FakeEngines())
    assert out == f"{len(TEXT)} bytes became {len(wanted)}\nthe same bytes came back\n"
    assert (tmp_path / "text.spc").read_bytes() == wanted
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text", "text.spc"]
    assert service.calls == ["Compress", "Compress", "Decompress"]
    assert service.metadata[1]["authorization"] == "Bearer secret"


@pytest.mark.parametrize(
    ("how", "words"),
    [("cut", "the answer was cut short"), ("double", "behind its summary"), ("break", "UNAVAILABLE: the service ends")],
)
def test_an_answer_that_is_wrong_leaves_no_archive(
    folder: Path, tmp_path: Path, address: str, service: FakeService, how: str, words: str
) -> None:
    service.faults.append(spoil(how))
    code, _, said = roundtrip(folder, tmp_path, address)
    assert code == 1
    assert words in said
    assert [path.name for path in tmp_path.iterdir()] == ["text"]
    assert service.calls == ["Compress"]


def test_the_service_itself(folder: Path, tmp_path: Path) -> None:
    text = babble(1500, 3).encode()
    with service_server.serving() as served:
        code, out, said = roundtrip(folder, tmp_path, served.address, text)
    assert (code, said) == (0, "")
    assert out.endswith("the same bytes came back\n")
    wanted = speccompact.compress(text, model=str(TINY_EXACT), options=service_server.SERVED)
    assert (tmp_path / "text.spc").read_bytes() == wanted


def test_the_sample_names_no_registry() -> None:
    assert '"resolved"' not in (SAMPLE / "package-lock.json").read_text("utf-8")
