"""The server that a database is moved into, over its API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlencode, urlsplit

from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.model_configs import EmbeddingConfig

SECONDS_MAX = 600.0
COPIED_BYTES = 1 << 20
PAGE = 1_000
NOT_FOUND, GONE = 404, 410


class TargetProblem(Exception):
    """The server cannot be reached, or does not take what is sent; the message says why."""


class Missing(TargetProblem):
    """There is no such thing on the server."""


class Gone(TargetProblem):
    """There was such a thing on the server."""


class Target:
    """A running server. `key` is what it wants from clients, if anything."""

    def __init__(self, url: str, key: str | None = None) -> None:
        self.url = url.rstrip("/")
        self.headers = {"accept": "application/json", "x-stainless-package-version": "1.12.1"}
        if key:
            self.headers["authorization"] = f"Bearer {key}"

    def connection(self) -> HTTPConnection:
        """A new connection, used for one request."""
        parts = urlsplit(self.url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        return kind(parts.hostname or "127.0.0.1", parts.port, timeout=SECONDS_MAX)

    def get(self, path: str, **query: object) -> Any:
        """The answer to a GET. Raises TargetProblem."""
        asked = f"{path}?{urlencode(query, doseq=True)}" if query else path
        return self.answer("GET", asked, None, self.headers)

    def put(self, path: str, body: object) -> Any:
        """The answer to a change. Raises TargetProblem."""
        headers = {**self.headers, "content-type": "application/json"}
        return self.answer("PUT", path, json.dumps(body).encode(), headers)

    def answer(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Any:
        """The JSON that a request is answered with. Raises TargetProblem."""
        connection = self.connection()
        try:
            connection.request(method, path, body=body, headers=headers)
            response: HTTPResponse = connection.getresponse()
            text = response.read()
        except (OSError, HTTPException) as problem:
            raise TargetProblem(f"{self.url} does not answer: {problem}") from problem
        finally:
            connection.close()
        if response.status == NOT_FOUND:
            raise Missing(f"{path} is not there")
        if response.status >= 300:
            shown = text.decode(errors="replace")[:2_000]
            kind = Gone if response.status == GONE else TargetProblem
            raise kind(f"{method} {path} was answered with {response.status}: {shown}")
        return json.loads(text)

    def all(self, path: str, **query: object) -> Iterator[dict[str, Any]]:
        """Everything that a list has, page by page, the oldest first. A page is short where its
        entries are large: the last one is empty."""
        after: dict[str, object] = {}
        while True:
            page = self.get(path, limit=PAGE, order="asc", **query, **after)
            if not page:
                return
            yield from page
            after = {"after": page[-1]["id"]}

    def send(self, path: str, file: Path, *, key: str, **fields: str) -> Any:
        """Upload a file as a form; sent again with the same key it is one upload."""
        boundary = f"heeler-{key}"
        head = "".join(
            f'--{boundary}\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
            for name, value in fields.items()
        )
        head += (
            f'--{boundary}\r\ncontent-disposition: form-data; name="file";'
            f' filename="{file.name}"\r\ncontent-type: application/gzip\r\n\r\n'
        )
        tail = f"\r\n--{boundary}--\r\n"
        size = len(head) + file.stat().st_size + len(tail)
        headers = {
            **self.headers,
            "content-type": f"multipart/form-data; boundary={boundary}",
            "content-length": str(size),
            "idempotency-key": key,
        }
        with file.open("rb") as opened:
            return self.answer("POST", path, form(head, opened, tail), headers)


def form(head: str, file: BinaryIO, tail: str) -> Iterator[bytes]:
    """The body of an upload, a part at a time."""
    yield head.encode()
    while part := file.read(COPIED_BYTES):
        yield part
    yield tail.encode()


def embedding_models(target: Target) -> dict[str, JsonObject]:
    """The models that embed on a server, by their handles, each with its configuration."""
    return {
        model["handle"]: {name: model.get(name) for name in EmbeddingConfig.model_fields}
        for model in target.get("/v1/models/embedding")
    }
