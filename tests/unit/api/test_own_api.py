"""What the api asks itself for a caller it knows, and what nobody else can ask so."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from litestar import Litestar, Request, get, post

from libs.contracts.letta.agent_requests import UpdateAgent
from services.api.engine.fleet_api import ApiAway, Refused
from services.api.http.authentication import UNAUTHORIZED
from services.api.http.callers import CALLER, Caller, caller_of
from services.api.http.error_responses import Problem, on_exception
from services.api.http.own_api import PAGE_ITEMS, OwnApi
from services.api.http.per_path_concurrency_limits import ConcurrencyLimits
from services.api.http.request_admission import admit
from services.api.http.request_parsing import body_of
from services.api.http.request_telemetry import TracedLitestar
from tests.clock_and_ids import ManualClock

ADA = Caller("org-ada", "user-ada")
AnyRequest = Request[Any, Any, Any]


@get("/v1/who")
async def who(request: AnyRequest) -> dict[str, str]:
    """Say who asks."""
    return {"org": caller_of(request).org, "user": caller_of(request).user}


@post("/v1/things/{thing_id:str}")
async def change(request: AnyRequest, thing_id: str) -> dict[str, Any]:
    """Say what was sent."""
    key = request.headers.get("idempotency-key")
    return {"id": thing_id, "body": json.loads(await request.body()), "key": key}


@get("/v1/status/{status:int}")
async def fail(status: int) -> None:
    """Fail with this status."""
    raise Problem(status, {"detail": f"it is {status}"})


@get("/v1/many")
async def many(after: str = "0", limit: int = 100) -> list[dict[str, str]]:
    """A page of three hundred things."""
    return [{"id": str(n)} for n in range(int(after) + 1, min(int(after) + limit, 300) + 1)]


@post("/v1/secrets")
async def keep(request: AnyRequest) -> None:
    """Keep variables."""
    await body_of(request, UpdateAgent)


class Nobody:
    """Knows no caller."""

    async def authenticate(self, connection: Any) -> Caller:
        raise Problem(401, UNAUTHORIZED)


@pytest.fixture
def app() -> Litestar:
    app = TracedLitestar(
        [who, change, fail, many, keep],
        before_request=admit,
        exception_handlers={Exception: on_exception},
        openapi_config=None,
        logging_config=None,
    )
    app.state.clock = ManualClock()
    app.state.password = None
    app.state.authenticator = Nobody()
    app.state.concurrency_limits = ConcurrencyLimits()
    return app


async def test_it_asks_as_the_caller_that_it_was_made_for(app: Litestar) -> None:
    for caller in (ADA, Caller("org-eve", "user-eve"), ADA):
        asked = await OwnApi(app, caller).get("/v1/who")
        assert asked == {"org": caller.org, "user": caller.user}


@pytest.mark.parametrize(
    "headers",
    [{"caller": "org-ada"}, {"state": "caller"}, {"x-state-caller": "org-ada"}, {"host": "caller"}],
)
async def test_a_client_is_authenticated_whatever_it_says_of_itself(
    app: Litestar, headers: dict[str, str]
) -> None:
    assert await OwnApi(app, ADA).get("/v1/who")
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.get("/v1/who", params={CALLER: ADA.org}, headers=headers)
    assert answer.status_code in (401, 403)
    assert ADA.org not in answer.text


async def test_a_path_a_body_and_a_key_arrive_as_they_are(app: Litestar) -> None:
    api = OwnApi(app, ADA)
    sent = await api.send("POST", "/v1/things/a b", {"n": [1]}, "key-1")
    assert sent == {"id": "a b", "body": {"n": [1]}, "key": "key-1"}
    assert (await api.send("POST", "/v1/things/a", {}, None))["key"] is None


async def test_all_pages_of_a_list_are_read(app: Litestar) -> None:
    found = await OwnApi(app, ADA).pages("/v1/many")
    assert PAGE_ITEMS < len(found) == 300
    assert [int(each["id"]) for each in found] == [*range(1, 301)]


async def test_a_refusal_is_told_from_an_answer_that_passes(app: Litestar) -> None:
    api = OwnApi(app, ADA)
    for status in (400, 404, 409, 413, 422):
        with pytest.raises(Refused, match=f"it is {status}") as refused:
            await api.get(f"/v1/status/{status}")
        assert refused.value.status == status
    for status in (429, 500, 503):
        with pytest.raises(ApiAway, match=f"it is {status}"):
            await api.get(f"/v1/status/{status}")


async def test_a_refusal_says_what_is_wrong_and_not_what_was_sent(app: Litestar) -> None:
    api = OwnApi(app, ADA)
    sent = {"secrets": {"KEY": ["hush"], 'it\'s "it"': 5}, "tags": "hush"}
    with pytest.raises(Refused) as refused:
        await api.send("POST", "/v1/secrets", sent, None)
    assert str(refused.value) == (
        "`tags`: Input should be a valid list; `secrets.KEY`: Input should be a valid string;"
        ' `secrets.it\'s "it"`: Input should be a valid string'
    )
    with pytest.raises(Refused, match="does not have the form"):
        await api.send("POST", "/v1/secrets", {"secrets": {"a)": ["hush"]}}, None)
