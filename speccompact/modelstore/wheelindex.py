"""Finds where the user's package index keeps a wheel.

Which index that is, only pip knows: its configuration files, its environment variables and its built-in default. So
pip is asked (`pip config list`, and the help text, which names the default), and no host is written down here. What an
index says need not be trusted: whoever downloads compares with a pinned digest.

Reference: the simple repository API, PEP 503 (HTML) and PEP 691 (JSON).
"""

import ast
import base64
import html.parser
import json
import os
import re
import ssl
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

from speccompact.errors import ModelError

_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_MAX_PAGE_BYTES = 64_000_000
_PIP_SECONDS = 60
TIMEOUT_SECONDS = 60
"""A connection that stays silent for so long is given up."""

_DEFAULT_INDEX = re.compile(r"--index-url.*?\(default\s+(https?://[^\s)]+)\s*\)", re.DOTALL)
_REMOTE = ("http", "https")


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """What pip's configuration says about package indexes.

    Attributes:
        indexes: URLs of simple indexes, in the order in which they are asked.
        find_links: folders, or URLs of pages with links to wheels; asked first.
        cert: file of trusted certificates, or "" for the system's.
        proxy: proxy URL, or "" for what the environment says.
    """

    indexes: tuple[str, ...]
    find_links: tuple[str, ...] = ()
    cert: str = ""
    proxy: str = ""


def read_settings() -> IndexSettings:
    """Ask pip for its configuration; without pip, the settings name no index."""
    options: dict[str, str] = {}
    found = parse_config(_pip("config", "list"))
    for section in ("global", "download", ":env:"):
        options |= found.get(section, {})
    indexes: list[str] = []
    if options.get("no-index", "").lower() not in ("1", "true", "yes", "on"):
        indexes = options.get("index-url", "").split() or _DEFAULT_INDEX.findall(_pip("download", "--help"))[:1]
        indexes += options.get("extra-index-url", "").split()
    links = tuple(options.get("find-links", "").split())
    return IndexSettings(tuple(indexes), links, options.get("cert", ""), options.get("proxy", ""))


def parse_config(text: str) -> dict[str, dict[str, str]]:
    """Parse the output of `pip config list`: lines of section.option='value'."""
    sections: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        section, dot, option = key.partition(".")
        if not equals or not dot:
            continue
        try:
            parsed = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            continue
        sections.setdefault(section, {})[option] = str(parsed)
    return sections


def wheel_urls(package: str, wheel: str, settings: IndexSettings, failures: list[str]) -> Iterator[str]:
    """Yield the URLs under which a wheel is offered.

    Args:
        package: name of the package.
        wheel: file name of the wheel.
        settings: where to look.
        failures: what went wrong at each place is appended here, for a message.
    """
    project = re.sub(r"[-_.]+", "-", package).lower()
    for place in settings.find_links:
        parts = urllib.parse.urlsplit(place)
        if parts.scheme not in ("", "file"):
            yield from _links_on(place, wheel, settings, failures)
            continue
        local = Path(urllib.request.url2pathname(parts.path)).expanduser() / wheel
        if local.is_file():
            yield local.resolve().as_uri()
    for index in settings.indexes:
        yield from _links_on(f"{index.rstrip('/')}/{project}/", wheel, settings, failures)


def _links_on(page: str, wheel: str, settings: IndexSettings, failures: list[str]) -> Iterator[str]:
    try:
        with open_url(page, settings, {"Accept": _ACCEPT}) as answer:
            base, body = answer.geturl(), answer.read(_MAX_PAGE_BYTES + 1)
            is_json = "json" in answer.headers.get("Content-Type", "")
    except (OSError, HTTPException, ValueError) as error:
        failures.append(f"{redact(page)}: {describe(error)}")
        return
    if len(body) > _MAX_PAGE_BYTES:
        failures.append(f"{redact(page)}: the page is too long")
        return
    try:
        links = json_links(body) if is_json else html_links(body)
    except ModelError as error:
        failures.append(f"{redact(page)}: {error}")
        return
    if wheel not in links:
        failures.append(f"{redact(page)}: no {wheel} there")
        return
    try:
        yield _target(page, base, links[wheel])
    except ValueError as error:
        failures.append(f"{redact(page)}: {error}")


