"""Projects: agents that belong together."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from letta_client import Letta

from tests.e2e.asking import NOBODY, TIMESTAMP, USER, is_id, unique
from tests.e2e.conftest import NewAgent
from tests.waiting import wait_for


def made(http: httpx.Client, **fields: Any) -> dict[str, Any]:
    """A new project, with a name of its own."""
    answer = http.post("/v1/projects", json={"name": unique("project"), **fields})
    assert answer.status_code == 201, answer.text
    project: dict[str, Any] = answer.json()
    return project


def put(http: httpx.Client, project_id: str, *agent_ids: str) -> None:
    """Add agents to a project."""
    answer = http.post(f"/v1/projects/{project_id}/agents", json={"agent_ids": [*agent_ids]})
    assert answer.status_code == 200, answer.text


def agents_of(http: httpx.Client, project_id: str) -> set[str]:
    """The agents of a project, by both ways to ask for them."""
    listed = http.get(f"/v1/projects/{project_id}/agents").json()
    filtered = http.get("/v1/agents", params={"project_id": project_id}).json()
    counted = http.get("/v1/agents/count", params={"project_id": project_id}).json()
    assert listed == filtered
    assert counted == len(listed)
    return {agent["id"] for agent in listed}


def projects_of(http: httpx.Client, agent_id: str) -> list[str]:
    """The projects of an agent, the newest first."""
    found = http.get(f"/v1/agents/{agent_id}/projects").json()
    return [project["id"] for project in found["projects"]]


@pytest.mark.operation("POST /v1/projects")
def test_every_field_of_a_project_comes_back_and_changes(http: httpx.Client) -> None:
    name = unique("My Project")
    project = made(http, name=name, description="For trips", tags=["travel"], owner_id="ada")

    assert is_id("project", project["id"])
    assert TIMESTAMP.fullmatch(project["created_at"])
    assert {field: project[field] for field in ("description", "tags", "owner_id")} == {
        "description": "For trips",
        "tags": ["travel"],
        "owner_id": "ada",
    }
    assert (project["name"], project["slug"]) == (name, name.lower().replace(" ", "-"))
    assert project["created_by_id"] == project["last_updated_by_id"] == USER
    path = f"/v1/projects/{project['id']}"
    assert http.get(path).json() == project
    changed = http.patch(path, json={"description": None, "tags": ["a", "b"]}).json()
    assert changed.pop("updated_at") > project["updated_at"]
    kept = {name: value for name, value in project.items() if name != "updated_at"}
    assert changed == {**kept, "description": None, "tags": ["a", "b"]}
    renamed = http.patch(path, json={"name": f"{name} 2", "owner_id": "grace"}).json()
    assert (renamed["name"], renamed["owner_id"]) == (f"{name} 2", "grace")
    bare = made(http)
    assert (bare["description"], bare["tags"], bare["owner_id"]) == (None, [], USER)


@pytest.mark.operation("POST /v1/projects")
def test_a_project_that_cannot_be_is_refused(http: httpx.Client) -> None:
    project = made(http)
    path = f"/v1/projects/{project['id']}"
    for wrong, status, said in (
        ({"name": project["name"]}, 409, project["name"]),
        ({"name": ""}, 422, "name"),
        ({}, 422, "name"),
        ({"name": unique("p"), "tags": "a"}, 422, "tags"),
    ):
        answer = http.post("/v1/projects", json=wrong)
        assert answer.status_code == status, answer.text
        assert said in answer.text
    other = made(http)
    assert http.patch(path, json={"name": other["name"]}).status_code == 409
    assert http.patch(path, json={"tags": None}).status_code == 422
    assert http.get(path).json() == project
    http.delete(f"/v1/projects/{other['id']}")
    assert http.patch(path, json={"name": other["name"]}).status_code == 200
    nobody = f"/v1/projects/project-{NOBODY}"
    for method, where, body in (
        ("GET", nobody, None),
        ("PATCH", nobody, {"name": "x"}),
        ("DELETE", nobody, None),
        ("GET", f"{nobody}/agents", None),
        ("POST", f"{nobody}/agents", {"agent_ids": [f"agent-{NOBODY}"]}),
        ("DELETE", f"{nobody}/agents/agent-{NOBODY}", None),
        ("POST", f"{path}/agents", {"agent_ids": [f"agent-{NOBODY}"]}),
        ("DELETE", f"{path}/agents/agent-{NOBODY}", None),
        ("GET", f"/v1/agents/agent-{NOBODY}/projects", None),
    ):
        answer = http.request(method, where, json=body)
        assert answer.status_code == 404, (method, where, answer.text)
        assert NOBODY in answer.json()["detail"]
    assert http.get("/v1/projects/project-1").status_code == 422
    assert http.post(f"{path}/agents", json={"agent_ids": []}).status_code == 422


@pytest.mark.operation("GET /v1/projects")
def test_projects_are_listed_by_name_owner_and_tag_and_paged(http: httpx.Client) -> None:
    owner = unique("owner")
    first = made(http, owner_id=owner, tags=["a"])
    second = made(http, owner_id=owner, tags=["a", "b"])
    third = made(http, owner_id=owner, tags=["c"])

    def found(**query: Any) -> tuple[list[str], bool]:
        answer = http.get("/v1/projects", params={"owner_id": owner, **query})
        assert answer.status_code == 200, answer.text
        body = answer.json()
        return [project["id"] for project in body["projects"]], body["hasNextPage"]

    everyone = [third["id"], second["id"], first["id"]]
    assert found() == (everyone, False)
    assert found(limit=3) == (everyone, False)
    assert found(limit=2) == (everyone[:2], True)
    assert found(limit=2, after=everyone[1]) == (everyone[2:], False)
    assert found(limit=1, before=everyone[2]) == ([everyone[1]], True)
    assert found(limit=2, before=everyone[2]) == (everyone[:2], False)
    assert found(limit=1, offset=1) == ([everyone[1]], True)
    assert found(limit=1, offset=2) == ([everyone[2]], False)
    assert found(order="asc", limit=1) == ([first["id"]], True)
    assert found(tags=["a"]) == ([second["id"], first["id"]], False)
    assert found(tags=["a", "b"], match_all_tags=True) == ([second["id"]], False)
    assert found(name=first["name"][-8:].upper()) == ([first["id"]], False)
    assert found(owner_id=unique("nobody")) == ([], False)


def test_an_agent_is_in_several_projects_and_added_once(
    http: httpx.Client, new_agent: NewAgent
) -> None:
    one, two = made(http), made(http)
    agent, other = new_agent(), new_agent()
    for _ in range(2):
        put(http, one["id"], agent.id, other.id)
    put(http, two["id"], agent.id)

    assert agents_of(http, one["id"]) == {agent.id, other.id}
    assert agents_of(http, two["id"]) == {agent.id}
    assert projects_of(http, agent.id) == [two["id"], one["id"]]
    refused = http.post(
        f"/v1/projects/{two['id']}/agents", json={"agent_ids": [other.id, f"agent-{NOBODY}"]}
    )
    assert refused.status_code == 404
    assert agents_of(http, two["id"]) == {agent.id}
    for _ in range(2):
        answer = http.delete(f"/v1/projects/{one['id']}/agents/{agent.id}")
        assert answer.json()["id"] == one["id"]
    assert agents_of(http, one["id"]) == {other.id}
    assert projects_of(http, agent.id) == [two["id"]]
    http.delete(f"/v1/agents/{other.id}")
    assert agents_of(http, one["id"]) == set()


def test_an_agent_that_names_its_project_is_in_it(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    project = made(http)
    agent, later = new_agent(project_id=project["id"]), new_agent()
    letta.agents.update(later.id, project_id=project["id"])
    put(http, project["id"], agent.id)

    assert agents_of(http, project["id"]) == {agent.id, later.id}
    assert letta.agents.retrieve(agent.id).project_id == project["id"]
    assert projects_of(http, agent.id) == [project["id"]]
    http.delete(f"/v1/projects/{project['id']}/agents/{agent.id}")
    assert agents_of(http, project["id"]) == {later.id}
    assert letta.agents.retrieve(agent.id).project_id is None


@pytest.mark.operation("DELETE /v1/projects/{projectId}")
async def test_a_deleted_project_leaves_its_agents(
    letta: Letta, http: httpx.Client, ahttp: httpx.AsyncClient, new_agent: NewAgent
) -> None:
    project = made(http)
    added, naming = new_agent(), new_agent(project_id=project["id"])
    block = letta.blocks.create(label="human", value="", project_id=project["id"])
    put(http, project["id"], added.id)
    path = f"/v1/projects/{project['id']}"

    assert (await ahttp.delete(path)).json() == {"success": True, "deleted_agents": 0}
    assert (await ahttp.get(path)).status_code == 404
    assert (await ahttp.delete(path)).status_code == 404
    assert projects_of(http, added.id) == []

    def names_nothing() -> bool:
        agent, kept = letta.agents.retrieve(naming.id), letta.blocks.retrieve(block.id)
        return agent.project_id is None and kept.project_id is None

    await wait_for("nothing names the project", names_nothing)
    assert letta.agents.list(project_id=project["id"]).items == []
    assert letta.agents.retrieve(added.id).id == added.id


@pytest.mark.operation("DELETE /v1/projects/{projectId}")
async def test_a_project_is_deleted_with_its_agents_once_its_name_is_repeated(
    http: httpx.Client, ahttp: httpx.AsyncClient, new_agent: NewAgent
) -> None:
    """An agent that is in another project too stays."""
    project, other = made(http), made(http)
    added, naming, shared = new_agent(), new_agent(project_id=project["id"]), new_agent()
    put(http, project["id"], added.id, shared.id)
    put(http, other["id"], shared.id)
    path = f"/v1/projects/{project['id']}"
    for confirmed in ({}, {"confirm_name": "another"}):
        refused = await ahttp.delete(path, params={"cascade": True, **confirmed})
        assert refused.status_code == 422
        assert "`confirm_name`" in refused.json()["detail"]
    assert agents_of(http, project["id"]) == {added.id, naming.id, shared.id}

    answer = await ahttp.delete(path, params={"cascade": True, "confirm_name": project["name"]})
    assert answer.json() == {"success": True, "deleted_agents": 2}

    def are_gone() -> bool:
        statuses = [http.get(f"/v1/agents/{each.id}").status_code for each in (added, naming)]
        return statuses == [404, 404]

    await wait_for("the agents are deleted", are_gone)
    assert (await ahttp.get(f"/v1/agents/{shared.id}")).status_code == 200
    assert projects_of(http, shared.id) == [other["id"]]
    made(http, name=project["name"])
