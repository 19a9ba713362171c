"""Routed messages under kill -9 of the groups service: each is answered, and by one run alone."""

from __future__ import annotations

import httpx
import pytest

from tests.chaos.world import World
from tests.e2e.asking import EMBEDDING, MODEL, SDK_HEADERS, unique

SECONDS_MAX = 60.0
# The last event of a commit names its points: the first commit routes to the first agent.
POINTS = (
    *("before_commit.message.routed", "after_commit.message.routed"),
    *("before_commit.routed_message.completed", "after_commit.routed_message.completed"),
)


@pytest.mark.parametrize("point", POINTS)
async def test_a_message_is_answered_once_wherever_the_process_dies(
    chaos_world: World, point: str
) -> None:
    world, name = chaos_world, unique("paint")
    await world.restored(alone=False)
    fields = {"model": MODEL, "embedding": EMBEDDING, "capabilities": [name]}
    async with httpx.AsyncClient(
        base_url=world.heeler.base_url, headers=SDK_HEADERS, timeout=SECONDS_MAX
    ) as client:
        agents = [(await client.post("/v1/agents", json=fields)).json()["id"] for _ in range(2)]
        world.arm(point)
        said = {"input": f"SAY:{name}"}
        answer = await client.post(f"/v1/capabilities/{name}/messages", json=said)
        assert answer.status_code == 200, answer.text
        assert world.fired(point), "the process died there"
        runs = [
            run
            for agent in agents
            for run in (await client.get(f"/v1/runs?agent_id={agent}")).json()
        ]
        assert [run["id"] for run in runs] == [answer.json()["routed_to"]["run_id"]]
        routed_id = answer.json()["routed_to"]["routed_message_id"]
        log = (await client.get(f"/v1/routing/messages/{routed_id}")).json()
    assert [each["status"] for each in log["deliveries"]] == ["delivered"]
    assert await world.model.answered(f"SAY:{name}") == {0: 1}, "the model was asked once"
