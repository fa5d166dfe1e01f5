"""Sources, archives and targets at URLs: fsspec's own file system in memory, and S3 from a real server on loopback."""

import os
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from speccompact.archive.archivefile import ArchiveFile
from speccompact.archive.extracting import extract
from speccompact.archive.pathreading import read_file
from speccompact.archive.restoring import RestoreOptions
from speccompact.archive.selection import Selection
from speccompact.archive.storage import filesystem, open_archive
from speccompact.errors import ArgumentError
from tests.archive_trees import make_tree, opened, pack
from tests.fakes import FakeEngines, prose

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of the libraries that speak S3
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def memory() -> Iterator[str]:
    system = fsspec.filesystem("memory")
    system.store.clear()
    yield "memory://bucket"
    system.store.clear()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """An S3 server; returns its address."""
    pytest.importorskip("s3fs", reason="the s3 extra is not installed")
    module = pytest.importorskip("moto.server", reason="moto is not installed")
    running = module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    yield f"http://{host}:{port}"
    running.stop()


@pytest.fixture
def s3(server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """A bucket of its own."""
    settings = {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": server,
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    bucket = "".join(c if c.isalnum() else "-" for c in tmp_path.name.lower()).strip("-")
    fsspec.filesystem("s3").mkdir(bucket)
    yield f"s3://{bucket}"
    fsspec.get_filesystem_class("s3").clear_instance_cache()


@pytest.fixture(params=["memory", "s3"])
def bucket(request: pytest.FixtureRequest) -> str:
    """The URL of an empty bucket."""
    url: str = request.getfixturevalue(request.param)
    return url


def put(url: str, data: bytes) -> None:
    with fsspec.open(url, "wb") as stream:
        stream.write(data)


def test_from_a_bucket_and_back(bucket: str, tmp_path: Path) -> None:
    contents = {f"in/{number}.txt": prose(1500, number) for number in range(4)}
    contents["in/deep/er/noise"] = bytes(range(256)) * 40
    for name, data in contents.items():
        put(f"{bucket}/{name}", data)
    summary = pack(tmp_path / "a.spca", f"{bucket}/in")
    assert summary.left_out == ()
    with opened(tmp_path / "a.spca") as archive:
        assert archive.entries.keys() == {name.encode() for name in contents}
        extract(archive, str(tmp_path / "out"))
        assert extract(archive, f"{bucket}/out").left_out == ()
        assert len(extract(archive, f"{bucket}/out").left_out) == len(contents)  # nothing is overwritten
        assert extract(archive, f"{bucket}/out", restore=RestoreOptions(force=True)).left_out == ()
    for name, data in contents.items():
        assert (tmp_path / "out" / name).read_bytes() == data
        with fsspec.open(f"{bucket}/out/{name}", "rb") as stream:
            assert stream.read() == data


def test_an_archive_in_a_bucket(bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = make_tree(tmp_path / "tree")
    (tmp_path / "work").mkdir()
    url = f"{bucket}/backup/a.spca"
    pack(url, tree, work=str(tmp_path / "work"))
    assert os.listdir(tmp_path / "work") == []
    with ArchiveFile(url, engines=FakeEngines()) as archive:
        assert b"".join(read_file(archive, b"tree/docs/3.txt")) == (tree / "docs" / "3.txt").read_bytes()
        plain = Selection(exclude=["Ünï*"])  # moto's server finds no key that has a newline
        lost = dict(extract(archive, f"{bucket}/out", selection=plain).left_out)
    assert "no UTF-8" in lost.pop(b"tree/bytes\xff\xfe")
    assert set(lost.values()) == {"the target holds nothing but files"}
    with fsspec.open(f"{bucket}/out/tree/holes", "rb") as stream:
        assert stream.read() == (tree / "holes").read_bytes()
    with pytest.raises(FileExistsError):
        pack(url, tree, work=str(tmp_path / "work"))


def test_an_upload_that_was_cut_off_is_made_again(bucket: str, tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree")
    (tmp_path / "work").mkdir()
    url = f"{bucket}/a.spca"

    def lose(name: str) -> None:
        if name == "renamed":
            raise ConnectionError("the network is gone")

    with pytest.raises(ConnectionError):
        pack(url, tree, work=str(tmp_path / "work"), step=lose)
    engines = FakeEngines()
    pack(url, tree, work=str(tmp_path / "work"), engines=engines)
    assert engines.codec.encoded == 0
    pack(tmp_path / "b.spca", tree)
    with open_archive(url) as stream:
        assert stream.read()[24:100] == (tmp_path / "b.spca").read_bytes()[24:100]


def test_protocols_that_nobody_knows() -> None:
    with pytest.raises(ArgumentError, match="nosuch"):
        filesystem("nosuch://bucket/key")
