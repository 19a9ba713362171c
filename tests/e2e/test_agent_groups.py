"""Groups of agents with what V1 lacks: names, members one by one, and a shared state."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from libs.contracts.groups.groups import SHARED_STATE_BYTES_MAX
from tests.e2e.asking import unique
from tests.e2e.conftest import NewAgent

PATH = "/v1/agent-groups"
NOBODY = "agent-00000000-0000-4000-8000-000000000000"
NO_GROUP = f"{PATH}/group-00000000-0000-4000-8000-000000000000"

type NewGroup = Callable[..., dict[str, Any]]


@pytest.fixture
def agents(new_agent: NewAgent) -> list[str]:
    """Three agents without blocks."""
    fields = {"description": "Plans", "extra_body": {"capabilities": [{"name": "travel"}]}}
    return [new_agent(memory_blocks=[], **fields).id for _ in range(3)]


@pytest.fixture
def new_group(http: httpx.Client) -> NewGroup:
    """Makes a group with a name."""

    def make(agent_ids: list[str], **fields: Any) -> dict[str, Any]:
        body = {"name": unique("group"), "agent_ids": agent_ids, **fields}
        answer = http.post(PATH, json=body)
        assert answer.status_code == 200, answer.text
        group: dict[str, Any] = answer.json()
        return group

    return make


def written(http: httpx.Client, group: dict[str, Any], **body: Any) -> dict[str, Any]:
    """The state of a group after a write."""
    answer = http.patch(f"{PATH}/{group['id']}/state", json=body)
    assert answer.status_code == 200, answer.text
    state: dict[str, Any] = answer.json()
    return state


def test_every_field_of_an_agent_group_comes_back_changes_and_goes(
    http: httpx.Client, new_group: NewGroup, agents: list[str]
) -> None:
    name = unique("planners")
    made = new_group(
        agents,
        name=name,
        description="Who plans",
        manager_config={"manager_type": "intelligent"},
        shared_state={"city": "Turin", "days": None},
        shared_state_mode="last_write_wins",
        hops_max=9,
        metadata={"team": "blue", "lead": None},
        project_id="project-1",
        hidden=False,
    )
    ours = {
        "name": name,
        "shared_state": {"city": "Turin", "days": None},
        "shared_state_version": 0,
        "shared_state_mode": "last_write_wins",
        "hops_max": 9,
        "metadata": {"team": "blue", "lead": None},
        "created_at": made["created_at"],
    }
    path = f"{PATH}/{made['id']}"
    v1 = http.get(f"/v1/groups/{made['id']}").json()
    assert made == {**v1, **ours}
    assert not ours.keys() & v1.keys()
    assert v1["manager_type"] == "intelligent"
    assert http.get(path).json() == made
    changes = {
        "name": f"{name}-2",
        "shared_state_mode": "merge",
        "hops_max": 10,
        "metadata": {"team": "green"},
        "hidden": True,
    }
    changed = http.patch(path, json=changes)
    assert changed.status_code == 200, changed.text
    assert changed.json() == {**made, **changes}
    assert http.get(path).json() == changed.json()
    assert http.delete(path).json() == {"message": f"Group id={made['id']} successfully deleted"}
    assert http.get(path).status_code == http.get(f"/v1/groups/{made['id']}").status_code == 404
    assert [http.get(f"/v1/agents/{agent_id}").status_code for agent_id in agents] == [200] * 3


def test_groups_are_found_by_name_and_by_member(
    http: httpx.Client, new_group: NewGroup, agents: list[str]
) -> None:
    name = unique("group")
    first, second = (new_group(agents[:2], name=name) for _ in range(2))
    third = new_group(agents[2:], name=name, hidden=True)

    def found(**params: Any) -> list[str]:
        return [group["id"] for group in http.get(PATH, params=params).json()]

    assert found(name=name) == [second["id"], first["id"]]
    assert found(name=name, order="asc", limit=1) == [first["id"]]
    assert found(name=name, order="asc", after=first["id"]) == [second["id"]]
    assert found(agent_id=agents[2]) == []
    assert found(agent_id=agents[2], show_hidden_groups=True) == [third["id"]]
    assert http.get(f"{PATH}/count", params={"name": name}).json() == 2
    assert found(name=f"{name}-2") == []


def test_members_join_and_leave_one_by_one(
    http: httpx.Client, new_group: NewGroup, agents: list[str]
) -> None:
    block = http.post("/v1/blocks", json={"label": "plan", "value": "Go"}).json()["id"]
    group = new_group(agents[:1], shared_block_ids=[block])
    path = f"{PATH}/{group['id']}/members"
    for _ in range(2):
        joined = http.post(path, json={"agent_id": agents[1]})
        assert joined.status_code == 200, joined.text
        assert joined.json()["agent_ids"] == agents[:2]
    members = http.get(path).json()
    assert [(member["agent_id"], member["position"]) for member in members] == [
        (agents[0], 0),
        (agents[1], 1),
    ]
    known = http.get(f"/v1/agents/{agents[1]}").json()
    assert (members[1]["name"], members[1]["description"]) == (known["name"], "Plans")
    assert members[1]["capabilities"] == ["travel"]
    assert members[0]["joined_at"] < members[1]["joined_at"]

    def seeing() -> list[str]:
        return [agent["id"] for agent in http.get(f"/v1/blocks/{block}/agents?order=asc").json()]

    assert seeing() == agents[:2]
    left = http.delete(f"{path}/{agents[0]}")
    assert left.status_code == 200, left.text
    assert left.json()["agent_ids"] == agents[1:2]
    assert seeing() == agents[1:2]
    assert [member["agent_id"] for member in http.get(path).json()] == agents[1:2]
    again = http.delete(f"{path}/{agents[0]}")
    assert again.status_code == 404
    assert "is not a member" in again.text
    for answer, status, words in (
        (http.post(path, json={"agent_id": NOBODY}), 404, "`agent_id`"),
        (http.post(path, json={"agent_id": group["id"]}), 422, "agent_id"),
        (http.post(path, json={}), 422, "agent_id"),
        (http.post(f"{NO_GROUP}/members", json={"agent_id": agents[0]}), 404, "not found"),
        (http.delete(f"{NO_GROUP}/members/{agents[0]}"), 404, "not found"),
        (http.get(f"{NO_GROUP}/members"), 404, "not found"),
    ):
        assert (answer.status_code, words in answer.text) == (status, True), answer.text
    assert http.get(f"{PATH}/{group['id']}").json()["agent_ids"] == agents[1:2]


def test_a_merge_keeps_what_others_have_written(
    http: httpx.Client, new_group: NewGroup, agents: list[str]
) -> None:
    group = new_group(agents, shared_state={"plan": {"city": "Turin", "days": 3}})
    path = f"{PATH}/{group['id']}/state"
    assert http.get(path).json() == {"state": group["shared_state"], "version": 0}
    state = written(http, group, state={"plan": {"days": 4}, "done": ["tickets"]})
    assert state == {
        "state": {"plan": {"city": "Turin", "days": 4}, "done": ["tickets"]},
        "version": 1,
    }
    state = written(http, group, state={"plan": {"city": None}, "done": []})
    assert state == {"state": {"plan": {"days": 4}, "done": []}, "version": 2}
    assert written(http, group, state={"done": []}) == state, "nothing has changed"
    assert http.get(path).json() == state
    shown = http.get(f"{PATH}/{group['id']}").json()
    assert (shown["shared_state"], shown["shared_state_version"]) == (state["state"], 2)


def test_concurrent_writes_of_different_keys_all_live(
    http: httpx.Client, new_group: NewGroup, agents: list[str]
) -> None:
    group = new_group(agents)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: written(http, group, state={f"k{n}": n}), range(40)))
    state = http.get(f"{PATH}/{group['id']}/state").json()
    assert state == {"state": {f"k{n}": n for n in range(40)}, "version": 40}


def test_the_last_write_replaces_the_whole_state_where_the_group_says_so(
    http: httpx.Client, new_group: NewGroup, agents: list[str]
) -> None:
    group = new_group(agents, shared_state={"a": 1}, shared_state_mode="last_write_wins")
    assert written(http, group, state={"b": None}) == {"state": {"b": None}, "version": 1}
    assert written(http, group, state={}) == {"state": {}, "version": 2}


def test_a_write_for_an_older_version_is_a_conflict(
    http: httpx.Client, new_group: NewGroup, agents: list[str]
) -> None:
    group = new_group(agents)
    path = f"{PATH}/{group['id']}/state"
    assert written(http, group, state={"turn": 1}, version=0)["version"] == 1

    def write(number: int) -> int:
        return http.patch(path, json={"state": {"by": number}, "version": 1}).status_code

    with ThreadPoolExecutor(8) as threads:
        statuses = list(threads.map(write, range(8)))
    assert sorted(statuses) == [200, *[409] * 7]
    refused = http.patch(path, json={"state": {"turn": 2}, "version": 1})
    assert refused.status_code == 409
    assert "`version`" in refused.text
    assert "read it again" in refused.text
    assert http.get(path).json()["state"] == {"turn": 1, "by": statuses.index(200)}


def test_a_state_that_is_too_large_is_refused_and_nothing_changes(
    http: httpx.Client, new_group: NewGroup, agents: list[str]
) -> None:
    group = new_group(agents, shared_state={"a": "x" * 1_000})
    path = f"{PATH}/{group['id']}/state"
    deep: Any = "end"
    for _ in range(31):
        deep = {"in": deep}
    for body, status, words in (
        ({"state": {"b": "x" * (SHARED_STATE_BYTES_MAX - 1_000)}}, 413, "65536 bytes"),
        ({"state": {"deep": {"in": deep}}}, 422, "32 levels"),
        ({"state": []}, 422, "dictionary"),
        ({}, 422, "state"),
        ({"state": {}, "version": -1}, 422, "version"),
    ):
        answer = http.patch(path, json=body)
        assert (answer.status_code, words in answer.text) == (status, True), answer.text
    assert http.get(path).json() == {"state": {"a": "x" * 1_000}, "version": 0}
    large = {"agent_ids": agents, "shared_state": {"a": "x" * SHARED_STATE_BYTES_MAX}}
    before = http.get(f"{PATH}/count").json()
    refused = http.post(PATH, json=large)
    assert (refused.status_code, "shared_state" in refused.text) == (413, True)
    assert http.get(f"{PATH}/count").json() == before
    assert http.get(f"{NO_GROUP}/state").status_code == 404
    assert http.patch(f"{NO_GROUP}/state", json={"state": {}}).status_code == 404


def test_speakers_that_are_picked_by_name_have_different_names(
    http: httpx.Client, new_agent: NewAgent
) -> None:
    name = unique("twin")
    twins = [new_agent(name=name, memory_blocks=[]).id for _ in range(2)]
    body = {"agent_ids": twins, "manager_config": {"manager_type": "intelligent"}}
    refused = http.post(PATH, json=body)
    assert refused.status_code == 422
    assert name in refused.text
    assert http.post(PATH, json={"agent_ids": twins}).status_code == 200
