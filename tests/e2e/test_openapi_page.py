"""The page that shows the API, as a browser shows it, and the document behind it."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import jsonschema
import pytest
from letta_client import Letta
from playwright.async_api import BrowserContext, ViewportSize, async_playwright

from tests.e2e.asking import says
from tests.e2e.conftest import NewAgent
from tests.servers import HeelerInstance

# A browser needs seconds of CPU for the page, and shares the machine with all other tests.
BROWSER_MS_MAX = 120_000
CHROMIUM = shutil.which("chromium")
QUIET = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
# Swagger UI makes what can be seen, and the rest when somebody scrolls there.
WHOLE_PAGE: ViewportSize = {"width": 1_200, "height": 20_000}


@pytest.fixture
async def browser(tmp_path: Path) -> AsyncIterator[BrowserContext]:
    """Debian's Chromium, as if it were started for the first time."""
    if CHROMIUM is None:
        pytest.skip("NOT TESTED: no `chromium` here (apt-get install chromium)")
    async with async_playwright() as playwright:
        context = await playwright.chromium.launch_persistent_context(
            tmp_path, executable_path=CHROMIUM, args=QUIET, viewport=WHOLE_PAGE
        )
        yield context
        await context.close()


@pytest.mark.parametrize("path", ["/openapi", "/openapi/"])
async def test_a_browser_shows_the_operations(
    heeler: HeelerInstance, browser: BrowserContext, path: str
) -> None:
    page = await browser.new_page()
    asked: list[str] = []
    wrong: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("requestfailed", lambda request: wrong.append(request.url))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)

    await page.goto(f"{heeler.base_url}{path}", timeout=BROWSER_MS_MAX)
    operation = page.locator("#operations-agents-create_agent__v1_agents")
    await operation.wait_for(timeout=BROWSER_MS_MAX)
    await operation.locator(".opblock-summary").click(timeout=BROWSER_MS_MAX)
    answers = operation.locator(".responses-table")
    await answers.wait_for(timeout=BROWSER_MS_MAX)

    text = await page.inner_text("#swagger-container")
    assert "Heeler" in text
    assert "Create an agent with its memory blocks." in text
    assert "Authorize" in text
    assert "Unable to render" not in text
    assert "401" in await answers.inner_text()
    assert wrong == []
    host = urlsplit(heeler.base_url).netloc
    assert {urlsplit(url).netloc for url in asked if not url.startswith("data:")} == {host}


@pytest.fixture(scope="module")
def document(http: httpx.Client) -> dict[str, Any]:
    found: dict[str, Any] = http.get("/openapi.json").json()
    return found


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def test_every_operation_says_what_it_answers(document: dict[str, Any]) -> None:
    for name, operation in operations(document):
        [success] = [
            response for status, response in operation["responses"].items() if status[0] == "2"
        ]
        kinds = success.get("content", {})
        assert kinds or "204" in operation["responses"], name
        assert all(kind["schema"] for kind in kinds.values()), name
        assert operation["summary"].endswith("."), name
        assert operation["description"].startswith(operation["summary"]), name
        assert {"401", "4XX", "503"} <= {*operation["responses"]}, name


def test_the_document_says_how_the_password_is_sent(document: dict[str, Any]) -> None:
    schemes = document["components"]["securitySchemes"]
    assert (schemes["bearer"]["type"], schemes["bearer"]["scheme"]) == ("http", "bearer")
    assert (schemes["bare_password"]["in"], schemes["bare_password"]["name"]) == (
        "header",
        "X-BARE-PASSWORD",
    )
    assert document["security"] == [{"bearer": []}, {"bare_password": []}, {}]
    assert document["paths"]["/v1/health"]["get"]["security"] == []
    refused = document["components"]["responses"]["Unauthorized"]
    assert "WWW-Authenticate" in refused["headers"]


def test_what_is_answered_fits_the_document(
    document: dict[str, Any], letta: Letta, new_agent: NewAgent, http: httpx.Client
) -> None:
    agent = new_agent()
    letta.agents.messages.create(agent.id, messages=says("hello"))
    for path, concrete in (
        ("/v1/agents", "/v1/agents"),
        ("/v1/agents/count", "/v1/agents/count"),
        ("/v1/agents/{agent_id}", f"/v1/agents/{agent.id}"),
        ("/v1/agents/{agent_id}/context", f"/v1/agents/{agent.id}/context"),
        ("/v1/agents/{agent_id}/messages", f"/v1/agents/{agent.id}/messages"),
        ("/v1/agents/{agent_id}/core-memory", f"/v1/agents/{agent.id}/core-memory"),
        ("/v1/blocks", "/v1/blocks"),
        ("/v1/folders", "/v1/folders"),
        ("/v1/health", "/v1/health"),
        ("/v1/models", "/v1/models"),
        ("/v1/runs", "/v1/runs"),
        ("/v1/sandbox-config", "/v1/sandbox-config"),
        ("/v1/steps", "/v1/steps"),
        ("/v1/tags", "/v1/tags"),
        ("/v1/tool-runs", "/v1/tool-runs"),
        ("/v1/tools", "/v1/tools"),
        ("/v1/tools/mcp/servers", "/v1/tools/mcp/servers"),
    ):
        content = document["paths"][path]["get"]["responses"]["200"]["content"]
        schema = {**content["application/json"]["schema"], "components": document["components"]}
        answer = http.get(concrete)
        assert answer.status_code == 200, path
        jsonschema.validate(answer.json(), schema)