def _target(page: str, base: str, link: str) -> str:
    """Return the URL that a link means; raises ValueError where it is none that may be followed."""
    parts = urllib.parse.urlsplit(urllib.parse.urljoin(base, link))
    # a page from elsewhere has no say over local files
    if parts.scheme not in _REMOTE and (parts.scheme != "file" or not page.startswith("file:")):
        raise ValueError(f"a link of the scheme {parts.scheme!r}")
    # the login that opened the page opens the file too, but only on the same host
    login, host = urllib.parse.urlsplit(page).netloc.rpartition("@")[::2]
    netloc = f"{login}@{host}" if login and parts.netloc == host else parts.netloc
    return urllib.parse.urlunsplit(parts._replace(netloc=netloc, fragment=""))


def json_links(body: bytes) -> dict[str, str]:
    """Return file name -> URL of a PEP 691 page; raises ModelError where it is none."""
    try:
        page = json.loads(body)
        return {str(entry["filename"]): str(entry["url"]) for entry in page["files"]}
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ModelError("not a page of a package index") from None


def html_links(body: bytes) -> dict[str, str]:
    """Return file name -> URL of a PEP 503 page."""
    parser = _Anchors()
    parser.feed(body.decode("utf-8", "replace"))
    links = {}
    for url in parser.urls:
        # not urlsplit: one malformed link must not spoil the page
        path = re.split("[?#]", url, maxsplit=1)[0]
        links[urllib.parse.unquote(path.rpartition("/")[2])] = url
    return links


class _Anchors(html.parser.HTMLParser):
    """Collects the targets of all links."""

    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []
        self._base = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        href = dict(attrs).get("href")
        if tag == "base" and href:
            self._base = href
        elif tag == "a" and href:
            with suppress(ValueError):
                self.urls.append(urllib.parse.urljoin(self._base, href))


def open_url(url: str, settings: IndexSettings, headers: Mapping[str, str]) -> Any:
    """Open a URL the way pip would: its certificates, its proxy, a login in the URL sent as a header.

    Returns:
        The answer, a binary file with `headers`, `status` and `geturl`.

    Raises:
        OSError, HTTPException or ValueError: it cannot be opened.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in (*_REMOTE, "file"):
        raise ValueError(f"{parts.scheme!r} URLs are not supported")
    if parts.scheme == "file" and url.endswith("/"):
        url += "index.html"
    request = urllib.request.Request(url, headers=dict(headers))
    login, _, host = parts.netloc.rpartition("@")
    if login:
        request = urllib.request.Request(urllib.parse.urlunsplit(parts._replace(netloc=host)), headers=dict(headers))
        token = base64.b64encode(urllib.parse.unquote(login).encode()).decode()
        # an unredirected header stays with this host
        request.add_unredirected_header("Authorization", f"Basic {token}")
    context = ssl.create_default_context()
    if settings.cert:
        context.load_verify_locations(settings.cert)
    handlers: list[urllib.request.BaseHandler] = [urllib.request.HTTPSHandler(context=context)]
    if settings.proxy:
        handlers.append(urllib.request.ProxyHandler({"http": settings.proxy, "https": settings.proxy}))
    return urllib.request.build_opener(*handlers).open(request, timeout=TIMEOUT_SECONDS)


def redact(url: str) -> str:
    """Return a URL without its login, for messages."""
    # not urlsplit: a malformed URL needs a message too
    return re.sub("//[^/?#]*@", "//", url, count=1)


def describe(error: Exception) -> str:
    """Return a short reason for a failed request."""
    if isinstance(error, urllib.error.HTTPError):
        return f"answer {error.code}"
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(reason)


def _pip(*arguments: str) -> str:
    """Run pip and return what it prints; "" where there is no pip or it fails."""
    command = [sys.executable, "-m", "pip", *arguments]
    # a narrow terminal would break the default URL in the help text
    environment = os.environ | {"COLUMNS": "1000"}
    try:
        done = subprocess.run(command, capture_output=True, timeout=_PIP_SECONDS, check=False, env=environment)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""
