"""Who may come in: with a password whoever has it, without one only this machine."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest
from letta_client import APIConnectionError, AuthenticationError, InternalServerError, Letta

from tests.e2e.asking import SECONDS_MAX
from tests.ports import free_port
from tests.servers import HeelerInstance, wait_until

PASSWORD = "pässword with spaces"
UNAUTHORIZED = {"detail": "Unauthorized"}


@pytest.fixture(scope="module")
def guarded(heeler: HeelerInstance) -> Iterator[str]:
    """The address of one more api of the same instance, which has a password."""
    port = free_port()
    process = heeler.spawn_service("api", {"HEELER_PORT": str(port), "HEELER_PASSWORD": PASSWORD})
    url = f"http://127.0.0.1:{port}"

    def well() -> bool:
        try:
            return httpx.get(f"{url}/v1/health").status_code == 200
        except httpx.TransportError:
            return False

    wait_until("the api with a password", well, SECONDS_MAX)
    yield url
    process.terminate()
    process.wait(10)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": "Bearer"},
        {"authorization": PASSWORD},
        {"authorization": f"Basic {PASSWORD}"},
        {"x-bare-password": PASSWORD},
        {"x-bare-password": "password wrong"},
        {"x-bare-password": "password"},
    ],
)
def test_without_the_password_nothing_is_answered(guarded: str, headers: dict[str, str]) -> None:
    with httpx.Client(base_url=guarded, headers={k: v.encode() for k, v in headers.items()}) as c:  # type: ignore[misc]
        for method, path in (
            ("GET", "/v1/agents/"),
            ("POST", "/v1/agents/"),
            ("GET", "/v1/nope"),
            ("PUT", "/v1/agents/"),
            ("GET", "/v1/tools/"),
            ("GET", "/openapi.json"),
            ("GET", "/asyncapi.json"),
            ("GET", "/metrics"),
        ):
            answer = c.request(method, path)
            assert (answer.status_code, answer.json()) == (401, UNAUTHORIZED), path
            assert answer.headers["www-authenticate"] == 'Bearer realm="Heeler"'


def test_both_headers_of_v1_open_the_door(guarded: str) -> None:
    for name, value in (
        ("authorization", f"Bearer {PASSWORD}"),
        ("x-bare-password", f"password {PASSWORD}"),
    ):
        answer = httpx.get(f"{guarded}/v1/agents/count", headers={name: value.encode()})
        assert answer.status_code == 200, answer.text
        assert isinstance(answer.json(), int)


def test_health_is_open(guarded: str) -> None:
    for path in ("/v1/health", "/v1/health/", "/readyz", "/livez", "/v1/ready"):
        assert httpx.get(f"{guarded}{path}").json()["status"] == "ok"


def test_the_start_page_is_open_and_says_that_a_password_is_wanted(guarded: str) -> None:
    page = httpx.get(f"{guarded}/")
    assert page.status_code == 200
    assert "Authorization: Bearer" in page.text


def test_the_sdk_brings_the_password_as_its_key(heeler: HeelerInstance) -> None:
    port = free_port()
    process = heeler.spawn_service(
        "api", {"HEELER_PORT": str(port), "LETTA_SERVER_PASSWORD": "plain"}
    )
    url = f"http://127.0.0.1:{port}"
    with Letta(base_url=url, api_key="plain") as good, Letta(base_url=url, api_key="bad") as bad:

        def well() -> bool:
            try:
                return good.health().status == "ok"
            except (APIConnectionError, InternalServerError):  # 503 until it has seen the others
                return False

        wait_until("the api with a password", well, SECONDS_MAX)
        assert good.agents.list(limit=1) is not None
        with pytest.raises(AuthenticationError):
            bad.agents.list()
    process.terminate()
    process.wait(10)


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("host", "evil.example"),
        ("host", "evil.example:8283"),
        ("host", "127.0.0.1.evil.example"),
        ("host", "0.0.0.0"),
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("origin", "http://localhost.evil.example"),
        ("x-forwarded-for", "192.0.2.1"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-for", ""),
        ("forwarded", "for=192.0.2.1"),
    ],
)
def test_without_a_password_only_this_machine_is_answered(
    http: httpx.Client, header: str, value: str
) -> None:
    for path in ("/v1/agents/", "/openapi", "/v1/nope"):
        answer = http.get(path, headers={"host": "localhost", header: value})
        assert answer.status_code == 403, path
        assert header.title() in answer.json()["detail"]
        assert "HEELER_PASSWORD" in answer.json()["detail"]


def test_a_password_lets_in_what_a_proxy_hands_on(guarded: str) -> None:
    headers = {"authorization": f"Bearer {PASSWORD}".encode(), "x-forwarded-for": b"192.0.2.1"}
    assert httpx.get(f"{guarded}/v1/agents/count", headers=headers).status_code == 200  # type: ignore[arg-type]


def test_this_machine_has_several_names(http: httpx.Client) -> None:
    for header, value in (
        ("host", "localhost:1"),
        ("host", "127.0.0.2"),
        ("host", "[::1]:8283"),
        ("origin", "http://localhost:3000"),
        ("origin", "http://127.0.0.1"),
    ):
        assert http.get("/v1/agents/count", headers={header: value}).status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_an_open_address_without_a_password_does_not_start(
    heeler: HeelerInstance, host: str
) -> None:
    process = heeler.spawn_service(
        "api", {"HEELER_PORT": str(free_port()), "HEELER_HOST": host, "HEELER_PASSWORD": ""}
    )

    assert process.wait(60) == 1
    logs = sorted(heeler.home.glob("logs/api-replica-*.log"), key=lambda log: log.stat().st_mtime)
    (sentence,) = logs[-1].read_text().strip().split("\n")
    assert re.search(rf"HEELER_HOST={host} .* set HEELER_PASSWORD, or listen on 127", sentence)
