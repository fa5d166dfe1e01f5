"""The page for people: what it answers, whom it turns away, and how it works and looks in a browser."""

import base64
import hashlib
import http.client
import json
import re
import socket
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from speccompact.errors import LimitError
from speccompact_grpc.callers import Caller
from speccompact_grpc.liveload import LiveLoad
from speccompact_grpc.observing import Pass
from speccompact_grpc.tokens import Tokens
from speccompact_grpc.webanalysis import Found
from speccompact_grpc.webport import WebPort
from tests.chromium import BROWSER, chromium_page

PAGE = resources.files("speccompact_grpc").joinpath("page.html").read_text("utf-8")
TOKENS = Tokens({hashlib.sha256(b"open").digest(): Caller("reader")})


def analysed(content: bytes, level: int, caller: Caller) -> Found:
    """Stand in for a model: words cost by their length, and the last one was zstandard's."""
    if content == b"too much":
        raise LimitError("more than the limits allow")
    if content == b"bug":
        raise KeyError("a secret")
    words = re.findall(r"\s*\S+", content.decode())
    size = len(content)
    return {
        "content_bytes": size, "compressed_bytes": size // 5, "xz_bytes": size // 3, "zstd_bytes": size // 2,
        "level": level, "model": "tiny", "seconds": 0.25, "tokens": len(words) - 1, "kept": True,
        "pieces": [[word, None if word == words[-1] else 0.37 * len(word) ** 2 / 2] for word in words],
        "sha256": hashlib.sha256(content).hexdigest(), "archive": base64.b64encode(content).decode(),
    }  # fmt: skip


def restored(archive: bytes, caller: Caller) -> Found:
    """Stand in for a model, again; an archive is its own content here."""
    return {
        "content_bytes": len(archive), "sha256": hashlib.sha256(archive).hexdigest(), "seconds": 0.5,
        "tokens_per_pass": 2.5, "acceptance": 0.46,
        "drafts": [{"drafter": "suffix", "reached": [40, 16, 5], "right": [20, 8, 4]}],
    }  # fmt: skip


@pytest.fixture
def port() -> Iterator[WebPort]:
    load = LiveLoad()
    load.passed(Pass("tiny", 6, 8, 32, 2, 6, 0.25, 8, 4))
    made = WebPort("127.0.0.1", 0, analysed, restored, load, None, 1000)
    yield made
    made.close()


def asked(
    port: WebPort, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port.port, timeout=30)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, dict(answer.headers), answer.read()
    finally:
        connection.close()


def test_the_page_may_load_nothing(port: WebPort) -> None:
    status, headers, body = asked(port, "GET", "/")
    assert (status, body.decode()) == (200, PAGE)
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert set(re.findall(r"https?://[^\s\"']+", PAGE)) == set()


def test_load_and_analysis_are_json(port: WebPort) -> None:
    status, headers, body = asked(port, "GET", "/api/load")
    assert (status, headers["Content-Type"], json.loads(body)["batch_fill"]) == (200, "application/json", 0.75)
    status, _, body = asked(port, "POST", "/api/analyse?level=3", b"some words to try")
    found = json.loads(body)
    assert (status, found["level"], found["content_bytes"]) == (200, 3, 17)
    assert found["pieces"][-1] == [" try", None]
    status, _, body = asked(port, "POST", "/api/restore", b"some words to try")
    assert (status, json.loads(body)["sha256"]) == (200, found["sha256"])


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status"),
    [
        ("GET", "/nothing", None, {}, 404),
        ("POST", "/", b"x", {}, 404),
        ("POST", "/api/restore", b"x", {"Origin": "null"}, 403),
        ("POST", "/api/analyse?level=10", b"x", {}, 400),
        ("POST", "/api/analyse", b"x" * 1001, {}, 413),
        ("POST", "/api/analyse", b"too much", {}, 413),
        ("POST", "/api/analyse", b"bug", {}, 500),
        ("POST", "/api/analyse", b"x", {"Origin": "http://elsewhere.example"}, 403),
        ("POST", "/api/analyse", b"x", {"Host": "elsewhere.example"}, 403),
        ("POST", "/api/analyse", b"x", {"Host": "a:b:c"}, 400),
        ("PUT", "/", b"x", {}, 501),
    ],
)
def test_what_is_wrong_is_told_and_no_more(
    port: WebPort, method: str, path: str, body: bytes | None, headers: dict[str, str], status: int
) -> None:
    found, _, said = asked(port, method, path, body, **headers)
    assert found == status
    assert b"secret" not in said
    assert asked(port, "GET", "/")[0] == 200


def test_analysing_asks_for_a_token_where_there_are_some() -> None:
    port = WebPort("127.0.0.1", 0, analysed, restored, LiveLoad(), TOKENS, 1000)
    try:
        assert asked(port, "POST", "/api/analyse", b"a word")[0] == 401
        assert asked(port, "POST", "/api/restore", b"a word")[0] == 401
        assert asked(port, "POST", "/api/analyse", b"a word", Authorization="Bearer wrong")[0] == 401
        assert asked(port, "POST", "/api/analyse", b"a word", Authorization="Bearer open")[0] == 200
        assert asked(port, "GET", "/api/load")[0] == 200
    finally:
        port.close()


