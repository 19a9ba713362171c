"""A list goes on after a row that was deleted meanwhile, and labels may have any letters."""

from __future__ import annotations

from urllib.parse import quote

import httpx
import pytest
from letta_client import Letta

from tests.e2e.asking import MODEL, NOBODY, says, unique
from tests.e2e.conftest import NewAgent


def small_agents(letta: Letta, count: int) -> tuple[str, list[str]]:
    """The tag of so many new agents, and their ids, the oldest first."""
    tag = unique("cursor")
    made = [
        letta.agents.create(name=f"{tag}-{n}", model=MODEL, tags=[tag], include_base_tools=False)
        for n in range(count)
    ]
    return tag, [agent.id for agent in made]


@pytest.mark.operation("GET /v1/agents/")
@pytest.mark.parametrize("order_by", ["created_at", "updated_at"])
@pytest.mark.parametrize("order", ["asc", "desc"])
def test_agents_are_deleted_while_they_are_listed(letta: Letta, order_by: str, order: str) -> None:
    tag, made = small_agents(letta, 7)
    gone = []
    for agent in letta.agents.list(tags=[tag], limit=2, order_by=order_by, order=order):  # type: ignore[arg-type]
        letta.agents.delete(agent.id)
        gone.append(agent.id)
    assert gone == (made if order == "asc" else made[::-1])
    assert letta.agents.list(tags=[tag]).items == []


@pytest.mark.operation("GET /v1/agents/")
def test_a_page_begins_or_ends_at_a_deleted_agent(letta: Letta, http: httpx.Client) -> None:
    tag, made = small_agents(letta, 5)
    letta.agents.delete(made[2])

    def ids(**query: str) -> list[str]:
        answer = http.get("/v1/agents/", params={"tags": tag, **query})
        assert answer.status_code == 200, answer.text
        return [agent["id"] for agent in answer.json()]

    assert ids(after=made[2]) == [made[1], made[0]]
    assert ids(before=made[2]) == [made[4], made[3]]
    assert ids(after=made[2], order="asc") == [made[3], made[4]]
    assert ids(after=made[2], order_by="last_run_completion") == []
    stranger = http.get("/v1/agents/", params={"after": f"agent-{NOBODY}"})
    assert stranger.status_code == 400


@pytest.mark.operation("GET /v1/blocks/")
def test_blocks_are_deleted_while_they_are_listed(letta: Letta, http: httpx.Client) -> None:
    label = unique("cursor")
    made = [letta.blocks.create(label=label, value=f"{n}").id for n in range(5)]
    gone = []
    for block in letta.blocks.list(label=label, limit=2):
        letta.blocks.delete(block.id)
        gone.append(block.id)
    assert gone == made[::-1]
    stranger = http.get("/v1/blocks/", params={"after": f"block-{NOBODY}"})
    assert stranger.status_code == 400


@pytest.mark.operation("GET /v1/runs/")
def test_runs_go_while_they_are_listed(letta: Letta, http: httpx.Client) -> None:
    _, made = small_agents(letta, 3)
    for agent_id in made:
        letta.agents.messages.create(agent_id, messages=says("hi"))
    query = {"agent_ids": made, "limit": 1}
    (last,) = http.get("/v1/runs/", params=query).json()
    assert last["agent_id"] == made[2]
    letta.agents.delete(made[2])
    (next_one,) = http.get("/v1/runs/", params={**query, "after": last["id"]}).json()
    assert next_one["agent_id"] == made[1]
    by_duration = http.get(
        "/v1/runs/", params={**query, "after": last["id"], "order_by": "duration"}
    )
    assert by_duration.json() == []
    stranger = http.get("/v1/runs/", params={"after": f"run-{NOBODY}"})
    assert stranger.status_code == 400
    for agent_id in made[:2]:
        letta.agents.delete(agent_id)


@pytest.mark.operation("GET /v1/agents/{agent_id}/core-memory/blocks/{block_label}")
@pytest.mark.operation("PATCH /v1/agents/{agent_id}/core-memory/blocks/{block_label}")
@pytest.mark.parametrize(
    "label", ["notes/2026", "/", "a//b/", "attach/x", "%2F", "50% ä", "back\\slash"]
)
def test_a_block_is_found_by_any_label(
    letta: Letta, http: httpx.Client, new_agent: NewAgent, label: str
) -> None:
    agent = new_agent(memory_blocks=[{"label": label, "value": "tea"}])
    block = letta.agents.blocks.retrieve(label, agent_id=agent.id)
    assert (block.label, block.value) == (label, "tea")
    letta.agents.blocks.update(label, agent_id=agent.id, value="coffee")
    for name in ("blocks", "core-memory/blocks"):
        path = f"/v1/agents/{agent.id}/{name}/{quote(label, safe='')}"
        for slash in ("", "/"):
            answer = http.get(path + slash)
            assert answer.status_code == 200, (path + slash, answer.text)
            assert answer.json()["value"] == "coffee"
