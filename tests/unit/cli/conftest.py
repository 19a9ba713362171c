"""The command without a server, and a server that says what a test wants."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.heeler_command import HeelerCommand
from tests.unit.cli.stand_in import StandIn

POLL_SECONDS = 0.01  # how soon the server notices that it shall stop


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> HeelerCommand:
    return HeelerCommand(monkeypatch, tmp_path, None)


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    kept = StandIn("")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kept.asked.append((self.path, dict(self.headers.items())))
            data = kept.body if isinstance(kept.body, bytes) else json.dumps(kept.body).encode()
            self.send_response(kept.status)
            is_json = not isinstance(kept.body, bytes) if kept.is_json is None else kept.is_json
            if kept.location:
                self.send_header("location", kept.location)
            self.send_header("content-type", "application/json" if is_json else "text/html")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            self.do_GET()

        do_PATCH = do_DELETE = do_POST

        def log_message(self, *_: object) -> None:
            """Say nothing on stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    kept.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(POLL_SECONDS,))
    thread.start()
    yield kept
    server.shutdown()
    thread.join()
    server.server_close()
