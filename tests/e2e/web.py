"""A small web for tests: a few pages, and what searches it as Exa does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar

PAGE = """<html><head><title>Tea</title><script>steal()</script></head><body><nav>Menu</nav>
<main><h1>Tea</h1><p>Green tea is <b>green</b>, see <a href="/black">black</a>.</p>
<ul><li>hot</li><li>cold</li></ul></main></body></html>"""
PAGES = {
    "/tea": ("text/html; charset=utf-8", PAGE.encode()),
    "/latin": ("text/html; charset=iso-8859-1", "<p>Café</p>".encode("latin-1")),
    "/data": ("application/json", b'{"tea": true}'),
    "/image": ("image/png", b"\x89PNG"),
    "/long": ("text/plain", b"x" * (3 << 20)),
    "/deep": ("text/html", b"<div>" * 50_000 + b"deep"),
}
FOUND = {
    "title": "Tea",
    "url": "https://tea.example/",
    "publishedDate": "2026-01-02",
    "author": "Ada",
    "highlights": ["Green tea is green."],
    "summary": "About tea.",
    "id": "not shown",
}


class Web:
    """What was asked of it."""

    def __init__(self, port: int) -> None:
        self.url = f"http://localhost:{port}"
        self.searches: list[tuple[str, dict[str, Any]]] = []


class Handler(BaseHTTPRequestHandler):
    """Answers requests to one `Web`."""

    web: ClassVar[Web]

    def do_GET(self) -> None:
        if self.path.startswith("/to/"):
            self.answer(302, "text/plain", b"", {"Location": self.path.removeprefix("/to/")})
        elif self.path in PAGES:
            self.answer(200, *PAGES[self.path])
        else:
            self.answer(404, "text/html", b"nothing")

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key = self.headers.get("x-api-key", "")
        self.web.searches.append((key, asked))
        if key == "wrong":
            self.answer(401, "application/json", b'{"error": "invalid key: wrong"}')
        else:
            found = json.dumps({"results": [FOUND] * asked["numResults"]})
            self.answer(200, "application/json", found.encode())

    def answer(
        self, status: int, kind: str, body: bytes, headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        named = {"Content-Type": kind, "Content-Length": str(len(body)), **(headers or {})}
        for name, value in named.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


@contextmanager
def serving() -> Iterator[Web]:
    """A web that is there inside."""
    handler = type("OwnHandler", (Handler,), {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    handler.web = Web(server.server_port)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield handler.web
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
