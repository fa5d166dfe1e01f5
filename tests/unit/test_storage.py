"""Sources, archives and targets at URLs: fsspec's own file system in memory, and S3 from a real server on loopback."""

import os
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFile

from speccompact.archive.archivefile import ArchiveFile
from speccompact.archive.events import Event
from speccompact.archive.extracting import extract
from speccompact.archive.pathreading import read_file
from speccompact.archive.readoptions import RestoreOptions
from speccompact.archive.selection import Selection
from speccompact.archive.storage import open_archive
from speccompact.archive.stores import filesystem
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


def memory_file(data: bytes) -> MemoryFile:
    return MemoryFile(fsspec.filesystem("memory"), "/x", data)


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


def test_a_bucket_folder_that_is_not_there(bucket: str, tmp_path: Path) -> None:
    put(f"{bucket}/in/a.txt", b"a")
    with pytest.raises(FileNotFoundError):
        pack(tmp_path / "a.spca", f"{bucket}/inn")
    assert os.listdir(tmp_path) == []


def test_keys_that_are_no_paths_are_left_out(memory: str, tmp_path: Path) -> None:
    for name in ("in/a.txt", "in/../evil", "in/x//y", "in/./z"):
        fsspec.filesystem("memory").store[f"/bucket/{name}"] = memory_file(b"a")
    summary = pack(tmp_path / "a.spca", f"{memory}/in")
    assert {path for path, _ in summary.left_out} == {b"in/../evil", b"in/x//y", b"in/./z"}
    with opened(tmp_path / "a.spca") as archive:
        assert archive.entries.keys() == {b"in/a.txt"}


def test_a_source_that_is_one_file(memory: str, tmp_path: Path) -> None:
    put(f"{memory}/in/a.txt", b"a")
    for number, source in enumerate((f"{memory}/in/a.txt", f"{memory}/in/a.txt/")):
        pack(tmp_path / f"{number}.spca", source)
        with opened(tmp_path / f"{number}.spca") as archive:
            assert archive.entries.keys() == {b"a.txt"}


def test_an_archive_in_its_own_bucket_is_left_alone(bucket: str, tmp_path: Path) -> None:
    put(f"{bucket}/a.txt", b"a")
    for _ in range(2):
        pack(f"{bucket}/a.spca", f"{bucket}/", work=str(tmp_path), force=True)
        with ArchiveFile(f"{bucket}/a.spca", engines=FakeEngines()) as archive:
            assert archive.entries.keys() == {b"a.txt"}


def test_what_is_in_the_bucket_already_is_passed_over(bucket: str, tmp_path: Path) -> None:
    make_tree(tmp_path / "tree")
    pack(tmp_path / "a.spca", tmp_path / "tree" / "docs", tmp_path / "tree" / "holes", exclude=("Ünï*",))
    heard: list[Event] = []
    with opened(tmp_path / "a.spca") as archive:
        extract(archive, f"{bucket}/out")
        put(f"{bucket}/out/docs/0.txt", b"?" * 900)
        summary = extract(
            archive, f"{bucket}/out", resume=True, restore=RestoreOptions(force=True), listener=heard.append
        )
    assert summary.left_out == ()
    assert {event.values["path"] for event in heard if event.name == "progress"} == {b"docs/0.txt"}


class _Lost(Exception):
    """What the library of a store raises that is no error of the system."""


@pytest.mark.parametrize("at", ["find", "open", "info"])
def test_a_network_that_is_lost_ends_the_job_and_it_goes_on(
    memory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    for number in range(3):
        put(f"{memory}/in/{number}.txt", prose(600, number))

    def lose(*arguments: object, **options: object) -> None:
        raise _Lost("no route to host")

    def meddle(name: str) -> None:
        if name == "planned" or at == "find":
            patch.setattr(fsspec.get_filesystem_class("memory"), at, lose)

    with monkeypatch.context() as patch:
        if at == "find":
            meddle("")
        with pytest.raises(OSError, match=r"cannot be reached .*no route to host"):
            pack(tmp_path / "a.spca", f"{memory}/in", step=meddle)
    assert pack(tmp_path / "a.spca", f"{memory}/in").left_out == ()
    with opened(tmp_path / "a.spca") as archive:
        assert len(archive.entries) == 3


def test_a_server_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, s3: str) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    monkeypatch.setattr(fsspec.get_filesystem_class("s3"), "retries", 1)
    with pytest.raises(OSError, match=r"127\.0\.0\.1:9"):
        pack(tmp_path / "a.spca", f"{s3}/in")
    assert os.listdir(tmp_path) == []


def test_a_local_archive_of_the_same_name_stays(memory: str, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "a.spca").write_bytes(b"mine")
    pack(f"{memory}/a.spca", tmp_path / "tree", work=str(tmp_path))
    assert (tmp_path / "a.spca").read_bytes() == b"mine"
    assert sorted(os.listdir(tmp_path)) == ["a.spca", "tree"]