def test_those_who_send_slowly_keep_nobody_waiting(port: WebPort) -> None:
    slow = [http.client.HTTPConnection("127.0.0.1", port.port, timeout=30) for _ in range(4)]
    try:
        for connection in slow:
            connection.putrequest("POST", "/api/analyse")
            connection.putheader("Content-Length", "5")
            connection.endheaders(b"a")
        assert asked(port, "POST", "/api/analyse", b"a word")[0] == 200
        sock: Any = slow[0].sock
        sock.shutdown(socket.SHUT_WR)
        assert slow[0].getresponse().status == 400
    finally:
        for connection in slow:
            connection.close()


class Outline(HTMLParser):
    """What a screen reader goes by."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_everything_has_a_name() -> None:
    outline = Outline()
    outline.feed(PAGE)
    ids = [attributes["id"] for _, attributes in outline.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    labelled = {attributes["for"] for tag, attributes in outline.tags if tag == "label"}
    assert labelled == {attributes["id"] for tag, attributes in outline.tags if tag in ("input", "select", "textarea")}
    for key in ("aria-labelledby", "aria-describedby"):
        assert {attributes[key] for _, attributes in outline.tags if key in attributes} <= set(ids)
    assert [tag for tag, _ in outline.tags if re.fullmatch("h[1-6]", tag)] == ["h1", *["h2"] * 5]
    assert dict(outline.tags)["html"] == {"lang": "en"}


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_colours_can_be_told_apart() -> None:
    schemes = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", part)) for part in PAGE.split("@media")[:2]]
    assert len(schemes) == 2
    for scheme in schemes:
        for ink in ("ink", "soft", "bad"):
            assert contrast(scheme[ink], scheme["paper"]) >= 4.5
        assert contrast(scheme["ink"], scheme["panel"]) >= 4.5
        assert contrast(scheme["soft"], scheme["panel"]) >= 4.5
        assert contrast(scheme["on-accent"], scheme["accent"]) >= 4.5
        for edge in ("line", "own", "accent"):
            assert contrast(scheme[edge], scheme["paper"]) >= 3
    heat = re.findall(r"\.h[0-6x] { background: (#[0-9a-f]{6})", PAGE)
    assert len(heat) == 8
    assert all(contrast("#14181d", colour) >= 4.5 for colour in heat)
    lights = [luminance(colour) for colour in heat[:7]]
    assert lights == sorted(lights, reverse=True)


@pytest.mark.skipif(BROWSER is None, reason="no browser is installed (Debian: apt-get install chromium)")
def test_the_page_works_by_keyboard_alone(port: WebPort, tmp_path: Path) -> None:
    with chromium_page(tmp_path) as page:
        page.open(f"http://127.0.0.1:{port.port}/")
        reached: list[Any] = []
        for _ in range(6):
            page.press("Tab")
            reached.append(page.value("document.activeElement.id"))
        assert reached == ["", "text", "file", "level", "go", "pause"]
        page.value("document.getElementById('text').focus()")
        page.type("Every word of this wonderful text is extraordinarily surprising, says <b>somebody</b>.")
        for _ in range(3):
            page.press("Tab")
        page.press("Enter")
        page.wait_for("document.getElementById('status').textContent.startsWith('Done')")
        assert page.value("document.getElementById('status').textContent").endswith("became 17, and the same 86 again.")
        assert "39 % smaller than the better of xz and zstd" in page.value(
            "document.getElementById('verdict').textContent"
        )
        assert page.value("document.getElementById('heat').textContent").endswith("says <b>somebody</b>.")
        page.value("document.getElementById('heat').focus()")
        page.press("ArrowRight")
        assert page.value("document.getElementById('detail').textContent").startswith(
            'Token 1: "Every" takes 4.63 bits'
        )
        page.press("n")
        assert page.value("document.getElementById('detail').textContent").startswith('Token 5: " wonderful" takes')
        page.press("End")
        assert page.value("document.getElementById('detail').textContent").endswith("was not coded by the model")
        assert page.value("document.getElementById('drafted').textContent").startswith(
            "Decompressing took 0.50 s and 2.50 tokens per target pass; 46 % of the tokens that drafts proposed"
        )
        page.wait_for("document.querySelector('#numbers dd:last-child').textContent !== '–'")
        page.value("document.getElementById('pause').click()")
        assert page.value("document.getElementById('pause').getAttribute('aria-pressed')") == "true"
        assert page.problems == []


@pytest.mark.skipif(BROWSER is None, reason="no browser is installed (Debian: apt-get install chromium)")
@pytest.mark.parametrize(("width", "dark"), [(1000, False), (390, True)])
def test_the_page_fits_its_window(port: WebPort, tmp_path: Path, width: int, dark: bool) -> None:
    with chromium_page(tmp_path) as page:
        page.open(f"http://127.0.0.1:{port.port}/", width, dark=dark)
        page.value("document.getElementById('text').value = 'a few words and one unpronounceableabbreviation more'")
        page.value("document.getElementById('go').click()")
        page.wait_for("document.getElementById('status').textContent.startsWith('Done')")
        page.screenshot(tmp_path / "page.png")
        assert page.value("document.documentElement.scrollWidth") <= width
        assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")
        assert page.problems == []
