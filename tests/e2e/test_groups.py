"""Groups of agents as V1 has them: made, read, changed, listed, deleted; and what they share."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.e2e.asking import unique
from tests.e2e.conftest import NewAgent
from tests.waiting import wait_for

NOBODY = "agent-00000000-0000-4000-8000-000000000000"
NO_BLOCK = "block-00000000-0000-4000-8000-000000000000"
NO_GROUP = "group-00000000-0000-4000-8000-000000000000"

type NewGroup = Callable[..., dict[str, Any]]


@pytest.fixture
def agents(new_agent: NewAgent) -> list[str]:
    """Three agents without blocks."""
    return [new_agent(memory_blocks=[]).id for _ in range(3)]


@pytest.fixture
def new_group(http: httpx.Client) -> NewGroup:
    """Makes a group."""

    def make(agent_ids: list[str], **fields: Any) -> dict[str, Any]:
        body = {"agent_ids": agent_ids, "description": "g", **fields}
        answer = http.post("/v1/groups/", json=body)
        assert answer.status_code == 200, answer.text
        group: dict[str, Any] = answer.json()
        return group

    return make


def new_block(http: httpx.Client, label: str = "shared") -> str:
    answer = http.post("/v1/blocks", json={"label": label, "value": "What we know"})
    assert answer.status_code == 200, answer.text
    block_id: str = answer.json()["id"]
    return block_id


def blocks_of(http: httpx.Client, agent_id: str) -> list[str]:
    return [block["id"] for block in http.get(f"/v1/agents/{agent_id}/core-memory/blocks").json()]


def delete(http: httpx.Client, path: str) -> None:
    answer = http.delete(path)
    assert answer.status_code == 200, answer.text


def listed(http: httpx.Client, **params: Any) -> list[str]:
    answer = http.get("/v1/groups/", params={"limit": 1000, **params})
    assert answer.status_code == 200, answer.text
    return [group["id"] for group in answer.json()]


@pytest.mark.operation("POST /v1/groups/")
@pytest.mark.operation("GET /v1/groups/{group_id}")
@pytest.mark.operation("PATCH /v1/groups/{group_id}")
@pytest.mark.operation("DELETE /v1/groups/{group_id}")
def test_a_group_is_made_read_changed_and_deleted(
    http: httpx.Client, new_group: NewGroup, agents: list[str]
) -> None:
    """Every field comes back; the agents of a deleted group stay."""
    manager, *members = agents
    block = new_block(http)
    made = new_group(
        members,
        description="Who plans",
        manager_config={
            "manager_type": "dynamic",
            "manager_agent_id": manager,
            "termination_token": "OVER",
            "max_turns": 7,
        },
        project_id="project-1",
        shared_block_ids=[block],
        hidden=False,
    )
    assert made == {
        "id": made["id"],
        "manager_type": "dynamic",
        "agent_ids": members,
        "description": "Who plans",
        "project_id": "project-1",
        "template_id": None,
        "base_template_id": None,
        "deployment_id": None,
        "shared_block_ids": [block],
        "manager_agent_id": manager,
        "termination_token": "OVER",
        "max_turns": 7,
        "sleeptime_agent_frequency": None,
        "turns_counter": None,
        "last_processed_message_id": None,
        "max_message_buffer_length": None,
        "min_message_buffer_length": None,
        "hidden": False,
    }
    path = f"/v1/groups/{made['id']}"
    assert http.get(path).json() == made
    changes = {
        "description": "Who plans next",
        "agent_ids": members[::-1],
        "manager_config": {"manager_type": "dynamic", "max_turns": 9},
        "project_id": "project-2",
        "shared_block_ids": [],
    }
    changed = http.patch(path, json=changes)
    assert changed.status_code == 200, changed.text
    assert changed.json() == {
        **made,
        "description": "Who plans next",
        "agent_ids": members[::-1],
        "max_turns": 9,
        "project_id": "project-2",
        "shared_block_ids": [],
    }
    assert http.get(path).json() == changed.json()
    assert [blocks_of(http, agent_id) for agent_id in agents] == [[], [], []]
    gone = http.delete(path)
    assert gone.status_code == 200
    assert gone.json() == {"message": f"Group id={made['id']} successfully deleted"}
    for request in (
        lambda: http.get(path),
        lambda: http.patch(path, json={"description": "x"}),
        lambda: http.delete(path),
    ):
        answer = request()
        assert answer.status_code == 404
        assert answer.json()["detail"] == f"Group with ID {made['id']} not found"
    assert made["id"] not in listed(http)
    assert [http.get(f"/v1/agents/{agent_id}").status_code for agent_id in agents] == [200] * 3


@pytest.mark.parametrize(
    ("config", "fields"),
    [
        ({"manager_type": "round_robin"}, {}),
        ({"manager_type": "round_robin", "max_turns": 3}, {"max_turns": 3}),
        ({"manager_type": "supervisor", "manager_agent_id": "M"}, {"manager_agent_id": "M"}),
        (
            {"manager_type": "dynamic", "manager_agent_id": "M"},
            {"manager_agent_id": "M", "termination_token": "DONE!"},
        ),
        (
            {
                "manager_type": "sleeptime",
                "manager_agent_id": "M",
                "sleeptime_agent_frequency": 5,
            },
            {"manager_agent_id": "M", "sleeptime_agent_frequency": 5, "turns_counter": -1},
        ),
        (
            {
                "manager_type": "voice_sleeptime",
                "manager_agent_id": "M",
                "max_message_buffer_length": 20,
                "min_message_buffer_length": 10,
            },
            {
                "manager_agent_id": "M",
                "max_message_buffer_length": 20,
                "min_message_buffer_length": 10,
            },
        ),
        ({"manager_type": "swarm", "max_turns": 4}, {"max_turns": 4}),
        ({"manager_type": "broadcast"}, {}),
        ({"manager_type": "intelligent"}, {}),
    ],
    ids=lambda value: value.get("manager_type") if "manager_type" in value else "",
)
def test_each_manager_type_has_its_settings(
    new_group: NewGroup, agents: list[str], config: dict[str, Any], fields: dict[str, Any]
) -> None:
    manager, *members = agents

    def named(values: dict[str, Any]) -> dict[str, Any]:
        return {name: manager if value == "M" else value for name, value in values.items()}

    made = new_group(members, manager_config=named(config))
    settings = {
        name: made[name]
        for name in (
            "manager_agent_id",
            "termination_token",
            "max_turns",
            "sleeptime_agent_frequency",
            "turns_counter",
            "max_message_buffer_length",
            "min_message_buffer_length",
        )
        if made[name] is not None
    }
    assert made["manager_type"] == config["manager_type"]
    assert settings == named(fields)


@pytest.mark.operation("GET /v1/groups/")
@pytest.mark.operation("GET /v1/groups/count")
def test_groups_are_listed_filtered_and_counted(
    http: httpx.Client, new_group: NewGroup, agents: list[str]
) -> None:
    project = unique("project")
    before = http.get("/v1/groups/count").json()
    first, second, third = (new_group(agents, project_id=project) for _ in range(3))
    ids = [group["id"] for group in (first, second, third)]
    manager, *members = agents
    supervised = new_group(
        members,
        project_id=project,
        manager_config={"manager_type": "supervisor", "manager_agent_id": manager},
    )
    hidden = new_group(agents, project_id=project, hidden=True)
    assert http.get("/v1/groups/count").json() == before + 5
    assert listed(http, project_id=project) == [*ids, supervised["id"]]
    shown = listed(http, project_id=project, show_hidden_groups=True)
    assert shown == [*ids, supervised["id"], hidden["id"]]
    assert listed(http, project_id=project, manager_type="supervisor") == [supervised["id"]]
    assert listed(http, project_id=project, limit=2) == ids[:2]
    assert listed(http, project_id=project, after=ids[0], limit=2) == [ids[1], ids[2]]
    assert listed(http, project_id=project, before=ids[2]) == ids[:2]
    assert listed(http, project_id=project, order="desc", limit=1) == [supervised["id"]]
    assert http.get("/v1/groups/", params={"manager_type": "nobody"}).status_code == 422
    http.delete(f"/v1/groups/{first['id']}")
    assert listed(http, project_id=project, after=ids[0], limit=1) == [ids[1]]
    assert http.get("/v1/groups/", params={"after": NO_GROUP}).status_code == 400


@pytest.mark.operation("GET /v1/agents/{agent_id}/groups")
def test_an_agent_shows_its_groups_and_the_one_that_it_manages(
    http: httpx.Client, new_group: NewGroup, agents: list[str]
) -> None:
    manager, *members = agents
    plain = new_group(members[:1])
    config = {"manager_type": "supervisor", "manager_agent_id": manager}
    supervised = new_group(members, manager_config=config)
    path = f"/v1/agents/{members[0]}/groups"
    assert http.get(path).json() == [supervised, plain]
    assert http.get(path, params={"order": "asc"}).json() == [plain, supervised]
    assert http.get(path, params={"manager_type": "supervisor"}).json() == [supervised]
    assert http.get(f"/v1/agents/{manager}/groups").json() == []
    assert http.get(f"/v1/agents/{NOBODY}/groups").status_code == 404

    including = {"include": "agent.managed_group"}
    shown = http.get(f"/v1/agents/{manager}", params=including).json()
    assert shown["managed_group"] == shown["multi_agent_group"] == supervised
    assert http.get(f"/v1/agents/{manager}").json()["managed_group"] is None
    member = http.get(f"/v1/agents/{members[0]}", params=including).json()
    assert (member["managed_group"], member["multi_agent_group"]) == (None, None)
    http.delete(f"/v1/groups/{supervised['id']}")
    shown = http.get(f"/v1/agents/{manager}", params=including).json()
    assert (shown["managed_group"], shown["multi_agent_group"]) == (None, None)
    assert http.get(path).json() == [plain]


@pytest.mark.operation("PATCH /v1/groups/{group_id}/blocks/attach/{block_id}")
@pytest.mark.operation("PATCH /v1/groups/{group_id}/blocks/detach/{block_id}")
def test_a_shared_block_is_seen_by_all_agents_of_the_group(
    http: httpx.Client, new_group: NewGroup, agents: list[str]
) -> None:
    """The manager's too, as in V1; an agent that had the block before keeps it."""
    manager, first, second = agents
    block = new_block(http)
    http.patch(f"/v1/agents/{second}/core-memory/blocks/attach/{block}")
    config = {"manager_type": "supervisor", "manager_agent_id": manager}
    group = new_group([first, second], manager_config=config)
    path = f"/v1/groups/{group['id']}/blocks"
    for _ in range(2):
        answer = http.patch(f"{path}/attach/{block}")
        assert (answer.status_code, answer.json()) == (200, None)
        assert http.get(f"/v1/groups/{group['id']}").json()["shared_block_ids"] == [block]
        assert [blocks_of(http, agent_id) for agent_id in agents] == [[block]] * 3
    for _ in range(2):
        answer = http.patch(f"{path}/detach/{block}")
        assert (answer.status_code, answer.json()) == (200, None)
        assert http.get(f"/v1/groups/{group['id']}").json()["shared_block_ids"] == []
        assert [blocks_of(http, agent_id) for agent_id in agents] == [[], [], [block]]


