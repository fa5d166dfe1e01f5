"""A web server on the loopback interface that tests fill with pages and make fail on purpose."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Page:
    """What one path answers.

    Attributes:
        body: its bytes.
        content_type: its type.
        headers: further headers.
        status: the status of a whole answer.
        cut_after: bytes after which a connection is dropped, one entry for each of the first requests.
        ranges: whether "Range" is honoured.
        login: what "Authorization" must be, or "".
    """

    body: bytes
    content_type: str = "application/octet-stream"
    headers: dict[str, str] = field(default_factory=dict)
    status: int = 200
    cut_after: list[int] = field(default_factory=list)
    ranges: bool = True
    login: str = ""


class StubServer:
    """Pages by path, and the requests that came: (method, path, Range header)."""

    def __init__(self, address: str) -> None:
        self.url = address
        self.pages: dict[str, Page] = {}
        self.requests: list[tuple[str, str, str]] = []


@contextmanager
def running() -> Iterator[StubServer]:
    """Serve until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(with_body=True)

        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def _answer(self, *, with_body: bool) -> None:
            path, asked = self.path.partition("?")[0], self.headers.get("Range", "")
            stub.requests.append((self.command, path, asked))
            page = stub.pages.get(path)
            if page is None or page.login not in ("", self.headers.get("Authorization")):
                self.send_error(404 if page is None else 401)
                return
            start, status = 0, page.status
            match = re.fullmatch(r"bytes=(\d+)-(\d*)", asked)
            if match and page.ranges:
                start, status = int(match[1]), 206
            self.send_response(status)
            body = page.body[start:]
            if status == 206:
                self.send_header("Content-Range", f"bytes {start}-{len(page.body) - 1}/{len(page.body)}")
            headers = {"Content-Type": page.content_type, "Content-Length": str(len(body))} | page.headers
            for key, value in headers.items():
                self.send_header(key, value)
            self.end_headers()
            if with_body:
                self.wfile.write(body[: page.cut_after.pop(0)] if page.cut_after else body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        stub = StubServer(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield stub
        finally:
            server.shutdown()
            thread.join()
