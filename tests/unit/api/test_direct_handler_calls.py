"""A handler that is called directly answers as one that Litestar calls."""

from __future__ import annotations

import json
from typing import Any

import pytest
from litestar import Litestar, Request, Response, get, post
from litestar.exceptions import NotFoundException
from litestar.handlers import HTTPRouteHandler

from services.api.app import HANDLERS
from services.api.http import direct_handler_calls
from services.api.http.direct_handler_calls import (
    DirectCall,
    call_directly,
    can_be_called_directly,
)
from services.api.http.error_responses import Problem, on_exception
from services.api.http.raw_json import raw

AnyRequest = Request[Any, Any, Any]


def handlers() -> list[HTTPRouteHandler]:
    """Fresh ones: a handler belongs to one application."""

    @get("/things/{thing_id:str}")
    async def read(request: AnyRequest, thing_id: str) -> Response[bytes]:
        if thing_id == "none":
            raise Problem(404, {"detail": "no such thing"}, {"x-should-retry": "false"})
        if thing_id == "bug":
            raise RuntimeError("a bug")
        body = json.dumps({"id": thing_id, "query": dict(request.query_params)}).encode()
        if thing_id == "marked":
            response = raw(body)
            response.headers["X-Mark"] = "yes"
            return response
        return raw(body) if thing_id == "a" else Response(body, media_type="application/json")

    @post("/things/{thing_id:str}/parts", status_code=201)
    async def make(request: AnyRequest, thing_id: str) -> Response[bytes]:
        body = await request.body()
        return Response(thing_id.encode() + body, media_type="text/plain", headers={"x-part": "1"})

    return [read, make]


async def answer(app: Litestar, method: str, path: str, body: bytes = b"") -> list[Any]:
    """What the application sends; headers in any order."""
    sent: list[Any] = []
    told = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        return told.pop() if told else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append({**message, "headers": sorted(message.get("headers", []))})

    path, _, query = path.partition("?")
    scope: Any = {
        "type": "http",
        "http_version": "1.1",
        "scheme": "http",
        "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 4711),
        "root_path": "",
        "headers": [(b"host", b"127.0.0.1")],
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
    }
    await app(scope, receive, send)
    return sent


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/things/a?b=c", 200),
        ("GET", "/things/marked", 200),
        ("GET", "/things/b", 200),
        ("GET", "/things/none", 404),
        ("GET", "/things/bug", 500),
        ("POST", "/things/a/parts", 201),
        ("PUT", "/things/a", 405),
        ("OPTIONS", "/things/a", 204),
        ("GET", "/nothing", 404),
    ],
)
async def test_a_direct_call_answers_as_litestar_does(
    monkeypatch: pytest.MonkeyPatch, method: str, path: str, status: int
) -> None:
    admitted = []

    async def admit(request: AnyRequest) -> None:
        admitted.append(request.url.path)

    monkeypatch.setattr(direct_handler_calls, "admit", admit)
    answers, let_in = [], []
    for prepared in (handlers(), [call_directly(handler) for handler in handlers()]):
        app = Litestar(
            prepared,
            before_request=admit,
            exception_handlers={
                Problem: on_exception,
                RuntimeError: on_exception,
                NotFoundException: lambda *_: Response(b"nothing", status_code=404),
            },
            openapi_config=None,
            logging_config=None,
        )
        answers.append(await answer(app, method, path, b" and its part"))
        let_in.append([*admitted])
        admitted.clear()

    assert answers[0] == answers[1]
    assert let_in[0] == let_in[1]
    assert answers[0][0]["status"] == status


async def test_json_is_sent_with_the_headers_that_it_was_given() -> None:
    app = Litestar(handlers(), openapi_config=None, logging_config=None)
    head, body = await answer(app, "GET", "/things/marked")
    assert (b"x-mark", b"yes") in head["headers"]
    assert (b"content-length", str(len(body["body"])).encode()) in head["headers"]


def test_what_takes_more_than_texts_of_its_path_is_left_to_litestar() -> None:
    @get("/one/{number:int}")
    async def numbered(request: AnyRequest, number: int) -> Response[bytes]:
        return raw(b"{}")

    @get("/two")
    async def queried(request: AnyRequest, limit: str) -> Response[bytes]:
        return raw(b"{}")

    @get("/three")
    async def modelled(request: AnyRequest) -> dict[str, str]:
        return {}

    assert [can_be_called_directly(handler) for handler in (numbered, queried, modelled)] == [
        False
    ] * 3


def test_nearly_all_handlers_are_called_directly() -> None:
    direct = [
        handler
        for handler in HANDLERS
        if any(isinstance(way, DirectCall) for way in handler.middleware or ())
    ]
    assert len(direct) > 0.8 * len(HANDLERS)
    assert all(map(can_be_called_directly, direct))