def test_a_shared_block_comes_and_goes_with_membership(
    http: httpx.Client, new_group: NewGroup, agents: list[str]
) -> None:
    """Of two groups that share it with an agent, the last one takes it back."""
    first, second, third = agents
    block = new_block(http)
    group = new_group([first], shared_block_ids=[block])
    other = new_group([first, second], shared_block_ids=[block])
    assert [blocks_of(http, agent_id) for agent_id in agents] == [[block], [block], []]
    http.patch(f"/v1/groups/{group['id']}", json={"agent_ids": [third]})
    assert [blocks_of(http, agent_id) for agent_id in agents] == [[block]] * 3
    http.patch(f"/v1/groups/{group['id']}", json={"agent_ids": [third, first]})
    http.patch(f"/v1/groups/{group['id']}", json={"agent_ids": [first]})
    assert [blocks_of(http, agent_id) for agent_id in agents] == [[block], [block], []]
    http.delete(f"/v1/groups/{other['id']}")
    assert [blocks_of(http, agent_id) for agent_id in agents] == [[block], [], []]
    http.delete(f"/v1/groups/{group['id']}")
    assert [blocks_of(http, agent_id) for agent_id in agents] == [[], [], []]
    assert http.get(f"/v1/blocks/{block}").status_code == 200


