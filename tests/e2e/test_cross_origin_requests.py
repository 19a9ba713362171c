"""Which web pages may call the server from a browser (CORS)."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.e2e.second_api import one_more_api
from tests.servers import HeelerInstance

LOCAL = [
    "http://localhost:3000",
    "https://localhost",
    "http://127.0.0.1:5173",
    "http://[::1]:4200",
    "http://letta.localhost",
]
FOREIGN = [
    "https://evil.example",
    "http://localhost.evil.example",
    "http://evil.example:3000",
    "http://127.0.0.1.evil.example",
    "http://localhost:3000.evil.example",
    "http://xlocalhost",
    "null",
]
NAMED = "https://app.example:8080"
PASSWORD = "a password"


def preflight(http: httpx.Client, origin: str) -> httpx.Response:
    """What a browser asks before a page of this origin may send an agent a message."""
    return http.options(
        "/v1/agents/agent-1/messages",
        headers={
            "origin": origin,
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization,content-type,x-stainless-lang",
        },
    )


def allowed(answer: httpx.Response) -> str | None:
    return answer.headers.get("access-control-allow-origin")


@pytest.mark.parametrize("origin", LOCAL)
def test_pages_on_this_machine_may_call(http: httpx.Client, origin: str) -> None:
    asked = preflight(http, origin)
    assert (asked.status_code, allowed(asked)) == (204, origin)
    assert "POST" in asked.headers["access-control-allow-methods"]
    headers = asked.headers["access-control-allow-headers"].lower().split(", ")
    assert {"authorization", "content-type", "x-stainless-lang"} <= {*headers}
    assert asked.headers["access-control-allow-credentials"] == "true"

    for path, status in (("/v1/agents/count", 200), ("/v1/agents/agent-1", 422), ("/nope", 404)):
        answer = http.get(path, headers={"origin": origin})
        assert (answer.status_code, allowed(answer)) == (status, origin), path
        assert answer.headers["vary"] == "Origin"
        exposed = answer.headers["access-control-expose-headers"]
        assert "x-run-id" in exposed.split(", ")


@pytest.mark.parametrize("origin", FOREIGN)
def test_pages_of_other_sites_may_not(http: httpx.Client, origin: str) -> None:
    asked = preflight(http, origin)
    assert (asked.status_code, allowed(asked)) == (400, None)
    answer = http.get("/v1/agents/count", headers={"origin": origin})
    assert (answer.status_code, allowed(answer)) == (403, None)
    assert "HEELER_CORS_ORIGINS" in answer.json()["detail"]


@pytest.fixture(scope="module")
def naming(heeler: HeelerInstance) -> Iterator[httpx.Client]:
    """An api that names one origin, and has no password."""
    with (
        one_more_api(heeler, HEELER_CORS_ORIGINS=f"{NAMED}, http://localhost:3000") as (url, _),
        httpx.Client(base_url=url) as http,
    ):
        yield http


def test_the_operator_names_the_pages_that_may_call(naming: httpx.Client) -> None:
    for origin, status, shown in (
        (NAMED, 204, NAMED),
        ("http://localhost:3000", 204, "http://localhost:3000"),
        ("http://localhost:3001", 400, None),
        ("https://app.example", 400, None),
        ("https://evil.example", 400, None),
    ):
        asked = preflight(naming, origin)
        assert (asked.status_code, allowed(asked)) == (status, shown), origin
    answer = naming.get("/v1/agents/count", headers={"origin": NAMED})
    assert (answer.status_code, allowed(answer)) == (200, NAMED)
    answer = naming.get("/v1/agents/count", headers={"origin": "https://evil.example"})
    assert (answer.status_code, allowed(answer)) == (403, None)


def test_a_page_that_may_call_is_no_way_around_the_check_of_the_host(naming: httpx.Client) -> None:
    rebound = naming.get("/v1/agents/count", headers={"origin": NAMED, "host": "app.example:8080"})
    assert rebound.status_code == 403
    assert "Host" in rebound.json()["detail"]


def test_with_a_password_every_page_may_ask_for_it(heeler: HeelerInstance) -> None:
    settings = {"HEELER_CORS_ORIGINS": "*", "HEELER_PASSWORD": PASSWORD}
    with one_more_api(heeler, **settings) as (url, _), httpx.Client(base_url=url) as http:
        asked = preflight(http, "https://any.example")
        assert (asked.status_code, allowed(asked)) == (204, "*")
        assert "access-control-allow-credentials" not in asked.headers
        headers = {"origin": "https://any.example"}
        answer = http.get("/v1/agents/count", headers=headers)
        assert (answer.status_code, allowed(answer)) == (401, "*")
        headers["authorization"] = f"Bearer {PASSWORD}"
        answer = http.get("/v1/agents/count", headers=headers)
        assert (answer.status_code, allowed(answer)) == (200, "*")
