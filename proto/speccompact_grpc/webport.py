"""The page for people, over HTTP: one file that loads nothing from elsewhere, and the addresses that it asks.

    GET  /             the page
    GET  /api/load     `liveload.Load` as JSON
    POST /api/analyse  ?level=N, the text as the body: see `webanalysis.analyse`
    POST /api/restore  the archive as the body: see `webanalysis.restore`

Answers are JSON, and so are errors: {"error": "…"}. Where the service asks for tokens, the last two ask for one; the
others tell nothing that belongs to anybody.
"""

import base64
import hashlib
import http.server
import json
import logging
import re
import socket
import threading
import urllib.parse
from collections.abc import Callable
from http import HTTPStatus
from importlib import resources
from typing import Any, Final

from speccompact.errors import LimitError, SpecCompactError
from speccompact_grpc.binding import is_loopback, split_address
from speccompact_grpc.callers import ANONYMOUS, Caller
from speccompact_grpc.calllog import LOGGER
from speccompact_grpc.liveload import LiveLoad
from speccompact_grpc.tokens import Tokens
from speccompact_grpc.webanalysis import Found

_WORKS: Final = 2
"""Texts or archives at once; more are asked to come again."""

_CONNECTIONS: Final = 64
_PATIENCE_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.05  # until an end is noticed
_LOG = logging.getLogger(LOGGER)

Analyse = Callable[[bytes, int, Caller], Found]
"""Content, level and caller to what `webanalysis.analyse` finds."""

Restore = Callable[[bytes, Caller], Found]
"""Archive and caller to what `webanalysis.restore` finds."""


class _Refused(Exception):
    """An answer that is no success."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class WebPort:
    """The port of the page, answered in threads of its own."""

    def __init__(
        self,
        host: str,
        port: int,
        analyse: Analyse,
        restore: Restore,
        load: LiveLoad,
        tokens: Tokens | None,
        max_bytes: int,
    ) -> None:
        """Listen.

        Args:
            host, port: where; port 0 takes a free one.
            analyse, restore: do the work.
            load: what the service does now.
            tokens: who may analyse; None for everyone.
            max_bytes: longest text.

        Raises:
            OSError: the address is taken.
        """
        self._server = _Server(host, port, analyse, restore, load, tokens, max_bytes)
        self.port: int = self._server.server_port
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_SECONDS,), name="web", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop answering; what is being answered is finished or left."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(
        self,
        host: str,
        port: int,
        analyse: Analyse,
        restore: Restore,
        load: LiveLoad,
        tokens: Tokens | None,
        max_bytes: int,
    ) -> None:
        if ":" in host:
            self.address_family = socket.AF_INET6
        self.host, self.load, self.tokens, self.max_bytes = host, load, tokens, max_bytes
        self.analyse, self.restore = analyse, restore
        self.page = resources.files("speccompact_grpc").joinpath("page.html").read_bytes()
        self.policy = _policy(self.page.decode("utf-8"))
        self.works = threading.BoundedSemaphore(_WORKS)
        self.connections = threading.BoundedSemaphore(_CONNECTIONS)
        super().__init__((host, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self.connections.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.connections.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that breaks is nobody's fault."""
        _LOG.debug("a connection of the page broke", exc_info=True)


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "speccompact", ""
    timeout = _PATIENCE_SECONDS

    def do_GET(self) -> None:
        """The page, or the load."""
        if self.path == "/":
            self._answer(HTTPStatus.OK, "text/html; charset=utf-8", self.server.page)
        elif self.path == "/api/load":
            self._answer_json(HTTPStatus.OK, self.server.load.now().as_json())
        else:
            self._answer_json(HTTPStatus.NOT_FOUND, {"error": "there is nothing here"})

    def do_POST(self) -> None:
        """Work on a text or an archive."""
        try:
            found = self._worked()
        except _Refused as refused:
            self.close_connection = True  # the body may not have been read
            self._answer_json(refused.status, {"error": str(refused)})
        except LimitError as error:
            self._answer_json(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"error": str(error)})
        except SpecCompactError as error:
            self._answer_json(HTTPStatus.UNPROCESSABLE_ENTITY, {"error": str(error)})
        except OSError:
            raise
        except Exception:
            _LOG.exception("the page's request failed")
            self._answer_json(HTTPStatus.INTERNAL_SERVER_ERROR, {"error": "a fault of the service; its log says more"})
        else:
            self._answer_json(HTTPStatus.OK, found)

    def _worked(self) -> Found:
        path, _, query = self.path.partition("?")
        if path not in ("/api/analyse", "/api/restore"):
            raise _Refused(HTTPStatus.NOT_FOUND, "there is nothing here")
        self._check_origin()
        caller = self._caller()
        level = urllib.parse.parse_qs(query).get("level", ["5"])[-1]
        if not re.fullmatch("[1-9]", level):
            raise _Refused(HTTPStatus.BAD_REQUEST, "level is not 1 to 9")
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch(r"[0-9]{1,12}", length):
            raise _Refused(HTTPStatus.LENGTH_REQUIRED, "the request does not say how long it is")
        if int(length) > self.server.max_bytes:
            raise _Refused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"the page takes {self.server.max_bytes:,} bytes at most; the command line takes any number",
            )
        body = self.rfile.read(int(length))  # before others have to wait for it: it may come slowly
        if len(body) < int(length):
            raise _Refused(HTTPStatus.BAD_REQUEST, "the request ends before its body does")
        if not self.server.works.acquire(blocking=False):
            raise _Refused(HTTPStatus.TOO_MANY_REQUESTS, "others are trying texts at the moment; try again soon")
        try:
            if path == "/api/restore":
                return self.server.restore(body, caller)
            return self.server.analyse(body, int(level), caller)
        finally:
            self.server.works.release()

    def _check_origin(self) -> None:
        """Let no page of another site use a service that only this machine can reach, not even by a name of its own."""
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        if origin is not None and origin != f"http://{host}":
            raise _Refused(HTTPStatus.FORBIDDEN, "the request comes from another site")
        try:
            name, _ = split_address(host if host.rpartition("]")[2].count(":") else f"{host}:80", "Host")
        except SpecCompactError:
            raise _Refused(HTTPStatus.BAD_REQUEST, "the request names no host") from None
        if is_loopback(self.server.host) and not is_loopback(name):
            raise _Refused(HTTPStatus.FORBIDDEN, "the request names another host")

    def _caller(self) -> Caller:
        if self.server.tokens is None:
            return ANONYMOUS
        caller = self.server.tokens.bearer(self.headers.get("Authorization", ""))
        if caller is None:
            raise _Refused(HTTPStatus.UNAUTHORIZED, "this service asks for a token; give one and try again")
        return caller

    def _answer_json(self, status: HTTPStatus, value: object) -> None:
        self._answer(status, "application/json", json.dumps(value).encode())

    def _answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        for name, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
            ("Content-Security-Policy", self.server.policy),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
        ):
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log a request as JSON; of interest to few."""
        _LOG.debug("web", extra={"fields": {"peer": self.client_address[0], "request": format % args}})


def _policy(page: str) -> str:
    """Return the policy that lets the page run its own script and style, ask its own server, and nothing else."""
    digests = {
        tag: " ".join(f"'{_digest(text)}'" for text in re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL))
        for tag in ("script", "style")
    }
    return (
        f"default-src 'none'; script-src {digests['script']}; style-src {digests['style']}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode()