def test_the_group_of_a_deleted_manager_stays_and_can_get_another_one(
    http: httpx.Client, new_group: NewGroup, agents: list[str]
) -> None:
    manager, other, member = agents
    config = {"manager_type": "supervisor", "manager_agent_id": manager}
    group = new_group([member], manager_config=config)
    path = f"/v1/groups/{group['id']}"
    delete(http, f"/v1/agents/{manager}")
    changed = http.patch(path, json={"description": "Still there"})
    assert changed.status_code == 200, changed.text
    assert changed.json() == {**group, "description": "Still there"}
    config["manager_agent_id"] = other
    changed = http.patch(path, json={"manager_config": config})
    assert changed.status_code == 200, changed.text
    assert changed.json()["manager_agent_id"] == other


async def test_a_deleted_agent_leaves_its_groups(
    http: httpx.Client, new_group: NewGroup, agents: list[str]
) -> None:
    members = agents
    group = new_group(members)
    path = f"/v1/groups/{group['id']}"
    delete(http, f"/v1/agents/{members[0]}")

    def has_left() -> bool:
        return bool(http.get(path).json()["agent_ids"] == members[1:])

    await wait_for("the deleted agent has left", has_left)


async def test_a_deleted_block_leaves_the_groups_that_share_it(
    http: httpx.Client, new_group: NewGroup, agents: list[str]
) -> None:
    block, other = new_block(http), new_block(http, "other")
    group = new_group(agents, shared_block_ids=[block, other])
    delete(http, f"/v1/blocks/{block}")

    def is_detached() -> bool:
        shown = http.get(f"/v1/groups/{group['id']}").json()["shared_block_ids"]
        return bool(shown == [other])

    await wait_for("the deleted block is detached", is_detached)
    assert [blocks_of(http, agent_id) for agent_id in agents] == [[other]] * 3


