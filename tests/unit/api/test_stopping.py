"""What a request is told that the server does not wait for any longer."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from litestar import get

from libs.bus.clock_and_ids import SystemClock
from services.api.http.request_telemetry import TracedLitestar


@get("/slow")
async def slow() -> None:
    """Nothing comes of it."""
    await asyncio.Event().wait()


async def cancelled(app: TracedLitestar) -> list[Any]:
    """What an application sends for a request that is cancelled."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/slow",
        "raw_path": b"/slow",
        "scheme": "http",
        "query_string": b"",
        "headers": [],
        "http_version": "1.1",
    }
    asking = asyncio.create_task(app(scope, receive, send))
    for _ in range(10):
        await asyncio.sleep(0)
    asking.cancel()
    await asking
    return sent


def application() -> TracedLitestar:
    app = TracedLitestar([slow], openapi_config=None, logging_config=None)
    app.state.clock = SystemClock()
    app.state.stopping = asyncio.Event()
    return app


async def test_a_request_that_a_stopping_server_gives_up_is_a_503_and_no_500() -> None:
    app = application()
    app.state.stopping.set()

    start, body = await cancelled(app)

    assert start["status"] == 503
    assert dict(start["headers"])[b"retry-after"] == b"1"
    assert "try again" in json.loads(body["body"])["detail"]


async def test_a_request_that_is_cancelled_otherwise_is_cancelled() -> None:
    with pytest.raises(asyncio.CancelledError):
        await cancelled(application())
