"""What becomes of an agent's identities and projects when it is forked, exported and imported."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.e2e.asking import unique
from tests.e2e.conftest import NewAgent


@pytest.fixture
def agent_with_both(http: httpx.Client, new_agent: NewAgent) -> tuple[str, str, str]:
    """An agent with an identity and in a project; the ids of the three."""
    agent_id = new_agent().id
    body = {
        "identifier_key": unique("key"),
        "name": "Ada",
        "identity_type": "user",
        "properties": [{"key": "age", "value": 36.5, "type": "number"}],
        "agent_ids": [agent_id],
    }
    identity = http.post("/v1/identities", json=body).json()
    wanted = {"name": unique("project"), "description": "d", "tags": ["a"]}
    project = http.post("/v1/projects", json=wanted).json()
    added = http.post(f"/v1/projects/{project['id']}/agents", json={"agent_ids": [agent_id]})
    assert added.status_code == 200, added.text
    return agent_id, identity["id"], project["id"]


def owners_of(http: httpx.Client, agent_id: str) -> tuple[list[dict[str, Any]], list[Any]]:
    """The identities and the projects of an agent."""
    query = {"include": ["agent.identities"]}
    agent = http.get(f"/v1/agents/{agent_id}", params=query)
    assert agent.status_code == 200, agent.text
    projects = http.get(f"/v1/agents/{agent_id}/projects").json()["projects"]
    return agent.json()["identities"], projects


def imported(http: httpx.Client, file: bytes, **fields: str) -> str:
    """The id of the agent that is made from a file."""
    answer = http.post("/v1/agents/import", files={"file": ("a.heeler.gz", file)}, data=fields)
    assert answer.status_code == 200, answer.text
    [agent_id] = answer.json()["agent_ids"]
    return str(agent_id)


def test_a_fork_has_the_identities_and_projects_of_its_origin(
    http: httpx.Client, agent_with_both: tuple[str, str, str]
) -> None:
    agent_id, identity_id, project_id = agent_with_both
    fork = http.post(f"/v1/agents/{agent_id}/fork", json={"name": unique("fork")})
    assert fork.status_code == 200, fork.text

    identities, projects = owners_of(http, fork.json()["id"])
    assert [identity["id"] for identity in identities] == [identity_id]
    assert [project["id"] for project in projects] == [project_id]
    assert owners_of(http, agent_id) == (identities, projects)


def test_an_imported_agent_has_the_identities_that_are_here_or_new_ones(
    http: httpx.Client, agent_with_both: tuple[str, str, str]
) -> None:
    agent_id, identity_id, project_id = agent_with_both
    before = owners_of(http, agent_id)
    file = http.get(f"/v1/agents/{agent_id}/export", params={"format": "heeler"}).content
    http.delete(f"/v1/agents/{agent_id}")
    changed = http.patch(f"/v1/identities/{identity_id}", json={"name": "Grace"})
    assert changed.status_code == 200

    here = imported(http, file, conflicts="replace")
    [identity], projects = owners_of(http, here)
    assert (identity["id"], identity["name"]) == (identity_id, "Grace")
    assert projects == before[1]
    assert http.delete(f"/v1/agents/{here}").status_code == 200
    assert http.delete(f"/v1/identities/{identity_id}").status_code == 200
    assert http.delete(f"/v1/projects/{project_id}").status_code == 200

    anew = imported(http, file, conflicts="replace")
    [identity], [project] = owners_of(http, anew)
    [[old_identity], [old_project]] = before
    assert identity["id"] != identity_id
    same = ("identifier_key", "name", "identity_type", "properties")
    assert [identity[name] for name in same] == [old_identity[name] for name in same]
    same = ("name", "description", "tags", "owner_id")
    assert [project[name] for name in same] == [old_project[name] for name in same]
    found = http.get("/v1/identities", params={"identifier_key": identity["identifier_key"]})
    assert len(found.json()) == 1
