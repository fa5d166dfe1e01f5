"""The page for people, over HTTP: one file that loads nothing from elsewhere, and the two addresses that it asks.

    GET  /             the page
    GET  /api/load     `liveload.Load` as JSON
    POST /api/analyse  ?level=N, the text as the body: `webanalysis.Analysis` as JSON

Errors are JSON, too: {"error": "…"}. Where the service asks for tokens, analysing asks for one; the other two tell
nothing that belongs to anybody.
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
from speccompact_grpc.webanalysis import Analysis

_ANALYSES: Final = 2
"""At once; more are asked to come again."""

_CONNECTIONS: Final = 64
_PATIENCE_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.05  # until an end is noticed
_LOG = logging.getLogger(LOGGER)

Analyse = Callable[[bytes, int, Caller], Analysis]


class _Refused(Exception):
    """An answer that is no success."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class WebPort:
    """The port of the page, answered in threads of its own."""

    def __init__(
        self, host: str, port: int, analyse: Analyse, load: LiveLoad, tokens: Tokens | None, max_bytes: int
    ) -> None:
        """Listen.

        Args:
            host, port: where; port 0 takes a free one.
            analyse: content, level and caller to an analysis.
            load: what the service does now.
            tokens: who may analyse; None for everyone.
            max_bytes: longest text.

        Raises:
            OSError: the address is taken.
        """
        self._server = _Server(host, port, analyse, load, tokens, max_bytes)
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
        self, host: str, port: int, analyse: Analyse, load: LiveLoad, tokens: Tokens | None, max_bytes: int
    ) -> None:
        if ":" in host:
            self.address_family = socket.AF_INET6
        self.host, self.analyse, self.load, self.tokens, self.max_bytes = host, analyse, load, tokens, max_bytes
        self.page = resources.files("speccompact_grpc").joinpath("page.html").read_bytes()
        self.policy = _policy(self.page.decode("utf-8"))
        self.analyses = threading.BoundedSemaphore(_ANALYSES)
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
        """Analyse a text."""
        try:
            found = self._analysed()
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
            self._answer_json(HTTPStatus.OK, found.as_json())

    def _analysed(self) -> Analysis:
        path, _, query = self.path.partition("?")
        if path != "/api/analyse":
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
        if not self.server.analyses.acquire(blocking=False):
            raise _Refused(HTTPStatus.TOO_MANY_REQUESTS, "others are trying texts at the moment; try again soon")
        try:
            return self.server.analyse(self.rfile.read(int(length)), int(level), caller)
        finally:
            self.server.analyses.release()

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
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        caller = self.server.tokens.caller(token.strip()) if scheme.lower() == "bearer" else None
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