REFUSED: dict[str, tuple[dict[str, Any], int, str, str]] = {
    "unknown member": ({"agent_ids": [NOBODY]}, 404, "agent_ids", NOBODY),
    "member twice": ({"agent_ids": ["A", "A"]}, 422, "agent_ids", "name each agent once"),
    "group as member": ({"agent_ids": [NO_GROUP]}, 422, "agent_ids", "agent-"),
    "no agent id": ({"agent_ids": ["Ada"]}, 422, "agent_ids", "42 characters"),
    "too many members": (
        {"agent_ids": [f"agent-{uuid4()}" for _ in range(101)]}, 422, "agent_ids", "100",
    ),
    "unknown block": ({"shared_block_ids": [NO_BLOCK]}, 404, "shared_block_ids", NO_BLOCK),
    "unknown manager": (
        {"manager_config": {"manager_type": "supervisor", "manager_agent_id": NOBODY}},
        404, "manager_config.manager_agent_id", NOBODY,
    ),
    "no manager": (
        {"manager_config": {"manager_type": "supervisor"}}, 422, "manager_agent_id", "required",
    ),
    "manager among its members": (
        {"manager_config": {"manager_type": "supervisor", "manager_agent_id": "A"}},
        422, "agent_ids", "leave it out",
    ),
    "unknown type": ({"manager_config": {"manager_type": "king"}}, 422, "manager_config", "king"),
    "no turns": (
        {"manager_config": {"manager_type": "round_robin", "max_turns": 0}},
        422, "max_turns", "greater than or equal to 1",
    ),
    "too many turns": (
        {"manager_config": {"manager_type": "round_robin", "max_turns": 1001}},
        422, "max_turns", "less than or equal to 1000",
    ),
    "setting without effect": (
        {"manager_config": {"manager_type": "round_robin", "termination_token": "DONE!"}},
        422, "termination_token", "leave it out",
    ),
    "one buffer length": (
        {"manager_config": {"manager_type": "voice_sleeptime", "manager_agent_id": "M",
                            "max_message_buffer_length": 10}},
        400, "min_message_buffer_length", "together",
    ),
    "buffer lengths swapped": (
        {"manager_config": {"manager_type": "voice_sleeptime", "manager_agent_id": "M",
                            "max_message_buffer_length": 10, "min_message_buffer_length": 20}},
        400, "max_message_buffer_length", "greater",
    ),
    "no description": ({"description": None}, 422, "description", "string"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_a_group_is_refused_and_leaves_nothing_behind(
    http: httpx.Client, agents: list[str], name: str
) -> None:
    fields, status, field, words = REFUSED[name]

    def named(value: Any) -> Any:
        match value:
            case dict():
                return {key: named(part) for key, part in value.items()}
            case list():
                return [named(part) for part in value]
        return {"A": agents[0], "M": agents[2]}.get(value, value)

    before = http.get("/v1/groups/count").json()
    body = {"agent_ids": agents[:2], "description": "g", **named(fields)}
    answer = http.post("/v1/groups/", json=body)
    assert answer.status_code == status, answer.text
    assert field in answer.text
    assert words in answer.text
    assert http.get("/v1/groups/count").json() == before
    if status != 400:
        group = http.post("/v1/groups/", json={"agent_ids": agents[:2], "description": "g"}).json()
        assert http.get(f"/v1/groups/{group['id']}").json() == group


def test_a_refused_change_changes_nothing(
    http: httpx.Client, new_group: NewGroup, agents: list[str]
) -> None:
    group = new_group(agents[:2])
    path = f"/v1/groups/{group['id']}"
    for body, status, words in (
        ({"agent_ids": [agents[2], NOBODY], "description": "x"}, 404, "agent_ids"),
        ({"shared_block_ids": [NO_BLOCK]}, 404, "shared_block_ids"),
        ({"manager_config": {"manager_type": "swarm"}}, 400, "Cannot change group pattern"),
        ({"manager_config": {"manager_type": "round_robin", "max_turns": 0}}, 422, "max_turns"),
    ):
        answer = http.patch(path, json=body)
        assert (answer.status_code, words in answer.text) == (status, True), answer.text
        assert http.get(path).json() == group
    for answer in (
        http.patch(f"{path}/blocks/attach/{NO_BLOCK}"),
        http.patch(f"/v1/groups/{NO_GROUP}/blocks/detach/{NO_BLOCK}"),
        http.patch(f"/v1/groups/{NO_GROUP}", json={"description": "x"}),
    ):
        assert answer.status_code == 404, answer.text
    assert http.get("/v1/groups/no-group").status_code == 422


def test_a_block_whose_label_an_agent_has_already_is_not_shared(
    http: httpx.Client, new_agent: NewAgent, new_group: NewGroup, agents: list[str]
) -> None:
    person = new_agent()  # with a block `human`
    block = new_block(http, "human")
    refused = http.post(
        "/v1/groups/",
        json={"agent_ids": [agents[0], person.id], "description": "g", "shared_block_ids": [block]},
    )
    assert refused.status_code == 409
    assert "shared_block_ids" in refused.text
    assert person.id in refused.text
    assert blocks_of(http, agents[0]) == []
    group = new_group(agents, shared_block_ids=[block])
    joining = {"agent_ids": [*agents, person.id]}
    assert http.patch(f"/v1/groups/{group['id']}", json=joining).status_code == 409
    assert http.get(f"/v1/groups/{group['id']}").json() == group


def test_a_repeated_request_makes_one_group(http: httpx.Client, agents: list[str]) -> None:
    block = new_block(http)
    body = {"agent_ids": agents, "description": "g", "shared_block_ids": [block]}
    headers = {"Idempotency-Key": unique("key")}
    before = http.get("/v1/groups/count").json()
    first, again = (http.post("/v1/groups/", json=body, headers=headers) for _ in range(2))
    assert (first.status_code, first.json()) == (200, again.json())
    assert http.get("/v1/groups/count").json() == before + 1
    other = http.post("/v1/groups/", json={**body, "description": "h"}, headers=headers)
    assert other.status_code == 409


def test_a_hundred_members_share_a_block_and_fifty_groups_are_made_at_once(
    http: httpx.Client, new_agent: NewAgent, new_group: NewGroup
) -> None:
    with ThreadPoolExecutor(8) as threads:
        made = threads.map(lambda _: new_agent(memory_blocks=[]).id, range(100))
        members = list(made)
        block = new_block(http)
        group = new_group(members, shared_block_ids=[block])
        assert group["agent_ids"] == members
        attached = http.get(f"/v1/blocks/{block}/agents", params={"limit": 1000}).json()
        assert {agent["id"] for agent in attached} == {*members}
        one_more = new_agent(memory_blocks=[]).id
        full = http.post(f"/v1/agent-groups/{group['id']}/members", json={"agent_id": one_more})
        assert full.status_code == 422
        assert "100 members" in full.text
        groups = list(threads.map(lambda _: new_group(members), range(50)))
    assert len({each["id"] for each in groups}) == 50
    found = http.get(f"/v1/agents/{members[0]}/groups", params={"limit": 1000}).json()
    assert {each["id"] for each in found} == {group["id"], *(each["id"] for each in groups)}
    http.delete(f"/v1/groups/{group['id']}")
    assert http.get(f"/v1/blocks/{block}/agents").json() == []
