"""Identities: who or what outside agents and blocks are about."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx
import pytest
from letta_client import Letta, NotFoundError

from tests.e2e.asking import MODEL, NOBODY, is_id, unique
from tests.e2e.conftest import NewAgent

RECORDED = Path(__file__).parents[1] / "recorded/letta-0.16.8/expected/identities.json"
LANGUAGE = {"key": "language", "value": "de", "type": "string"}
AGE = {"key": "age", "value": 36.5, "type": "number"}
PETS = {"key": "pets", "value": {"cat": 1}, "type": "json"}


def made(http: httpx.Client, **fields: Any) -> dict[str, Any]:
    """A new identity, with a key of its own."""
    wanted = {"identifier_key": unique("key"), "name": "Ada", "identity_type": "user", **fields}
    answer = http.post("/v1/identities/", json=wanted)
    assert answer.status_code == 200, answer.text
    identity: dict[str, Any] = answer.json()
    return identity


def ids(things: Iterable[dict[str, Any]]) -> list[str]:
    return [thing["id"] for thing in things]


def attached(http: httpx.Client, identity_id: str) -> tuple[list[str], list[str]]:
    """The agents and the blocks of an identity, in the order in which they were attached."""
    query = {"include": ["identity.agents", "identity.blocks"]}
    found = http.get(f"/v1/identities/{identity_id}", params=query).json()
    return found["agent_ids"], found["block_ids"]


@pytest.mark.operation("POST /v1/identities/")
@pytest.mark.operation("GET /v1/identities/{identity_id}")
def test_every_field_of_an_identity_comes_back(http: httpx.Client) -> None:
    key = unique("key")
    identity = made(http, identifier_key=key, project_id="p-1", properties=[LANGUAGE, AGE, PETS])

    for recorded in json.loads(RECORDED.read_text()):
        assert [*identity] == [*recorded], "the fields of the genuine server, in its order"
    assert is_id("identity", identity.pop("id"))
    assert identity == {
        "identifier_key": key,
        "name": "Ada",
        "identity_type": "user",
        "project_id": "p-1",
        "agent_ids": [],
        "block_ids": [],
        "organization_id": "org-00000000-0000-4000-8000-000000000000",
        "properties": [LANGUAGE, AGE, PETS],
    }
    again = made(http, identifier_key=key)
    assert (again["project_id"], again["properties"]) == (None, [])
    assert http.get(f"/v1/identities/{again['id']}").json() == again


@pytest.mark.operation("POST /v1/identities/")
def test_a_key_is_one_identitys_in_its_project(http: httpx.Client) -> None:
    key = unique("key")
    first = made(http, identifier_key=key)
    made(http, identifier_key=key, project_id="p-1")
    body = {"identifier_key": key, "name": "Grace", "identity_type": "other"}
    for project, said in ((None, "already exists"), ("p-1", "already exists for project p-1")):
        answer = http.post("/v1/identities", json={**body, "project_id": project})
        assert answer.status_code == 409, answer.text
        assert answer.json()["detail"].endswith(said)

    moved = http.patch(f"/v1/identities/{first['id']}", json={"identifier_key": f"{key}-2"})
    assert moved.json()["identifier_key"] == f"{key}-2"
    second = made(http, identifier_key=key)
    clash = http.patch(f"/v1/identities/{second['id']}", json={"identifier_key": f"{key}-2"})
    assert clash.status_code == 409
    http.delete(f"/v1/identities/{first['id']}")
    taken = http.patch(f"/v1/identities/{second['id']}", json={"identifier_key": f"{key}-2"})
    assert taken.status_code == 200


@pytest.mark.operation("POST /v1/identities/")
@pytest.mark.operation("PATCH /v1/identities/{identity_id}")
def test_what_cannot_be_is_refused_and_changes_nothing(http: httpx.Client) -> None:
    key = unique("key")
    good = {"identifier_key": key, "name": "Ada", "identity_type": "user"}
    for wrong, status, said in (
        ({"identity_type": "robot"}, 422, "identity_type"),
        ({"identifier_key": ""}, 422, "identifier_key"),
        ({"name": None}, 422, "name"),
        ({"agent_ids": ["nobody"]}, 422, "agent_ids"),
        ({"properties": [{"key": "a", "value": "b", "type": "text"}]}, 422, "type"),
        ({"agent_ids": [f"agent-{NOBODY}"]}, 404, f"agent-{NOBODY}"),
        ({"block_ids": [f"block-{NOBODY}"]}, 404, f"block-{NOBODY}"),
    ):
        answer = http.post("/v1/identities", json={**good, **wrong})
        assert answer.status_code == status, (wrong, answer.text)
        assert said in answer.text
    assert http.get("/v1/identities", params={"identifier_key": key}).json() == []

    identity = made(http, **good)
    path = f"/v1/identities/{identity['id']}"
    wrong_change = {"name": "Half", "agent_ids": [f"agent-{NOBODY}"]}
    assert http.patch(path, json=wrong_change).status_code == 404
    assert http.get(path).json() == identity
    assert http.get("/v1/identities/identity-1").status_code == 422
    for method, suffix in (("GET", ""), ("DELETE", ""), ("GET", "/agents"), ("GET", "/blocks")):
        gone = http.request(method, f"/v1/identities/identity-{NOBODY}{suffix}")
        assert gone.status_code == 404
        assert f"identity-{NOBODY}" in gone.json()["detail"]


@pytest.mark.operation("GET /v1/identities/")
@pytest.mark.operation("GET /v1/identities/count")
def test_identities_are_listed_filtered_paged_and_counted(http: httpx.Client) -> None:
    project, word = unique("project"), unique("Word")
    first = made(http, project_id=project, name=f"First {word}")
    second = made(http, project_id=project, name="Second", identity_type="org")
    third = made(http, project_id=project, name="Third")

    def found(**query: Any) -> list[str]:
        answer = http.get("/v1/identities/", params={"project_id": project, **query})
        assert answer.status_code == 200, answer.text
        return ids(answer.json())

    everyone = [third["id"], second["id"], first["id"]]
    assert found() == everyone
    assert found(order="asc") == everyone[::-1]
    assert found(limit=2) == everyone[:2]
    assert found(limit=2, after=second["id"]) == everyone[2:]
    assert found(before=second["id"]) == everyone[:1]
    assert found(name=word.lower()) == [first["id"]]
    assert found(identity_type="org") == [second["id"]]
    assert found(identifier_key=third["identifier_key"]) == [third["id"]]
    count = http.get("/v1/identities/count").json()
    http.delete(f"/v1/identities/{second['id']}")
    assert found(after=second["id"]) == everyone[2:]
    assert http.get("/v1/identities/count").json() == count - 1


@pytest.mark.operation("PATCH /v1/identities/{identity_id}")
@pytest.mark.operation("PUT /v1/identities/{identity_id}/properties")
def test_a_change_adds_properties_and_a_put_replaces_them(http: httpx.Client) -> None:
    identity = made(http, properties=[LANGUAGE])
    path = f"/v1/identities/{identity['id']}"
    french = {**LANGUAGE, "value": "fr"}

    changed = http.patch(path, json={"name": "Grace", "properties": [AGE, french]}).json()
    assert changed == {**identity, "name": "Grace", "properties": [french, AGE]}
    assert http.patch(path, json={"identity_type": "org"}).json() == {
        **changed,
        "identity_type": "org",
    }
    assert http.put(f"{path}/properties", json=[PETS]).json()["properties"] == [PETS]
    assert http.get(path).json()["properties"] == [PETS]
    wrong = http.put(f"{path}/properties", json=[{"key": "a"}])
    assert wrong.status_code == 422


@pytest.mark.operation("PUT /v1/identities/")
def test_an_upsert_creates_once_and_then_changes(http: httpx.Client, new_agent: NewAgent) -> None:
    agent, other = new_agent(), new_agent()
    key = unique("key")
    body = {"identifier_key": key, "name": "Ada", "identity_type": "user"}

    first = http.put("/v1/identities/", json={**body, "agent_ids": [agent.id]}).json()
    assert attached(http, first["id"]) == ([agent.id], [])
    same = http.put("/v1/identities", json={**body, "name": "Ada L.", "properties": [AGE]}).json()
    assert same == {**first, "name": "Ada L.", "properties": [AGE]}
    assert attached(http, first["id"]) == ([agent.id], [])
    http.put("/v1/identities", json={**body, "agent_ids": [other.id]})
    assert attached(http, first["id"]) == ([other.id], [])
    elsewhere = http.put("/v1/identities", json={**body, "project_id": "p-1"}).json()
    assert elsewhere["id"] != first["id"]


@pytest.mark.operation("PATCH /v1/agents/{agent_id}/identities/attach/{identity_id}")
@pytest.mark.operation("PATCH /v1/agents/{agent_id}/identities/detach/{identity_id}")
@pytest.mark.operation("GET /v1/identities/{identity_id}/agents")
def test_an_identity_is_attached_to_agents_and_detached(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    """Twice is once, and the agent shows it where it is asked for."""
    identity, agent = made(http, properties=[LANGUAGE]), new_agent()
    for _ in range(2):
        assert letta.agents.identities.attach(identity["id"], agent_id=agent.id) is None

    shown = letta.agents.retrieve(agent.id, include=["agent.identities"])
    assert shown.identities
    assert [found.to_dict() for found in shown.identities] == [identity]
    assert shown.identity_ids == [identity["id"]]
    bare = letta.agents.retrieve(agent.id)
    assert (bare.identities, bare.identity_ids) == ([], [])
    agents = http.get(f"/v1/identities/{identity['id']}/agents").json()
    assert ids(agents) == [agent.id]

    for _ in range(2):
        assert letta.agents.identities.detach(identity["id"], agent_id=agent.id) is None
    assert letta.agents.retrieve(agent.id, include=["agent.identities"]).identities == []
    assert http.get(f"/v1/identities/{identity['id']}/agents").json() == []
    for nobody in (
        {"identity_id": f"identity-{NOBODY}", "agent_id": agent.id},
        {"identity_id": identity["id"], "agent_id": f"agent-{NOBODY}"},
    ):
        with pytest.raises(NotFoundError):
            letta.agents.identities.attach(**nobody)
        with pytest.raises(NotFoundError):
            letta.agents.identities.detach(**nobody)


@pytest.mark.operation("PATCH /v1/blocks/{block_id}/identities/attach/{identity_id}")
@pytest.mark.operation("PATCH /v1/blocks/{block_id}/identities/detach/{identity_id}")
@pytest.mark.operation("GET /v1/identities/{identity_id}/blocks")
@pytest.mark.operation("GET /v1/blocks/")
def test_an_identity_is_attached_to_blocks_and_detached(letta: Letta, http: httpx.Client) -> None:
    block, other = (letta.blocks.create(label="human", value="Ada") for _ in range(2))
    identity = made(http, block_ids=[other.id])
    path = f"/v1/blocks/{block.id}/identities"

    answer = http.patch(f"{path}/attach/{identity['id']}")
    assert answer.json() == http.get(f"/v1/blocks/{block.id}").json()
    assert attached(http, identity["id"]) == ([], [other.id, block.id])
    found = letta.blocks.list(identity_id=identity["id"], order="asc").items
    assert [each.id for each in found] == [block.id, other.id]
    found = letta.blocks.list(identifier_keys=[identity["identifier_key"], "nobody's"]).items
    assert {each.id for each in found} == {block.id, other.id}
    assert http.patch(f"{path}/detach/{identity['id']}").status_code == 200
    listed = http.get(f"/v1/identities/{identity['id']}/blocks").json()
    assert ids(listed) == [other.id]
    letta.blocks.delete(other.id)
    assert attached(http, identity["id"]) == ([], [])
    assert http.get(f"/v1/identities/{identity['id']}/blocks").json() == []


@pytest.mark.operation("POST /v1/agents/")
@pytest.mark.operation("PATCH /v1/agents/{agent_id}")
@pytest.mark.operation("GET /v1/agents/")
@pytest.mark.operation("GET /v1/agents/count")
def test_agents_are_made_with_identities_changed_and_found_by_them(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    ada, grace = made(http), made(http, name="Grace")
    agent = new_agent(identity_ids=[ada["id"]])
    assert agent.identity_ids == [ada["id"]]

    def found(**filters: Any) -> list[str]:
        return [each.id for each in letta.agents.list(**filters).items]

    assert found(identity_id=ada["id"]) == [agent.id]
    assert found(identifier_keys=[ada["identifier_key"], "nobody's"]) == [agent.id]
    assert found(identity_id=grace["id"]) == []
    count = http.get("/v1/agents/count", params={"identity_id": ada["id"]})
    assert count.json() == 1
    both = letta.agents.update(agent.id, identity_ids=[grace["id"], ada["id"]])
    assert set(both.identity_ids or []) == {ada["id"], grace["id"]}
    assert letta.agents.update(agent.id, description="x").identity_ids == both.identity_ids
    one = letta.agents.update(agent.id, identity_ids=[grace["id"]])
    assert one.identity_ids == [grace["id"]]
    assert letta.agents.update(agent.id, identity_ids=[]).identity_ids == []
    name = unique("refused")
    with pytest.raises(NotFoundError, match=NOBODY):
        letta.agents.create(name=name, model=MODEL, identity_ids=[f"identity-{NOBODY}"])
    assert found(name=name) == []


@pytest.mark.operation("DELETE /v1/identities/{identity_id}")
def test_a_deleted_identity_is_gone_from_everything_that_had_it(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    identity = made(http, agent_ids=[agent.id])
    path = f"/v1/identities/{identity['id']}"
    assert attached(http, identity["id"]) == ([agent.id], [])

    assert http.delete(path).json() is None
    for method in ("GET", "DELETE", "PATCH"):
        gone = http.request(method, path, json={} if method == "PATCH" else None)
        assert gone.status_code == 404, method
    assert letta.agents.retrieve(agent.id, include=["agent.identities"]).identities == []
    assert letta.agents.list(identity_id=identity["id"]).items == []
    keys = [identity["identifier_key"]]
    assert letta.agents.list(identifier_keys=keys).items == []
    again = made(http, identifier_key=identity["identifier_key"])
    assert attached(http, again["id"]) == ([], [])


def test_a_deleted_agent_has_no_identity(http: httpx.Client, new_agent: NewAgent) -> None:
    agent = new_agent()
    identity = made(http, agent_ids=[agent.id])
    http.delete(f"/v1/agents/{agent.id}")

    assert attached(http, identity["id"]) == ([], [])
    assert http.get(f"/v1/identities/{identity['id']}/agents").json() == []
