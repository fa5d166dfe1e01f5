"""The command line against the service put together: mutual TLS, a token, and jobs."""

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import speccompact
from speccompact import archive
from speccompact.options import Options
from speccompact_cli.main import run
from speccompact_grpc.server import Server
from speccompact_grpc.serviceconfig import ServiceConfig
from tests.certificates import Authority
from tests.tiny_model import TINY_EXACT, babble

TEXT = babble(1500, 5).encode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("service")
    (folder / "data" / "tree").mkdir(parents=True)
    (folder / "data" / "tree" / "a.txt").write_bytes(TEXT)
    digest = hashlib.sha256(b"secret").hexdigest()
    (folder / "tokens.toml").write_text(f'[reader]\nsha256 = "{digest}"\n')
    (folder / "token").write_text("secret\n")
    return folder


@pytest.fixture(scope="module")
def remote(folder: Path) -> Iterator[list[str]]:
    authority, other = Authority(folder), Authority(folder, "other")
    own, caller = authority.identity("server"), other.identity("caller")
    config = ServiceConfig(
        listen="127.0.0.1:0",
        models=(str(TINY_EXACT),),
        threads=1,
        drafter="suffix",
        tls_certificate=str(own.certificate),
        tls_key=str(own.key),
        tls_client_ca=str(other.certificate),
        tokens=str(folder / "tokens.toml"),
        jobs=str(folder / "jobs.sqlite"),
        jobs_roots=(f"data={folder / 'data'}",),
        log_level="error",
    )
    server = Server(config)
    server.start()
    try:
        yield [
            f"--remote={server.address}",
            f"--tls-ca={authority.certificate}",
            f"--tls-cert={caller.certificate}",
            f"--tls-key={caller.key}",
            f"--token-file={folder / 'token'}",
            "--timeout=120",
        ]
    finally:
        server.drain()


def test_there_and_back(
    remote: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = tmp_path / "text"
    text.write_bytes(TEXT)
    assert run(["compress", "-q", "-1", "--rm", *remote, "text"]) == 0
    packed = (tmp_path / "text.spc").read_bytes()
    assert packed == speccompact.compress(TEXT, level=1, model=str(TINY_EXACT), options=Options(threads=1))
    assert run(["decompress", "-q", *remote, "text.spc"]) == 0
    assert text.read_bytes() == TEXT
    assert run(["inspect", *remote, "text.spc"]) == 0
    assert "model       tiny" in capsys.readouterr().out


def test_strangers_are_turned_away(
    remote: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_bytes(TEXT)
    (tmp_path / "wrong").write_text("guess\n")
    assert run(["compress", *remote, "--token-file=wrong", "text"]) == 69
    assert "refuses: " in capsys.readouterr().err
    assert run(["jobs", "list", remote[0], "--timeout=1"]) == 69
    assert "cannot be reached" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("text")] == ["text"]


def test_jobs(remote: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made, restored = folder / "data" / "made.spca", folder / "data" / "restored" / "a.txt"
    arguments = ["-1", "--json", "--wait", "data/made.spca", "data/tree/"]
    assert run(["jobs", "submit", "create", *arguments, *remote]) == 0
    job = json.loads(capsys.readouterr().out)
    assert (job["state"], job["result"]["content_bytes"]) == ("succeeded", len(TEXT))
    with archive.ArchiveFile(str(made)) as file:
        assert b"a.txt" in file.entries
    assert run(["jobs", "submit", "extract", "--wait", "data/made.spca", "data/restored", *remote]) == 0
    assert restored.read_bytes() == TEXT
    assert run(["jobs", "submit", "verify", "--wait", "data/made.spca", *remote]) == 0
    assert run(["jobs", "submit", "compress", "-1", "--wait", "data/tree/a.txt", "data/a.spc", *remote]) == 0
    assert run(["jobs", "submit", "decompress", "--wait", "data/a.spc", "data/again", *remote]) == 0
    assert (folder / "data" / "again").read_bytes() == TEXT
    capsys.readouterr()
    assert run(["jobs", "list", "--state=succeeded", *remote]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert len(listed) == 5
    assert "archive create data/tree/ → data/made.spca" in listed[-1]
    assert run(["jobs", "get", listed[0].split()[0], *remote]) == 0
    assert run(["jobs", "cancel", listed[0].split()[0], *remote]) == 0


def test_jobs_that_cannot_be(remote: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for output, words in (("elsewhere/x", "elsewhere"), ("data/../x", "x"), ("data/tree/a.txt", "a.txt")):
        assert run(["jobs", "submit", "compress", "data/tree/a.txt", output, *remote]) in (2, 6)
        assert words in capsys.readouterr().err
    assert run(["jobs", "submit", "decompress", "--wait", "data/tree/a.txt", "data/none", *remote]) == 3
    assert "not a SpecCompact file" in capsys.readouterr().err
    assert not os.path.exists(folder / "data" / "none")
    assert run(["jobs", "watch", "0" * 32, *remote]) == 6
