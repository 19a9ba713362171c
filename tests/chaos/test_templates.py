"""Agents of a template under kill -9 of the api: all of a request are there once, or none is."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.chaos.world import World
from tests.e2e.asking import EMBEDDING, MODEL, SDK_HEADERS, unique
from tests.waiting import wait_for

SECONDS_MAX = 60.0
DYING = (
    "after_commit.deployment.started",
    "after_deployed_agent",
    "after_deployment",
    "before_commit.deployment.completed",
)
DYING_AS_REFUSED = ("after_commit.deployment.refused", "before_commit.deployment.undone")
NO_MODEL = "nobody/knows-it"


async def team(client: httpx.AsyncClient, second_model: str) -> str:
    """The name of a template of two agents that share a block."""
    fields = {
        "model": MODEL,
        "embedding": EMBEDDING,
        "memory_blocks": [{"label": "human", "value": "Called {{name}}"}],
    }
    agent = (await client.post("/v1/agents", json=fields)).json()
    body = {"type": "agent", "agent_id": agent["id"], "name": unique("team")}
    name = str((await client.post("/v1/templates", json=body)).json()["name"])
    path = f"/v1/templates/default/{name}:current/snapshot"
    content: dict[str, Any] = (await client.get(path)).json()
    [first], [block] = content["agents"], content["blocks"]
    second = {**first, "entityId": "second", "model": second_model}
    content |= {"type": "cluster", "agents": [first, second]}
    content["relationships"].append({"agentEntityId": "second", "blockEntityId": block["entityId"]})
    assert (await client.put(path, json=content)).status_code == 200
    return name


async def asked_until_answered(
    client: httpx.AsyncClient, template: str, tag: str
) -> httpx.Response:
    """The answer to a request for agents, which is repeated while nobody answers."""

    async def answer() -> httpx.Response | None:
        try:
            return await client.post(
                f"/v1/templates/{template}:current/agents",
                json={"memory_variables": {"name": tag}, "tags": [tag]},
                headers={"idempotency-key": tag},
            )
        except httpx.TransportError:
            return None

    answered = await wait_for("an answer", answer, SECONDS_MAX)
    assert answered is not None
    return answered


async def there(client: httpx.AsyncClient, tag: str) -> tuple[list[str], int]:
    """The ids of the agents that were made, and how many blocks."""
    agents = (await client.get("/v1/agents", params={"tags": tag})).json()
    blocks = (await client.get("/v1/blocks", params={"value_search": tag})).json()
    return sorted(agent["id"] for agent in agents), len(blocks)


@pytest.mark.parametrize("point", DYING)
async def test_all_agents_are_made_once_wherever_the_process_dies(
    chaos_world: World, point: str
) -> None:
    world, tag = chaos_world, unique("tag")
    await world.restored(alone=False)
    async with httpx.AsyncClient(
        base_url=world.heeler.base_url, headers=SDK_HEADERS, timeout=SECONDS_MAX
    ) as client:
        template = await team(client, MODEL)
        world.arm(point)
        answer = await asked_until_answered(client, template, tag)
        assert answer.status_code == 201, answer.text
        assert world.fired(point), "the process died there"
        assert await there(client, tag) == (sorted(answer.json()["agent_ids"]), 1)


@pytest.mark.parametrize("point", DYING_AS_REFUSED)
async def test_nothing_is_left_of_what_was_refused_wherever_the_process_dies(
    chaos_world: World, point: str
) -> None:
    world, tag = chaos_world, unique("tag")
    await world.restored(alone=False)
    async with httpx.AsyncClient(
        base_url=world.heeler.base_url, headers=SDK_HEADERS, timeout=SECONDS_MAX
    ) as client:
        template = await team(client, NO_MODEL)
        world.arm(point)
        answer = await asked_until_answered(client, template, tag)
        assert 400 <= answer.status_code < 500, answer.text
        assert NO_MODEL in answer.text
        assert world.fired(point), "the process died there"
        assert await there(client, tag) == ([], 0)
