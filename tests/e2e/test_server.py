"""What the server says of itself: its health, its API document, and the page that shows it."""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import time
from typing import Any

import httpx
import pytest
from letta_client import Letta

from deploy.asyncapi import PAGE as ASYNCAPI
from libs.contracts.service_registry import names
from tests.waiting import wait_for


@pytest.mark.operation("GET /v1/health/")
def test_health_tells_the_truth_at_each_of_its_paths(letta: Letta, http: httpx.Client) -> None:
    body = {
        "version": "0.16.8",
        "status": "ok",
        "server": http.get("/v1/health").json()["server"],
        "postgres": "ok",
        "nats": "ok",
        "services": dict.fromkeys(names(), "ok"),
        "dead_letters": 0,
    }
    # Letters that another test has parked and discarded are counted for a moment longer.
    asyncio.run(wait_for("all is well", lambda: http.get("/v1/health").json() == body))
    assert letta.health().to_dict() == body
    assert re.fullmatch(r"heeler \d+\.\d+\.\d+", body["server"])
    for path in ("/v1/health", "/v1/health/", "/health", "/latest/health", "/v1/ready", "/readyz"):
        assert http.get(path).json() == body, path
    assert http.get("/livez").json() == {"status": "ok"}


def references(node: Any) -> list[str]:
    """All `$ref`s in a document."""
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [ref for value in node.values() for ref in references(value)]
    if isinstance(node, list):
        return [ref for value in node for ref in references(value)]
    return []


def test_the_openapi_document_is_valid(http: httpx.Client) -> None:
    from openapi_spec_validator import OpenAPIV31SpecValidator

    document = http.get("/openapi.json").json()

    assert list(OpenAPIV31SpecValidator(document).iter_errors()) == []
    found = references(document)
    assert found
    for reference in found:
        node = document
        assert reference.startswith("#/")
        for part in reference.removeprefix("#/").split("/"):
            node = node[part]
    names = [
        operation["operationId"]
        for path in document["paths"].values()
        for operation in path.values()
    ]
    assert len(names) == len(set(names))
    create = document["paths"]["/v1/agents"]["post"]
    assert create["summary"] == "Create an agent with its memory blocks."
    assert create["requestBody"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/CreateAgent"
    }


def test_the_start_page_links_what_there_is_to_see(http: httpx.Client) -> None:
    page = http.get("/")

    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    links = re.findall(r'href="([^"]+)"', page.text)
    assert links == ["/openapi", "/openapi.json", "/v1/health", "/metrics", "/asyncapi.json"]
    for path in links:
        assert http.get(path).status_code == 200, path
    assert "make status" in page.text


def test_the_document_of_the_bus_is_served(http: httpx.Client) -> None:
    assert http.get("/asyncapi.json").json() == json.loads(ASYNCAPI.read_text())


def test_the_metrics_are_told_at_once(http: httpx.Client) -> None:
    took = []
    for _ in range(21):
        began = time.perf_counter()
        answer = http.get("/metrics")
        took.append(time.perf_counter() - began)
        assert answer.status_code == 200
    counted = 'heeler_http_requests_total{method="GET",process="'
    assert counted in answer.text
    assert 'route="/metrics",status="200"} ' in answer.text
    print(f"/metrics: {statistics.median(took) * 1e3:.1f} ms")


@pytest.mark.parametrize("path", ["/openapi", "/openapi/"])
def test_the_page_needs_nothing_from_elsewhere(http: httpx.Client, path: str) -> None:
    page = http.get(path)

    assert page.headers["content-type"].startswith("text/html")
    linked = re.findall(r'(?:href|src)=["\']([^"\']+)["\']', page.text)
    assert [*linked] == [
        "data:,",
        "/openapi/swagger-ui.css",
        "/openapi/swagger-ui-bundle.js",
        "/openapi/swagger-ui-standalone-preset.js",
    ]
    for asset in linked[1:]:
        answer = http.get(asset)
        assert answer.status_code == 200, asset
        assert len(answer.content) > 1_000
    for odd in ("/openapi/nope.js", "/openapi/..%2f..%2fpyproject.toml", "/openapi/%2e%2e"):
        assert http.get(odd).status_code == 404, odd
