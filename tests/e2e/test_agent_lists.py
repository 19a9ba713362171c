"""Finding agents: filters, cursors, pages, counts; with a slash at the end and without."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from letta_client import Letta

from tests.e2e.asking import MODEL, NOBODY, says, unique
from tests.e2e.conftest import NewAgent

MANY = 120


@pytest.mark.operation("GET /v1/agents/")
def test_agents_are_found_by_name_tags_text_and_project(letta: Letta, new_agent: NewAgent) -> None:
    tag, other, project = unique("tag"), unique("other"), unique("project")
    first = new_agent(tags=[tag], description=f"knows {project}%_x")
    both = new_agent(tags=[tag, other], project_id=project)
    last = new_agent(tags=[other], project_id=project)

    def found(**filters: Any) -> list[str]:
        return [agent.id for agent in letta.agents.list(**filters).items]

    assert found(name=first.name) == [first.id]
    assert found(name=first.name[:-1]) == []
    assert found(tags=[tag]) == [both.id, first.id]
    assert found(tags=[tag, other]) == [last.id, both.id, first.id]
    assert found(tags=[tag, other], match_all_tags=True) == [both.id]
    assert found(tags=[tag], name=both.name) == [both.id]
    assert found(tags=[tag], order="asc") == [first.id, both.id]
    assert found(project_id=project) == [last.id, both.id]
    assert found(query_text=both.name.upper()) == [both.id]
    assert found(query_text=f"{project}%_x") == [first.id]
    assert found(query_text=f"{project}__x") == []
    assert found(tags=[tag], created_by_id=f"user-{NOBODY}") == [both.id, first.id]
    assert found(tags=[tag], created_by_id="nobody") == []
    assert found(tags=[tag], identity_id=f"identity-{NOBODY}") == []
    assert found(tags=[unique("unknown")]) == []
    letta.agents.messages.create(first.id, messages=says("hi"))
    assert found(tags=[tag], last_stop_reason="end_turn") == [first.id]


@pytest.mark.operation("GET /v1/agents/")
def test_a_list_shows_relationships_only_if_asked(
    letta: Letta, http: httpx.Client, legacy: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent(tags=[unique("tag")])
    query = {"name": agent.name}

    bare = letta.agents.list(name=agent.name).items[0]
    assert (bare.blocks, bare.tools, bare.tags) == ([], [], [])
    asked = letta.agents.list(
        name=agent.name, include=["agent.blocks", "agent.tools", "agent.tags"]
    ).items[0]
    assert asked.to_dict() == agent.to_dict()
    (old,) = legacy.get("/v1/agents/", params=query).json()
    assert [block["label"] for block in old["blocks"]] == ["human", "persona"]
    assert old["tags"] == agent.tags
    (part,) = http.get("/v1/agents/", params={**query, "include_relationships": "tags"}).json()
    assert (part["tags"], part["blocks"], part["tools"]) == (agent.tags, [], [])


@pytest.mark.operation("GET /v1/agents/")
@pytest.mark.operation("GET /v1/agents/count")
def test_pages_of_many_agents_neither_overlap_nor_end_early(
    letta: Letta, http: httpx.Client
) -> None:
    tag = unique("many")
    made = [
        letta.agents.create(name=f"{tag}-{n}", model=MODEL, tags=[tag], include_base_tools=False).id
        for n in range(MANY)
    ]

    def ids(**query: Any) -> list[str]:
        answer = http.get("/v1/agents/", params={"tags": tag, **query})
        return [agent["id"] for agent in answer.json()]

    newest_first = made[::-1]
    assert [agent.id for agent in letta.agents.list(tags=[tag], limit=50)] == newest_first
    assert [agent.id for agent in letta.agents.list(tags=[tag], limit=7, order="asc")] == made
    assert ids() == newest_first[:50]
    assert ids(limit=1000) == newest_first
    assert ids(limit=0) == []
    assert ids(limit=3, after=newest_first[9]) == newest_first[10:13]
    assert ids(limit=3, before=newest_first[10]) == newest_first[7:10]
    assert ids(limit=3, after=made[9], order="asc") == made[10:13]
    assert ids(limit=3, before=made[10], order="asc") == made[7:10]
    assert ids(after=newest_first[9], before=newest_first[12]) == newest_first[10:12]
    assert ids(after=newest_first[-1]) == []
    backwards = [agent.id for agent in letta.agents.list(tags=[tag], limit=7, before=made[0])]
    assert len(backwards) == len(set(backwards)) == MANY - 1
    counted = http.get("/v1/agents/count", params={"tags": tag})
    assert counted.json() == MANY
    assert http.get("/v1/agents/count").json() >= MANY


@pytest.mark.operation("GET /v1/agents/")
def test_agents_come_in_the_order_that_is_asked_for(letta: Letta, new_agent: NewAgent) -> None:
    tag = unique("order")
    first, second, third = (new_agent(tags=[tag]).id for _ in range(3))
    for agent_id in (third, first):
        letta.agents.messages.create(agent_id, messages=says("hi"))
    letta.agents.update(second, description="changed last")

    def found(**query: Any) -> list[str]:
        return [agent.id for agent in letta.agents.list(tags=[tag], limit=2, **query)]

    assert found(order_by="created_at") == [third, second, first]
    assert found(order_by="updated_at") == [second, third, first]
    assert found(order_by="updated_at", order="asc") == [first, third, second]
    assert found(order_by="last_run_completion") == [first, third, second]


@pytest.mark.operation("GET /v1/agents/")
def test_a_page_that_makes_no_sense_is_refused(http: httpx.Client) -> None:
    cursor = f"agent-{NOBODY}"
    for query, status, said in (
        ({"after": cursor}, 400, f"The cursor `after` names nothing in this list: {cursor}"),
        ({"before": cursor}, 400, f"The cursor `before` names nothing in this list: {cursor}"),
        ({"limit": "abc"}, 422, "'loc': ('query', 'limit')"),
        ({"limit": -1}, 422, "'loc': ('query', 'limit')"),
        ({"limit": 1001}, 422, "'loc': ('query', 'limit')"),
        ({"order": "sideways"}, 422, "'loc': ('query', 'order')"),
        ({"include": "agent.nope"}, 422, "include"),
    ):
        answer = http.get("/v1/agents/", params=query)
        assert answer.status_code == status, (query, answer.text)
        assert said in answer.json()["detail"]


@pytest.mark.operation("GET /v1/agents/count")
def test_every_path_is_served_with_and_without_its_slash(
    http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    for path in (
        f"/v1/agents/{agent.id}",
        f"/v1/agents/{agent.id}/messages",
        f"/v1/agents/{agent.id}/tools",
        "/v1/agents/count",
        "/v1/models",
        "/v1/health",
    ):
        bare, slashed = http.get(path), http.get(f"{path}/")
        assert bare.status_code == slashed.status_code == 200, path
        assert bare.content == slashed.content
    named = {"name": agent.name}
    assert http.get("/v1/agents", params=named).json() == (
        http.get("/v1/agents/", params=named).json()
    )
    for path in ("/v1/agents", "/v1/agents/"):
        made = http.post(path, json={"model": MODEL})
        assert made.status_code == 200
        assert made.json()["model"] == MODEL
