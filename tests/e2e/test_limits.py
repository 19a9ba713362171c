"""Hostile requests are refused by name, and whoever comes next does not notice."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import httpx
import pytest
from letta_client import Letta

from tests.e2e.asking import MODEL, says, unique
from tests.e2e.conftest import NewAgent
from tests.servers import HeelerInstance

RANDOM = random.Random(9)
# Nothing compresses it, and an entry of an index is compressed before it is measured.
INCOMPRESSIBLE = "".join(chr(RANDOM.randrange(0x4E00, 0x9FFF)) for _ in range(2_800))
DIGITS = "9" * 5_000


@pytest.mark.operation("POST /v1/agents/")
@pytest.mark.operation("POST /v1/blocks/")
@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/v1/agents", {"model": MODEL, "name": INCOMPRESSIBLE}, "name"),
        ("/v1/agents", {"model": MODEL, "tags": [INCOMPRESSIBLE * 35]}, "tags"),
        ("/v1/agents", {"model": MODEL, "metadata": {"k": [[[]]] * 30_001}}, "metadata"),
        ("/v1/blocks", {"label": INCOMPRESSIBLE, "value": "x"}, "label"),
        ("/v1/blocks", {"label": "x", "value": "x", "tags": ["y"] * 5_000}, "tags"),
    ],
)
def test_what_no_row_can_hold_is_a_422_and_the_next_is_served(
    http: httpx.Client, path: str, body: dict[str, Any], field: str
) -> None:
    answer = http.post(path, json=body)

    assert answer.status_code == 422, answer.text
    assert f"'{field}'" in answer.json()["detail"]
    assert "at most" in answer.json()["detail"]
    assert len(answer.content) < 20_000
    good = http.post("/v1/blocks", json={"label": unique("label"), "value": "x"})
    assert good.status_code == 200


@pytest.mark.parametrize("number", [DIGITS, f"-{DIGITS}", "1e400", "NaN", f"{DIGITS}.5"])
def test_a_number_that_nothing_can_hold_is_a_422_wherever_it_stands(
    http: httpx.Client, new_agent: NewAgent, number: str
) -> None:
    agent = new_agent()
    for method, path, body in (
        ("POST", "/v1/agents", '{"model": "m/m", "max_tokens": %s}'),
        ("POST", "/v1/agents", '{"model": "m/m", "metadata": {"k": %s}}'),
        ("PATCH", f"/v1/agents/{agent.id}", '{"unheard_of": [%s]}'),
        ("POST", "/v1/blocks", '{"label": "x", "value": "y", "limit": %s}'),
        ("POST", f"/v1/agents/{agent.id}/messages", '{"input": "x", "max_steps": %s}'),
    ):
        answer = http.request(method, path, content=body % number)
        assert answer.status_code == 422, (path, answer.text)
    for parameter in ("limit", "connected_to_agents_count_gt"):
        assert http.get("/v1/blocks", params={parameter: number}).status_code == 422


@pytest.mark.parametrize("levels", [66, 198, 250])
def test_a_body_of_too_many_levels_is_a_422(
    http: httpx.Client, new_agent: NewAgent, levels: int
) -> None:
    agent = new_agent()
    deep = '{"k":' * levels + "1" + "}" * levels
    answer = http.patch(f"/v1/agents/{agent.id}", content='{"metadata": ' + deep + "}")
    assert answer.status_code == 422
    assert "levels" in answer.text or "too deeply" in answer.text


@pytest.mark.operation("PATCH /v1/blocks/{block_id}")
def test_null_for_a_block_that_must_have_a_value_says_what_to_do(
    letta: Letta, http: httpx.Client
) -> None:
    block = letta.blocks.create(label="x", value="kept")
    for field in ("value", "limit", "label", "tags"):
        answer = http.patch(f"/v1/blocks/{block.id}", json={field: None})
        assert answer.status_code == 422
        assert f"'{field}'" in answer.json()["detail"]
        assert "leave it out" in answer.json()["detail"]
        assert "pydantic" not in answer.text
        assert "BlockState" not in answer.text
    assert letta.blocks.retrieve(block.id).value == "kept"


@pytest.mark.parametrize("count", ["²", "9" * 5_000, "-1", "one", "1.5"])
def test_an_odd_retry_count_is_no_retry(
    http: httpx.Client, new_agent: NewAgent, count: str
) -> None:
    agent = new_agent()
    headers = {"x-stainless-retry-count": count.encode()}
    path = f"/v1/agents/{agent.id}/messages"
    one, two = (http.post(path, json={"input": "hi"}, headers=headers) for _ in range(2))
    assert one.status_code == two.status_code == 200
    assert one.json()["messages"][0]["run_id"] != two.json()["messages"][0]["run_id"]


@pytest.mark.parametrize("last", ["²", "9" * 5_000, "-1"])
def test_an_odd_last_event_id_is_a_422(http: httpx.Client, new_agent: NewAgent, last: str) -> None:
    path = f"/v1/agents/{new_agent().id}/messages/stream"
    answer = http.post(path, json={"input": "hi"}, headers={"last-event-id": last.encode()})
    assert answer.status_code == 422
    assert "Last-Event-ID" in answer.json()["detail"]


@pytest.mark.operation("DELETE /v1/agents/{agent_id}")
async def test_a_message_that_races_the_delete_of_its_agent_is_never_a_500(
    heeler: HeelerInstance, new_agent: NewAgent
) -> None:
    async with httpx.AsyncClient(base_url=heeler.base_url, timeout=30) as client:
        for text in ("hi", "SLOW:50 hi", "SLOW:200 hi"):
            agent = new_agent()
            path = f"/v1/agents/{agent.id}/messages"
            sending = [
                asyncio.create_task(client.post(path, json={"messages": says(f"{text} {number}")}))
                for number in range(6)
            ]
            deleted = await client.delete(f"/v1/agents/{agent.id}")
            assert deleted.status_code == 200
            for answer in await asyncio.gather(*sending):
                assert answer.status_code in (200, 404, 409), answer.text
            assert (await client.post(path, json={"input": "x"})).status_code == 404


def test_a_body_is_not_sent_back_whole(http: httpx.Client) -> None:
    body = {"name": ["x" * 1_000_000] * 5, "tags": [{"k": "y" * 1_000} for _ in range(900)]}
    answer = http.post("/v1/agents", content=json.dumps(body).encode())
    assert answer.status_code == 422
    assert len(answer.content) < 200_000
