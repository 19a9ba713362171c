"""Templates: saved from agents, versions, agents made from them and brought to new versions."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from letta_client import APIStatusError, ConflictError, Letta, NotFoundError
from letta_client.types import AgentState

from tests.e2e.asking import MODEL, NOBODY, is_id, says, unique
from tests.e2e.conftest import NewAgent
from tests.waiting import wait_for

TOOL = 'def {name}() -> str:\n    """Say a word."""\n    return "word"\n'
GREETING = "The user is called {{name}}, and wants {{ wish }}."


def new_tool(letta: Letta) -> str:
    """The id of a tool that only this test has."""
    name = unique("word").replace("-", "_")
    return letta.tools.create(source_code=TOOL.format(name=name)).id


@pytest.fixture
def origin(letta: Letta, new_agent: NewAgent) -> AgentState:
    """An agent worth keeping, with variables in a block."""
    return new_agent(
        system="Be brief.",
        memory_blocks=[
            {"label": "human", "value": GREETING, "limit": 4321, "description": "Who asks"},
            {"label": "rules", "value": "Never lie.", "read_only": True},
        ],
        tool_ids=[new_tool(letta)],
        tags=["kept"],
        description="A clerk",
        secrets={"TOKEN": "of the origin"},
        include_base_tools=True,
        timezone="Europe/Berlin",
    )


@pytest.fixture
def template(letta: Letta, origin: AgentState) -> str:
    """The name of a template of that agent."""
    return letta.templates.create(type="agent", agent_id=origin.id, name=unique("clerk")).name


def values_of(agent: AgentState) -> dict[str | None, str]:
    return {block.label: block.value for block in agent.memory.blocks}


def agent_of(letta: Letta, agent_id: str) -> AgentState:
    return letta.agents.retrieve(agent_id, include=["agent.blocks", "agent.tools", "agent.tags"])


def made(letta: Letta, version: str, **fields: Any) -> AgentState:
    """The one agent that is made from a version."""
    variables = {"name": "Ada", "wish": "tea"}
    answer = letta.templates.agents.create(version, **{"memory_variables": variables, **fields})
    [agent_id] = answer.agent_ids
    assert answer.group_id is None
    agent = agent_of(letta, agent_id)
    assert agent.deployment_id == answer.deployment_id
    return agent


def snapshot(http: httpx.Client, version: str) -> dict[str, Any]:
    answer = http.get(f"/v1/templates/default/{version}/snapshot")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def replace_snapshot(http: httpx.Client, name: str, changed: dict[str, Any]) -> None:
    answer = http.put(f"/v1/templates/default/{name}:current/snapshot", json=changed)
    assert answer.status_code == 200, answer.text


def change_rules(http: httpx.Client, name: str, value: str) -> None:
    """Write another value of the block `rules` into the working version."""
    changed = snapshot(http, f"{name}:current")
    [rules] = [block for block in changed["blocks"] if block["label"] == "rules"]
    rules["value"] = value
    replace_snapshot(http, name, changed)


def versions(http: httpx.Client, name: str) -> list[dict[str, Any]]:
    answer = http.get(f"/v1/templates/default/{name}/versions")
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["versions"]
    return found


@pytest.mark.operation("POST /v1/templates")
@pytest.mark.operation("POST /v1/templates/{template_version}/agents")
def test_an_agent_made_from_a_template_is_like_the_one_it_was_saved_from(
    letta: Letta, origin: AgentState
) -> None:
    """With the values of its variables, under an id and a name of its own; it answers."""
    name = unique("clerk")
    saved = letta.templates.create(type="agent", agent_id=origin.id, name=name)
    assert (saved.name, saved.latest_version) == (name, "1")
    assert saved.template_deployment_slug == f"default/{name}:1"
    assert is_id("template", saved.id)
    agent = made(letta, f"{name}:1", agent_name="Clerk of Ada", tags=["own"])
    assert agent.id != origin.id
    assert agent.name == "Clerk of Ada"
    assert agent.template_id == saved.id
    assert agent.base_template_id
    assert values_of(agent) == {
        "human": "The user is called Ada, and wants tea.",
        "rules": "Never lie.",
    }
    first, second = (
        {block.label: block for block in each.memory.blocks} for each in (origin, agent)
    )
    for label in first:
        assert first[label].id != second[label].id
        for field in ("limit", "description", "read_only"):
            assert getattr(first[label], field) == getattr(second[label], field)
    before = agent_of(letta, origin.id)
    for field in ("system", "agent_type", "llm_config", "description", "timezone", "tool_rules"):
        assert getattr(before, field) == getattr(agent, field), field
    assert {tool.id for tool in before.tools} == {tool.id for tool in agent.tools}
    assert agent.tags == ["own"]
    [secret] = letta.agents.retrieve(agent.id, include=["agent.secrets"]).secrets or []
    assert (secret.key, secret.value) == ("TOKEN", "of the origin")
    answer = letta.agents.messages.create(agent.id, messages=says("hello"))
    assert answer.messages


@pytest.mark.operation("POST /v1/templates/{template_name}/save")
@pytest.mark.operation("POST /v1/templates/{template_name}/rollback")
@pytest.mark.operation("GET /v1/templates/{project_id}/{name}/versions")
@pytest.mark.operation("GET /v1/templates/{project_id}/{template_version}/snapshot")
@pytest.mark.operation("PUT /v1/templates/{project_id}/{template_version}/snapshot")
def test_versions_are_saved_and_rolled_back_to(
    letta: Letta, http: httpx.Client, template: str
) -> None:
    """What was not saved is saved before it goes; saved versions never change."""
    first = snapshot(http, f"{template}:1")
    change_rules(http, template, "Lie a little.")
    assert snapshot(http, f"{template}:1") == first
    saved = letta.templates.save(template, message="Lies")
    assert saved.latest_version == "2"
    change_rules(http, template, "Lie a lot.")
    letta.templates.rollback(template, version="1")
    found = versions(http, template)
    assert [version["version"] for version in found] == ["3", "2", "1"]
    assert [version["is_latest"] for version in found] == [True, False, False]
    assert found[1]["message"] == "Lies"
    rules = {
        version: next(
            block["value"]
            for block in snapshot(http, f"{template}:{version}")["blocks"]
            if block["label"] == "rules"
        )
        for version in ("1", "2", "3", "latest", "current")
    }
    assert rules == {
        "1": "Never lie.",
        "2": "Lie a little.",
        "3": "Lie a lot.",
        "latest": "Lie a lot.",
        "current": "Never lie.",
    }
    assert values_of(made(letta, template))["rules"] == "Lie a lot."
    assert values_of(made(letta, f"{template}:current"))["rules"] == "Never lie."


def test_a_snapshot_shows_what_a_template_holds(
    http: httpx.Client, template: str, origin: AgentState
) -> None:
    """Its variables too, and no value of a secret."""
    shown = snapshot(http, f"{template}:latest")
    [agent] = shown["agents"]
    assert shown["type"] == "classic"
    assert agent["systemPrompt"] == origin.system
    assert agent["model"] == MODEL
    assert agent["tags"] == ["kept"]
    assert [each["key"] for each in agent["memoryVariables"]["data"]] == ["name", "wish"]
    assert agent["toolVariables"]["data"] == [
        {"key": "TOKEN", "defaultValue": None, "type": "string"}
    ]
    assert [block["label"] for block in shown["blocks"]] == ["human", "rules"]
    assert len(shown["relationships"]) == 2


@pytest.mark.operation("DELETE /v1/templates/{template_name}")
@pytest.mark.operation("GET /v1/templates")
def test_templates_are_listed_and_deleted(letta: Letta, http: httpx.Client, template: str) -> None:
    """Agents of a deleted template stay, and its name is free again."""
    agent = made(letta, template)
    letta.templates.save(template)
    found = http.get("/v1/templates", params={"name": template, "exact": "true"}).json()
    assert found["has_next_page"] is False
    [listed] = found["templates"]
    assert listed["latest_version"] == "2"
    by_id = http.get("/v1/templates", params={"template_id": listed["id"]}).json()["templates"]
    assert by_id == [listed]
    base = http.get("/v1/templates", params={"template_id": agent.base_template_id}).json()
    assert base["templates"] == [listed], "the id of the template, not of a version"
    of_agent = http.get("/v1/templates", params={"template_id": agent.template_id}).json()
    assert [each["latest_version"] for each in of_agent["templates"]] == ["1"]
    old = http.get("/v1/templates", params={"search": template, "version": "1"}).json()
    assert [each["latest_version"] for each in old["templates"]] == ["1"]
    assert letta.templates.delete(template).success
    assert http.get("/v1/templates", params={"name": template}).json()["templates"] == []
    with pytest.raises(NotFoundError, match=template):
        letta.templates.agents.create(f"{template}:1")
    assert agent_of(letta, agent.id).id == agent.id
    again = letta.templates.create(type="agent", agent_id=agent.id, name=template)
    assert again.latest_version == "1"


@pytest.mark.operation("PATCH /v1/templates/{project_id}/{template_name}/name")
@pytest.mark.operation("PATCH /v1/templates/{project_id}/{template_name}/description")
@pytest.mark.operation("POST /v1/templates/{project_id}/{template_version}/fork")
def test_a_template_is_renamed_described_and_copied(
    letta: Letta, http: httpx.Client, template: str
) -> None:
    """A name that is taken is refused, and nothing changes."""
    path, other = f"/v1/templates/default/{template}", unique("other")
    copy = http.post(f"{path}:latest/fork", json={"name": other})
    assert copy.status_code == 200, copy.text
    assert copy.json()["name"] == other
    taken = http.patch(f"{path}/name", json={"new_name": other})
    assert taken.status_code == 409
    assert other in taken.json()["detail"]
    named = unique("named")
    assert http.patch(f"{path}/name", json={"new_name": named}).json() == {"success": True}
    described = http.patch(
        f"/v1/templates/default/{named}/description", json={"description": "Who serves tea"}
    )
    assert described.json() == {"success": True}
    [found] = http.get("/v1/templates", params={"name": named, "exact": "true"}).json()["templates"]
    assert found["description"] == "Who serves tea"
    assert letta.templates.delete(other).success


def test_what_is_wrong_with_a_request_is_said_by_field(
    letta: Letta, http: httpx.Client, template: str, origin: AgentState
) -> None:
    """Variables, versions and names."""
    for variables, field, name in (
        ({"name": "Ada"}, "memory_variables", "wish"),
        ({"name": "Ada", "wish": "tea", "age": "7"}, "memory_variables", "age"),
    ):
        with pytest.raises(APIStatusError) as refused:
            letta.templates.agents.create(template, memory_variables=variables)
        assert refused.value.status_code == 422
        assert field in refused.value.message
        assert name in refused.value.message
    with pytest.raises(NotFoundError, match="version 9"):
        letta.templates.agents.create(f"{template}:9")
    with pytest.raises(NotFoundError, match="version 9"):
        letta.templates.rollback(template, version="9")
    with pytest.raises(APIStatusError, match="working version"):
        letta.templates.rollback(template, version="current")
    with pytest.raises(APIStatusError, match="no version"):
        letta.templates.rollback(template, version="many")
    with pytest.raises(ConflictError, match=template):
        letta.templates.create(type="agent", agent_id=origin.id, name=template)
    with pytest.raises(NotFoundError):
        letta.templates.create(type="agent", agent_id=f"agent-{NOBODY}")
    for path in ("nowhere/x", "%00/x", "nowhere/%00"):
        nowhere = http.get(f"/v1/templates/{path}/versions")
        assert nowhere.status_code == 404
        assert "not found in project" in nowhere.json()["detail"]
    assert http.get("/v1/_internal_templates/deployment/%00").json()["entities"] == []


def test_a_refused_deployment_leaves_nothing(
    letta: Letta, http: httpx.Client, template: str
) -> None:
    """Of two agents the second cannot be made: the first goes again, with their block."""
    changed = snapshot(http, f"{template}:current")
    [first] = changed["agents"]
    second = {**first, "entityId": "second", "model": "nobody/knows", "toolVariables": None}
    changed |= {"agents": [first, second], "type": "cluster"}
    changed["relationships"] += [
        {"agentEntityId": "second", "blockEntityId": block["entityId"]}
        for block in changed["blocks"]
    ]
    replace_snapshot(http, template, changed)
    tag = unique("tag")
    with pytest.raises(APIStatusError, match="nobody/knows"):
        letta.templates.agents.create(
            f"{template}:current", memory_variables={"name": tag, "wish": "tea"}, tags=[tag]
        )
    assert http.get("/v1/agents/", params={"tags": tag}).json() == []
    assert http.get("/v1/blocks/", params={"value_search": tag}).json() == []


def test_what_a_request_says_of_its_agents_replaces_what_the_template_says(
    letta: Letta, http: httpx.Client, template: str
) -> None:
    """Its first messages, its identities, and the value of a secret."""
    body = {"identifier_key": unique("key"), "name": "Ada", "identity_type": "user"}
    identity = http.post("/v1/identities", json=body).json()
    greeting = {"role": "assistant", "content": "What is it, Ada?"}
    agent = made(
        letta,
        template,
        identity_ids=[identity["id"]],
        tool_variables={"TOKEN": "of Ada"},
        initial_message_sequence=[greeting],
    )
    shown = letta.agents.retrieve(agent.id, include=["agent.identities", "agent.secrets"])
    assert shown.identity_ids == [identity["id"]]
    assert [(each.key, each.value) for each in shown.secrets or []] == [("TOKEN", "of Ada")]
    messages = letta.agents.messages.list(agent.id, order="asc").items
    assert next(message.message_type for message in messages) == "system_message"
    assert [getattr(message, "content", None) for message in messages][1:] == [greeting["content"]]
    bare = made(letta, template, initial_message_sequence=[])
    assert len(letta.agents.messages.list(bare.id).items) == 1, "the system message alone"


async def test_agents_follow_to_a_new_version(
    letta: Letta, http: httpx.Client, template: str
) -> None:
    """Where it is wanted: configuration, blocks and variables; their own memories if asked."""
    agent = made(letta, f"{template}:1")
    letta.agents.blocks.update("human", agent_id=agent.id, value="She is called Ada.")
    changed = snapshot(http, f"{template}:current")
    changed["agents"][0]["systemPrompt"] = "Be long."
    for block in changed["blocks"]:
        block["preserveOnMigration"] = block["label"] == "human"
    changed["blocks"][1]["value"] = "Never lie, {{name}}."
    changed["blocks"].append({"entityId": "new", "label": "new", "value": "For {{name}}"})
    changed["relationships"].append(
        {"agentEntityId": changed["agents"][0]["entityId"], "blockEntityId": "new"}
    )
    replace_snapshot(http, template, changed)
    saved = letta.templates.save(template, migrate_agents=True)

    def has_followed() -> bool:
        return agent_of(letta, agent.id).template_id == saved.id and "new" in values_of(
            agent_of(letta, agent.id)
        )

    await wait_for("the agent has followed", has_followed)
    after = agent_of(letta, agent.id)
    assert after.system == "Be long."
    assert values_of(after) == {
        "human": "She is called Ada.",
        "rules": "Never lie, Ada.",
        "new": "For Ada",
    }


def test_the_same_key_makes_the_same_agents(
    letta: Letta, http: httpx.Client, template: str
) -> None:
    """A request that is repeated makes nothing twice."""
    asked: dict[str, Any] = {
        "url": f"/v1/templates/{template}:1/agents",
        "json": {"memory_variables": {"name": "Ada", "wish": "tea"}},
        "headers": {"idempotency-key": unique("key")},
    }
    first, second = http.post(**asked), http.post(**asked)
    assert first.status_code == second.status_code == 201
    assert first.json() == second.json()


def file_of_clerk(tool_name: str, **fields: Any) -> dict[str, Any]:
    """An agent file of one agent with a block and a tool of its own."""
    schema = {"name": tool_name, "description": "Say a word.", "parameters": {"type": "object"}}
    tool = {
        "id": "tool-0",
        "name": tool_name,
        "tool_type": "custom",
        "source_type": "python",
        "source_code": TOOL.format(name=tool_name),
        "json_schema": schema,
    }
    config = {
        "model": "gpt-4o-mini",
        "model_endpoint_type": "openai",
        "context_window": 32_000,
        "handle": MODEL,
    }
    agent = {
        "id": "agent-0",
        "name": "clerk",
        "system": "Be kind.",
        "agent_type": "letta_v1_agent",
        "llm_config": config,
        "block_ids": ["block-0"],
        "tool_ids": ["tool-0"],
        "tags": ["filed"],
        "secrets": {"TOKEN": ""},
        "messages": [],
        **fields,
    }
    block = {"id": "block-0", "label": "human", "value": "Called {{name}}"}
    empty: dict[str, Any] = {key: [] for key in ("groups", "files", "sources", "mcp_servers")}
    return {**empty, "agents": [agent], "blocks": [block], "tools": [tool]}


@pytest.mark.operation("PATCH /v1/templates/{template_name}")
def test_a_template_of_an_agent_file_makes_agents(letta: Letta, http: httpx.Client) -> None:
    """Its tool comes with it, unapproved; the value of its secret has to be given."""
    tool_name, name = unique("word").replace("-", "_"), unique("filed")
    filed = file_of_clerk(tool_name)
    letta.templates.create(type="agent_file", agent_file=filed, name=name)
    with pytest.raises(APIStatusError, match="TOKEN"):
        letta.templates.agents.create(name, memory_variables={"name": "Ada"})
    agent = made(letta, name, memory_variables={"name": "Ada"}, tool_variables={"TOKEN": "of Ada"})
    assert values_of(agent) == {"human": "Called Ada"}
    assert agent.system == "Be kind."
    assert agent.tags == ["filed"]
    [tool] = agent.tools
    assert tool.name == tool_name
    assert tool.source_code == TOOL.format(name=tool_name)
    rules = [(rule.type, rule.tool_name) for rule in agent.tool_rules or []]
    assert ("requires_approval", tool_name) in rules
    updated = letta.templates.update(
        name,
        agent_file_json=file_of_clerk(tool_name, system="Be stern."),
        save_existing_changes=True,
    )
    assert updated.success
    assert snapshot(http, f"{name}:current")["agents"][0]["systemPrompt"] == "Be stern."
    assert snapshot(http, f"{name}:latest")["agents"][0]["systemPrompt"] == "Be kind."


def test_a_refused_template_of_a_file_leaves_no_tool(letta: Letta, template: str) -> None:
    """Nor does a file that is none, and its entries are named."""
    tool_name = unique("word").replace("-", "_")
    filed = file_of_clerk(tool_name)
    with pytest.raises(ConflictError):
        letta.templates.create(type="agent_file", agent_file=filed, name=template)
    assert list(letta.tools.list(name=tool_name)) == []
    wrong = file_of_clerk(tool_name, llm_config={"model": 7})
    with pytest.raises(APIStatusError) as refused:
        letta.templates.create(type="agent_file", agent_file=wrong, name=unique("wrong"))
    assert refused.value.status_code == 422
    assert "agents[0].llm_config" in refused.value.message


@pytest.mark.operation("POST /v1/templates/{project_id}")
@pytest.mark.operation("POST /v1/templates/{project_id}/{template_name}")
@pytest.mark.operation("POST /v1/templates/{project_id}/{template_name}/rollback")
@pytest.mark.operation("POST /v1/templates/{project_id}/{template_version}/agents")
@pytest.mark.operation(
    "POST /v1/templates/{project_id}/{template_name}/deployments/{deployment_id}/migrate"
)
@pytest.mark.operation("PUT /v1/templates/{project_id}/{template_name}/agent-file")
@pytest.mark.operation("DELETE /v1/templates/{project_id}/{template_name}")
def test_a_template_of_a_project_is_reached_by_its_id_and_by_its_name(
    letta: Letta, http: httpx.Client, template: str, origin: AgentState
) -> None:
    """The same name is free in another project, and agents are of theirs."""

    def answer(method: str, path: str, **body: Any) -> Any:
        sent = http.request(method, f"/v1/templates/{path}", json=body or None)
        assert sent.is_success, sent.text
        return sent.json()

    project = http.post("/v1/projects", json={"name": unique("My Office")}).json()
    saved = answer("POST", project["id"], type="agent", agent_id=origin.id, name=template)
    assert saved["project_id"] == project["id"]
    assert saved["project_slug"] == project["slug"]
    assert saved["template_deployment_slug"] == f"{project['slug']}/{template}:1"
    in_one_segment = f"{project['slug']}/{template}:9"
    with pytest.raises(NotFoundError, match="version 9"):
        letta.templates.agents.create(in_one_segment, memory_variables={})
    path = f"{project['slug']}/{template}"
    variables = {"name": "Ada", "wish": "tea"}
    deployment = answer("POST", f"{path}:1/agents", memory_variables=variables)
    [agent_id] = deployment["agent_ids"]
    assert agent_of(letta, agent_id).project_id == project["id"]
    tool_name = unique("word").replace("-", "_")
    answer("PUT", f"{path}/agent-file", agent_file_json=file_of_clerk(tool_name))
    assert answer("POST", path, message="Kind")["latest_version"] == "2"
    migrate = f"{path}/deployments/{deployment['deployment_id']}/migrate"
    assert answer("POST", migrate, version="2")["success"]
    after = agent_of(letta, agent_id)
    assert after.system == "Be kind."
    assert values_of(after) == {"human": "Called Ada", "rules": "Never lie."}
    answer("POST", f"{path}/rollback", version="1")
    assert answer("GET", f"{path}/versions")["total_count"] == 2
    assert answer("DELETE", f"{project['id']}/{template}") == {"success": True}
    assert letta.templates.delete(template).success


def test_agents_of_one_template_share_a_block_and_are_a_group(
    letta: Letta, http: httpx.Client, template: str
) -> None:
    """Their manager is not one of its members."""
    changed = snapshot(http, f"{template}:current")
    [first] = changed["agents"]
    second = {**first, "entityId": "second", "toolVariables": None, "systemPrompt": "Manage."}
    [human] = [block for block in changed["blocks"] if block["label"] == "human"]
    changed |= {"agents": [first, second], "type": "supervisor"}
    changed["configuration"] = {"managerAgentEntityId": "second"}
    changed["relationships"].append({"agentEntityId": "second", "blockEntityId": human["entityId"]})
    replace_snapshot(http, template, changed)
    answer = letta.templates.agents.create(
        f"{template}:current", memory_variables={"name": "Ada", "wish": "tea"}
    )
    member, manager = (agent_of(letta, agent_id) for agent_id in answer.agent_ids)
    shared = {block.id for block in member.memory.blocks} & {
        block.id for block in manager.memory.blocks
    }
    assert len(shared) == 1
    group = http.get(f"/v1/groups/{answer.group_id}").json()
    assert group["agent_ids"] == [member.id]
    assert group["manager_agent_id"] == manager.id
    assert group["deployment_id"] == answer.deployment_id
    listed = http.get(f"/v1/_internal_templates/deployment/{answer.deployment_id}").json()
    assert {each["type"] for each in listed["entities"]} == {"agent", "block", "group"}


@pytest.fixture
def origin_ids() -> dict[str, str]:
    """What things of a deployment that is kept elsewhere say of it."""
    names = ("template_id", "base_template_id", "deployment_id")
    return {name: unique(name) for name in names}


@pytest.mark.operation("POST /v1/_internal_templates/agents")
@pytest.mark.operation("POST /v1/_internal_templates/blocks")
@pytest.mark.operation("POST /v1/_internal_templates/blocks/batch")
@pytest.mark.operation("POST /v1/_internal_templates/groups")
@pytest.mark.operation("GET /v1/_internal_templates/deployment/{deployment_id}")
@pytest.mark.operation("DELETE /v1/_internal_templates/deployment/{deployment_id}")
def test_things_of_a_deployment_are_made_listed_and_deleted(
    http: httpx.Client, origin_ids: dict[str, str]
) -> None:
    """They say where they are from; other things stay."""

    def create(kind: str, body: Any) -> Any:
        answer = http.post(f"/v1/_internal_templates/{kind}", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    block = create("blocks", {**origin_ids, "entity_id": "b1", "label": "a", "value": "x"})
    labelled = [
        {**origin_ids, "entity_id": label, "label": label, "value": label} for label in ("b", "c")
    ]
    batch = create("blocks/batch", labelled)
    assert [each["label"] for each in batch] == ["b", "c"]
    no_tool = "tool-00000000-0000-4000-8000-000000000000"
    agent = create(
        "agents",
        {
            **origin_ids,
            "entity_id": "a1",
            "model": MODEL,
            "block_ids": [block["id"]],
            "tool_ids": [no_tool],
        },
    )
    group = create("groups", {**origin_ids, "agent_ids": [agent["id"]], "description": "g"})
    for each in (block, *batch, agent, group):
        assert {name: each[name] for name in origin_ids} == origin_ids
    assert agent["entity_id"] == "a1"
    path = f"/v1/_internal_templates/deployment/{origin_ids['deployment_id']}"
    listed = http.get(path).json()
    made = {"block": {block["id"], *(each["id"] for each in batch)}}
    made |= {"agent": {agent["id"]}, "group": {group["id"]}}
    assert listed["total_count"] == 5
    for kind, ids in made.items():
        assert {each["id"] for each in listed["entities"] if each["type"] == kind} == ids
    only = http.get(path, params={"entity_types": "agent,group"}).json()
    assert {each["type"] for each in only["entities"]} == {"agent", "group"}
    deleted = http.delete(path).json()
    for kind, ids in made.items():
        assert set(deleted[f"deleted_{kind}s"]) == ids
    assert http.get(path).json()["entities"] == []
    assert http.get(f"/v1/agents/{agent['id']}").status_code == 404
    assert http.get(f"/v1/groups/{group['id']}").status_code == 404
