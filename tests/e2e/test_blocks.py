"""Memory blocks: on their own, attached to agents, shared between them."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from letta_client import APIStatusError, Letta, NotFoundError

from tests.e2e.asking import NOBODY, is_id, says, unique
from tests.e2e.conftest import NewAgent
from tests.servers import HeelerInstance, wait_until

FIELDS: dict[str, Any] = {
    "label": "notes",
    "value": "One\nTwo – ünïcödé 🐕",
    "limit": 50,
    "description": "What was noted",
    "metadata": {"colour": "red", "deep": {"list": [1, None]}},
    "read_only": True,
    "tags": ["red", "blue"],
    "hidden": True,
    "is_template": True,
    "template_name": "a-template",
    "template_id": "template-1",
    "base_template_id": "base-1",
    "deployment_id": "deployment-1",
    "entity_id": "entity-1",
    "project_id": "project-1",
    "preserve_on_migration": True,
}
CHANGES: dict[str, Any] = {
    "label": "notices",
    "value": "Three",
    "limit": 5,
    "description": None,
    "metadata": {},
    "read_only": False,
    "tags": [],
    "hidden": None,
    "is_template": False,
    "template_name": "b-template",
    "template_id": "template-2",
    "base_template_id": None,
    "deployment_id": None,
    "entity_id": None,
    "project_id": "project-2",
    "preserve_on_migration": False,
}
ALIASES = ["core-memory/blocks", "blocks"]


@pytest.mark.operation("POST /v1/blocks/")
@pytest.mark.operation("GET /v1/blocks/{block_id}")
@pytest.mark.operation("PATCH /v1/blocks/{block_id}")
@pytest.mark.operation("DELETE /v1/blocks/{block_id}")
def test_every_field_of_a_block_comes_back_changes_and_goes(
    letta: Letta, http: httpx.Client
) -> None:
    created = letta.blocks.create(**FIELDS)
    path = f"/v1/blocks/{created.id}"

    expected = {**FIELDS, "id": created.id, "created_by_id": None, "last_updated_by_id": None}
    assert is_id("block", created.id)
    assert http.get(path).json() == expected
    assert created.to_dict() == letta.blocks.retrieve(created.id).to_dict()

    for field, value in CHANGES.items():
        updated = letta.blocks.update(created.id, **{field: value})
        expected[field] = value
        assert http.get(path).json() == expected, field
        assert updated.to_dict() == letta.blocks.retrieve(created.id).to_dict()

    assert http.delete(path).content == b"null"
    for method in ("GET", "PATCH", "DELETE"):
        answer = http.request(method, path, json={"value": "x"} if method == "PATCH" else None)
        assert answer.status_code == 404
        assert answer.json() == {"detail": f"Block with id '{created.id}' not found"}
    assert letta.blocks.list(label="notices", project_id="project-2", name="b-template").items == []
    with pytest.raises(NotFoundError):
        letta.blocks.retrieve(created.id)


@pytest.mark.operation("POST /v1/blocks/")
def test_a_block_without_wishes_has_the_defaults(letta: Letta, http: httpx.Client) -> None:
    created = letta.blocks.create(label="plain", value="")

    assert http.get(f"/v1/blocks/{created.id}").json() == {
        **dict.fromkeys(FIELDS),
        "id": created.id,
        "label": "plain",
        "value": "",
        "limit": 100_000,
        "metadata": {},
        "read_only": False,
        "tags": [],
        "is_template": False,
        "preserve_on_migration": False,
        "created_by_id": None,
        "last_updated_by_id": None,
    }
    unset = http.post("/v1/blocks/", json={"label": "plain"})
    assert unset.json()["value"] == ""


@pytest.mark.operation(
    "POST /v1/blocks/", differs="a value over its `limit` is a 422 that names both"
)
@pytest.mark.operation("PATCH /v1/blocks/{block_id}")
def test_a_value_over_its_limit_is_refused_and_nothing_changes(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    label = unique("tight")
    too_long = {"label": label, "value": "x" * 11, "limit": 10}
    block = letta.blocks.create(label=label, value="x" * 10, limit=10)
    agent = new_agent(memory_blocks=[], block_ids=[block.id])
    by_label = f"/v1/agents/{agent.id}/core-memory/blocks/{label}"
    for answer in (
        http.post("/v1/blocks/", json=too_long),
        http.patch(f"/v1/blocks/{block.id}", json={"value": "x" * 11, "description": "new"}),
        http.patch(f"/v1/blocks/{block.id}", json={"limit": 9, "description": "new"}),
        http.patch(by_label, json={"value": "x" * 11}),
    ):
        detail = answer.json()["detail"]
        assert answer.status_code == 422
        assert f"`value` of block '{label}'" in detail
        assert "shorten the value or raise the limit" in detail
    assert [block.to_dict() for block in letta.blocks.list(label=label).items] == [block.to_dict()]
    both = letta.blocks.update(block.id, value="x" * 11, limit=11)
    assert (both.value, both.limit) == ("x" * 11, 11)


@pytest.mark.operation("POST /v1/blocks/")
def test_a_block_that_cannot_be_is_refused(letta: Letta, http: httpx.Client) -> None:
    label = unique("odd")
    for wrong, said in (
        ({"label": ""}, "`label` must not be empty"),
        ({"label": "x" * 201}, "at most 200 characters"),
        ({"limit": 0}, "`limit` must be at least 1"),
        ({"limit": -5}, "`limit` must be at least 1"),
        ({"limit": 2**31}, "`limit` may be at most 2147483647"),
        ({"limit": "many"}, "'loc': ('body', 'limit')"),
        ({"value": 5}, "'loc': ('body', 'value')"),
        ({"tags": "red"}, "'loc': ('body', 'tags')"),
        ({"metadata": []}, "'loc': ('body', 'metadata')"),
    ):
        answer = http.post("/v1/blocks/", json={"label": label, "value": "", **wrong})
        assert answer.status_code == 422, (wrong, answer.text)
        assert said in answer.json()["detail"]
    assert letta.blocks.list(label=label).items == []


@pytest.mark.operation("GET /v1/blocks/")
@pytest.mark.operation("GET /v1/blocks/count")
def test_blocks_are_found_by_what_they_are(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    label, project = unique("label"), unique("project")
    red = letta.blocks.create(
        label=label, value="50% rose", tags=["red"], project_id=project, description="warm_red"
    )
    blue = letta.blocks.create(
        label=label, value="sky", tags=["blue", "red"], project_id=project, description="warmXred"
    )
    other = letta.blocks.create(
        label=unique("else"),
        value="tree",
        project_id=project,
        is_template=True,
        template_name="green",
    )
    new_agent(memory_blocks=[], block_ids=[red.id])
    new_agent(memory_blocks=[], block_ids=[red.id, other.id])

    def found(**query: Any) -> list[str]:
        return [block.id for block in letta.blocks.list(**{"project_id": project, **query})]

    assert found() == [other.id, blue.id, red.id]
    assert found(label=label) == [blue.id, red.id]
    assert found(label=label, order="asc") == [red.id, blue.id]
    assert found(tags=["blue", "green"]) == [blue.id]
    assert found(tags=["red", "blue"]) == [blue.id, red.id]
    assert found(tags=["red", "blue"], match_all_tags=True) == [blue.id]
    assert found(templates_only=True) == [other.id]
    assert found(name="green") == [other.id]
    assert found(label_search=label[3:].upper()) == [blue.id, red.id]
    assert found(value_search="50%") == [red.id]
    assert found(value_search="5%e") == []
    assert found(description_search="warm_red") == [red.id]
    assert found(connected_to_agents_count_gt=1) == [red.id]
    assert found(connected_to_agents_count_lt=1) == [blue.id]
    assert found(connected_to_agents_count_eq=[0, 1]) == [other.id, blue.id]
    assert found(identity_id=f"identity-{NOBODY}") == []
    assert found(limit=1) == [other.id, blue.id, red.id]
    assert http.get("/v1/blocks/count", params={"label": label}).json() == 2
    query = {"project_id": project, "limit": 1}
    (second,) = http.get("/v1/blocks/", params={**query, "after": other.id}).json()
    assert second["id"] == blue.id
    (middle,) = http.get("/v1/blocks/", params={**query, "before": red.id}).json()
    assert middle["id"] == blue.id
    unknown = http.get("/v1/blocks/", params={"after": f"block-{NOBODY}"})
    assert unknown.status_code == 400
    assert f"block-{NOBODY}" in unknown.json()["detail"]


@pytest.mark.operation("GET /v1/agents/{agent_id}/core-memory/blocks")
@pytest.mark.operation("GET /v1/agents/{agent_id}/core-memory/blocks/{block_label}")
@pytest.mark.operation("PATCH /v1/agents/{agent_id}/core-memory/blocks/{block_label}")
@pytest.mark.operation("PATCH /v1/agents/{agent_id}/core-memory/blocks/attach/{block_id}")
@pytest.mark.operation("PATCH /v1/agents/{agent_id}/core-memory/blocks/detach/{block_id}")
@pytest.mark.parametrize("alias", ALIASES)
def test_blocks_are_attached_edited_and_detached_by_label_and_by_id(
    letta: Letta, http: httpx.Client, new_agent: NewAgent, alias: str
) -> None:
    agent = new_agent()
    block = letta.blocks.create(label="project", value="Heeler")
    path = f"/v1/agents/{agent.id}/{alias}"

    attached = http.patch(f"{path}/attach/{block.id}")
    assert [block["label"] for block in attached.json()["blocks"]] == [
        "human",
        "persona",
        "project",
    ]
    assert http.patch(f"{path}/attach/{block.id}").json() == attached.json()
    listed = {listed_block["label"]: listed_block for listed_block in http.get(path).json()}
    assert listed.keys() == {"human", "persona", "project"}
    assert listed["project"] == http.get(f"/v1/blocks/{block.id}").json()

    for name in ("project", block.id):
        assert http.get(f"{path}/{name}").json() == http.get(f"/v1/blocks/{block.id}").json()
        change = {"value": f"by {name}", "description": name}
        changed = http.patch(f"{path}/{name}", json=change).json()
        assert changed == {**listed["project"], **change}
        assert http.get(f"/v1/blocks/{block.id}").json() == changed

    detached = http.patch(f"{path}/detach/{block.id}")
    assert [block["label"] for block in detached.json()["blocks"]] == ["human", "persona"]
    assert letta.blocks.retrieve(block.id).value == f"by {block.id}"
    for answer, said in (
        (http.get(f"{path}/project"), "No block with label 'project'"),
        (http.get(f"{path}/{block.id}"), block.id),
        (http.patch(f"{path}/project", json={"value": "x"}), "No block with label 'project'"),
        (http.patch(f"{path}/detach/{block.id}"), block.id),
        (http.patch(f"{path}/attach/block-{NOBODY}"), f"block-{NOBODY}"),
        (http.get(f"/v1/agents/agent-{NOBODY}/{alias}"), f"agent-{NOBODY}"),
        (http.get(f"/v1/agents/agent-{NOBODY}/{alias}/human"), f"agent-{NOBODY}"),
        (http.patch(f"/v1/agents/agent-{NOBODY}/{alias}/attach/{block.id}"), f"agent-{NOBODY}"),
        (http.patch(f"/v1/agents/agent-{NOBODY}/{alias}/detach/{block.id}"), f"agent-{NOBODY}"),
    ):
        assert answer.status_code == 404, answer.text
        assert said in answer.json()["detail"]


@pytest.mark.operation("GET /v1/agents/{agent_id}/core-memory/blocks")
@pytest.mark.operation("PATCH /v1/agents/{agent_id}/core-memory/blocks/attach/{block_id}")
@pytest.mark.operation("PATCH /v1/agents/{agent_id}/core-memory/blocks/detach/{block_id}")
@pytest.mark.operation("PATCH /v1/agents/{agent_id}/core-memory/blocks/{block_label}")
def test_the_sdk_reads_and_writes_the_blocks_of_an_agent(letta: Letta, new_agent: NewAgent) -> None:
    agent = new_agent()
    block = letta.blocks.create(label="project", value="Heeler")

    attached = letta.agents.blocks.attach(block.id, agent_id=agent.id)
    assert [block.label for block in attached.blocks] == ["human", "persona", "project"]  # type: ignore[union-attr]
    listed = list(letta.agents.blocks.list(agent.id, limit=1, order="asc"))
    assert sorted(block.value for block in listed) == ["Heeler", "I am kind.", "Name: Ada"]
    updated = letta.agents.blocks.update("human", agent_id=agent.id, value="Name: Bo", limit=9)
    read = letta.agents.blocks.retrieve("human", agent_id=agent.id)
    assert updated.to_dict() == read.to_dict()
    assert (read.value, read.limit, read.label) == ("Name: Bo", 9, "human")
    detached = letta.agents.blocks.detach(block.id, agent_id=agent.id)
    assert [block.label for block in detached.blocks] == ["human", "persona"]  # type: ignore[union-attr]


@pytest.mark.operation("GET /v1/blocks/{block_id}/agents")
def test_two_agents_share_a_block_and_both_see_an_edit_at_once(
    letta: Letta, new_agent: NewAgent
) -> None:
    block = letta.blocks.create(label="plan", value="Old plan")
    one = new_agent(block_ids=[block.id])
    two = new_agent()
    letta.agents.blocks.attach(block.id, agent_id=two.id)

    def seen(agent_id: str) -> str:
        answer = letta.agents.messages.create(agent_id, messages=says("SYSTEM?"))
        return str(answer.messages[-1].content)  # type: ignore[union-attr]

    for agent in (one, two):
        assert "Old plan" in seen(agent.id)
    holders = letta.blocks.agents.list(block.id, include=["agent.blocks"]).items
    assert [agent.id for agent in holders] == [two.id, one.id]
    assert [agent.id for agent in letta.blocks.agents.list(block.id, limit=1)] == [two.id, one.id]
    assert "plan" in [shown.label for shown in holders[0].blocks]

    letta.agents.blocks.update("plan", agent_id=one.id, value="New plan")
    for agent in (one, two):
        assert letta.agents.blocks.retrieve("plan", agent_id=agent.id).value == "New plan"
        assert "New plan" in seen(agent.id)
        assert "Old plan" not in seen(agent.id)

    call = 'CALL:memory_replace:{"label":"plan","old_string":"New","new_string":"Better"}'
    letta.agents.messages.create(one.id, messages=says(call))
    assert "Better plan" in seen(two.id)
    letta.agents.blocks.detach(block.id, agent_id=two.id)
    assert "Better plan" not in seen(two.id)
    assert "Better plan" in seen(one.id)


@pytest.mark.operation("PATCH /v1/agents/{agent_id}/core-memory/blocks/attach/{block_id}")
def test_one_agent_cannot_have_a_label_twice(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    second = letta.blocks.create(label="human", value="another")

    answer = http.patch(f"/v1/agents/{agent.id}/core-memory/blocks/attach/{second.id}")

    assert answer.status_code == 409
    assert answer.headers["x-should-retry"] == "false"
    assert "label 'human'" in answer.json()["detail"]
    assert letta.agents.blocks.retrieve("human", agent_id=agent.id).value == "Name: Ada"
    assert len(letta.agents.blocks.list(agent.id).items) == 2
    with pytest.raises(APIStatusError, match="label 'human'"):
        letta.agents.blocks.attach(second.id, agent_id=agent.id)


@pytest.mark.operation("DELETE /v1/blocks/{block_id}")
def test_a_deleted_block_disappears_from_every_agent(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    block = letta.blocks.create(label="plan", value="Top secret")
    one, two = new_agent(block_ids=[block.id]), new_agent(block_ids=[block.id])

    letta.blocks.delete(block.id)

    for agent in (one, two):

        def labels(agent_id: str = agent.id) -> list[str]:
            return [shown["label"] for shown in
                    http.get(f"/v1/agents/{agent_id}/core-memory/blocks").json()]  # fmt: skip

        wait_until("detached", lambda: sorted(labels()) == ["human", "persona"], 10)
        answer = letta.agents.messages.create(agent.id, messages=says("SYSTEM?"))
        assert "Top secret" not in str(answer.messages[-1])
        call = 'CALL:memory_insert:{"label":"plan","new_string":"more"}'
        refused = letta.agents.messages.create(agent.id, messages=says(call)).messages[1]
        assert refused.status == "error"  # type: ignore[union-attr]
    again = letta.blocks.create(label="plan", value="public")
    letta.agents.blocks.attach(again.id, agent_id=one.id)
    assert letta.agents.blocks.retrieve("plan", agent_id=one.id).value == "public"


def test_a_block_that_vanished_unnoticed_is_detached_when_the_service_starts(
    heeler: HeelerInstance, letta: Letta, new_agent: NewAgent
) -> None:
    block = letta.blocks.create(label="ghost", value="Boo")
    agent = new_agent(block_ids=[block.id])
    heeler.psql(f"delete from memory.blocks where id = '{block.id}'")
    heeler.wait_restarted("agent", heeler.kill9("agent"))

    def detached() -> bool:
        [[seen]] = heeler.psql(f"select block_ids from agent.agents where id = '{agent.id}'")
        return block.id not in seen and len(seen) == 2

    wait_until("detached", detached, 15)
    said = letta.agents.messages.create(agent.id, messages=says("SAY:still here"))
    assert said.messages[-1].content == "still here"  # type: ignore[union-attr]
    # No event took the block away, so a rebuild brings it back.
    assert heeler.command("rebuild", "--service", "memory").returncode == 0
    assert letta.blocks.retrieve(block.id).value == "Boo"


def test_a_block_is_not_renamed_to_a_label_that_its_agent_has(
    http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    path = f"/v1/agents/{agent.id}/core-memory/blocks"
    human, persona = (http.get(f"{path}/{label}").json()["id"] for label in ("human", "persona"))
    for by in (f"{path}/human", f"/v1/blocks/{human}"):
        refused = http.patch(by, json={"label": "persona", "value": "x"})
        assert (refused.status_code, refused.headers["x-should-retry"]) == (409, "false")
        assert all(said in refused.json()["detail"] for said in ("`label`", persona, agent.id))
    assert http.get(f"{path}/human").json()["value"] == "Name: Ada"
    http.patch(f"{path}/detach/{persona}")
    assert http.patch(f"{path}/human", json={"label": "persona"}).status_code == 200
    assert http.patch(f"{path}/attach/{persona}").status_code == 409
    assert [listed_block["label"] for listed_block in http.get(path).json()] == ["persona"]


def test_blocks_renamed_in_one_moment_leave_one_that_the_label_means(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    for attempt in range(5):
        agent = new_agent()
        path = f"/v1/agents/{agent.id}/core-memory/blocks"
        ids = [http.get(f"{path}/{label}").json()["id"] for label in ("human", "persona")]
        label = f"both-{attempt}"

        def rename(block_id: str, label: str = label) -> int:
            return http.patch(f"/v1/blocks/{block_id}", json={"label": label}).status_code

        with ThreadPoolExecutor(2) as threads:
            statuses = list(threads.map(rename, ids))
        assert set(statuses) in ({200}, {200, 409})
        meant = http.get(f"{path}/{label}").json()
        assert meant["id"] == ids[statuses.index(200)]
        insert = json.dumps({"label": label, "new_string": "told", "insert_line": 0})
        letta.agents.messages.create(agent.id, messages=says(f"CALL:memory_insert:{insert}"))
        values = [http.get(f"/v1/blocks/{block_id}").json()["value"] for block_id in ids]
        assert ["told" in value for value in values] == [
            block_id == meant["id"] for block_id in ids
        ]


@pytest.mark.operation("POST /v1/_internal_blocks/")
@pytest.mark.operation("GET /v1/_internal_blocks/")
@pytest.mark.operation("DELETE /v1/_internal_blocks/{block_id}")
@pytest.mark.operation("GET /v1/_internal_blocks/{block_id}/agents")
def test_internal_blocks_are_blocks_by_another_path(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    label, path = unique("internal"), "/v1/_internal_blocks"
    made = http.post(f"{path}/", json={"label": label, "value": "x"}).json()
    assert letta.blocks.retrieve(made["id"]).value == "x"
    assert http.get(f"{path}/", params={"label": label}).json() == [made]
    agent = new_agent(block_ids=[made["id"]])
    attached = http.get(f"{path}/{made['id']}/agents").json()
    assert [listed_agent["id"] for listed_agent in attached] == [agent.id]
    assert http.delete(f"{path}/{made['id']}").json() is None
    assert http.get(f"{path}/", params={"label": label}).json() == []
