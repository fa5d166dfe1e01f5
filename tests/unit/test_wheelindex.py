import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speccompact.errors import ModelError
from speccompact.modelstore.wheelindex import (
    IndexSettings,
    html_links,
    json_links,
    open_url,
    parse_config,
    read_settings,
    redact,
    wheel_urls,
)
from tests.stub_server import Page, StubServer, running

WHEEL = "some_model-1.0-py3-none-any.whl"
SIMPLE_JSON = "application/vnd.pypi.simple.v1+json"


@pytest.fixture
def server() -> Iterator[StubServer]:
    with running() as stub:
        yield stub


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Give pip a configuration of its own and return its file."""
    for name in ("INDEX_URL", "EXTRA_INDEX_URL", "FIND_LINKS", "CERT", "NO_INDEX", "PROXY"):
        monkeypatch.delenv(f"PIP_{name}", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    (tmp_path / "pip.conf").touch()
    return tmp_path / "pip.conf"


def test_settings_come_from_pip(pip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pip.write_text(
        "[global]\nindex-url = http://one.invalid/simple\nextra-index-url =\n    http://two.invalid/simple\n"
        "    http://three.invalid/simple\nfind-links = /some/where\n[download]\ncert = /some/cert.pem\n"
    )
    extra = ("http://two.invalid/simple", "http://three.invalid/simple")
    wanted = IndexSettings(("http://one.invalid/simple", *extra), ("/some/where",), "/some/cert.pem", "")
    assert read_settings() == wanted
    monkeypatch.setenv("PIP_INDEX_URL", "http://four.invalid/simple")
    assert read_settings().indexes == ("http://four.invalid/simple", *extra)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert read_settings().indexes == ()


def test_without_configuration_pip_still_knows_its_index(pip: Path) -> None:
    (index,) = read_settings().indexes
    assert index.startswith("https://")


def test_output_of_pip_that_makes_no_sense_is_skipped() -> None:
    assert parse_config("global.a='b'\nnonsense\nx='y'\nglobal.c=d(\nglobal.e=f\n") == {"global": {"a": "b"}}
    assert parse_config("") == {}


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"files": 7}', b'{"files": [7]}', b'{"files": [{}]}', b"[" * 99999]
)
def test_damaged_json_pages_are_refused(body: bytes) -> None:
    with pytest.raises(ModelError):
        json_links(body)


@given(st.binary())
def test_html_of_any_kind_is_survived(body: bytes) -> None:
    html_links(b"<a href=x/y.whl>" + body)


def html(url: str) -> bytes:
    return f'<!DOCTYPE html><html><body><a href="x.whl">x</a><a href="{url}#sha256=00">wheel</a></body></html>'.encode()


def test_json_and_html_indexes_are_read(server: StubServer) -> None:
    page = json.dumps({"files": [{"filename": WHEEL, "url": f"../../files/{WHEEL}"}]}).encode()
    server.pages["/json/some-model/"] = Page(page, SIMPLE_JSON)
    server.pages["/html/some-model/"] = Page(html(f"/files/{WHEEL}"), "text/html")
    server.pages["/based/some-model/"] = Page(b'<base href="/files/">' + html(WHEEL), "text/html")
    server.pages["/other/some-model/"] = Page(html("/files/other.whl"), "text/html")
    server.pages["/broken/some-model/"] = Page(b"{", SIMPLE_JSON)
    server.pages["/links"] = Page(html(f"files/{WHEEL}"), "text/html")
    names = ("json", "html/", "based", "other", "broken", "absent")
    indexes = tuple(f"{server.url}/{name}" for name in names)
    failures: list[str] = []
    settings = IndexSettings(indexes, (f"{server.url}/links",))
    assert list(wheel_urls("Some_Model", WHEEL, settings, failures)) == [f"{server.url}/files/{WHEEL}"] * 4
    assert [failure.rpartition(": ")[2] for failure in failures] == [
        f"no {WHEEL} there",
        "not a page of a package index",
        "answer 404",
    ]


def test_local_folders_and_indexes_are_read(tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / WHEEL).touch()
    (tmp_path / "simple" / "some-model").mkdir(parents=True)
    (tmp_path / "simple" / "some-model" / "index.html").write_bytes(html(f"../../links/{WHEEL}"))
    settings = IndexSettings(
        ((tmp_path / "simple").as_uri(),), (str(tmp_path / "links"), (tmp_path / "links").as_uri(), str(tmp_path))
    )
    wanted = (tmp_path / "links" / WHEEL).as_uri()
    assert list(wheel_urls("some.model", WHEEL, settings, [])) == [wanted] * 3


@pytest.mark.parametrize(
    "url", [f"file:///files/{WHEEL}", f"ftp://host/{WHEEL}", f"data:,/{WHEEL}", f"http://[/{WHEEL}"]
)
def test_a_remote_page_has_no_say_over_local_files(server: StubServer, url: str) -> None:
    server.pages["/some-model/"] = Page(html(url), "text/html")
    assert list(wheel_urls("some-model", WHEEL, IndexSettings((server.url,)), [])) == []


def test_a_login_goes_to_its_own_host_and_into_no_message(server: StubServer) -> None:
    basic = "Basic " + base64.b64encode(b"me@home:s3cret").decode()
    server.pages["/some-model/"] = Page(html(f"/files/{WHEEL}"), "text/html", login=basic)
    server.pages[f"/files/{WHEEL}"] = Page(b"wheel", login=basic)
    index = server.url.replace("//", "//me%40home:s3cret@")
    (url,) = wheel_urls("some-model", WHEEL, IndexSettings((index,)), [])
    with open_url(url, IndexSettings(()), {}) as answer:
        assert answer.read() == b"wheel"
    assert "s3cret" not in redact(url)
    server.pages["/some-model/"].body = html(f"http://elsewhere.invalid/{WHEEL}")
    assert list(wheel_urls("some-model", WHEEL, IndexSettings((index,)), [])) == [f"http://elsewhere.invalid/{WHEEL}"]
    failures: list[str] = []
    assert list(wheel_urls("absent", WHEEL, IndexSettings((index,)), failures)) == []
    assert "s3cret" not in failures[0]
