"""Agents: every field comes back as it was sent, changes as it was changed, and goes for good."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from letta_client import ConflictError, Letta, NotFoundError
from letta_client.types import AgentState

from tests.e2e.asking import EMBEDDING, MODEL, NOBODY, TIMESTAMP, USER, is_id, says, unique
from tests.e2e.conftest import NewAgent
from tests.servers import wait_until

EVERYTHING = [
    "agent.blocks",
    "agent.identities",
    "agent.managed_group",
    "agent.pending_approval",
    "agent.secrets",
    "agent.sources",
    "agent.tags",
    "agent.tools",
]
DEFAULT_TOOLS = ["conversation_search", "memory_insert", "memory_replace"]

FIELDS: dict[str, Any] = {
    "agent_type": "letta_v1_agent",
    "system": "You are a librarian.",
    "description": "Knows the shelves",
    "metadata": {"floor": 3, "rooms": ["a", "b"], "nested": {"yes": True, "none": None}},
    "model": MODEL,
    "embedding": EMBEDDING,
    "embedding_chunk_size": 512,
    "context_window_limit": 16_000,
    "model_settings": {
        "provider_type": "openai",
        "temperature": 0.25,
        "max_output_tokens": 1_234,
        "parallel_tool_calls": False,
        "reasoning": {"reasoning_effort": "low"},
        "response_format": {"type": "text"},
        "strict": True,
    },
    "compaction_settings": {
        "mode": "all",
        "model": "openai/gpt-4.1-mini",
        "prompt": "Be short.",
        "clip_chars": 1_000,
        "prompt_acknowledgement": True,
        "sliding_window_percentage": 0.5,
    },
    "include_base_tool_rules": False,
    "tags": ["beta", "alpha"],
    "response_format": {"type": "json_object"},
    "project_id": "project-of-the-library",
    "template_id": "template-1",
    "base_template_id": "base-template-1",
    "message_buffer_autoclear": False,
    "timezone": "Europe/Berlin",
    "max_files_open": 7,
    "per_file_view_window_char_limit": 9_000,
    "hidden": False,
}


@pytest.mark.operation("POST /v1/agents/")
@pytest.mark.operation("GET /v1/agents/{agent_id}")
def test_every_field_of_a_new_agent_comes_back(
    letta: Letta, http: httpx.Client, legacy: httpx.Client
) -> None:
    shared = letta.blocks.create(label="shelves", value="A to Z", description="Where what is")
    name = unique("Liesl's agent")

    created = letta.agents.create(
        name=name,
        memory_blocks=[
            {"label": "human", "value": "Name: Ada"},
            {
                "label": "rules",
                "value": "IdleTimeout.",
                "limit": 500,
                "description": "House rules",
                "read_only": True,
                "metadata": {"by": "the head"},
                "tags": ["house"],
                "hidden": False,
                "project_id": "project-of-the-library",
            },
        ],
        block_ids=[shared.id],
        **FIELDS,
    )
    whole = http.get(f"/v1/agents/{created.id}", params={"include": EVERYTHING}).json()
    human, rules, shelves = whole["blocks"]
    block: dict[str, Any] = {
        "limit": 100_000,
        "project_id": None,
        "template_name": None,
        "is_template": False,
        "template_id": None,
        "base_template_id": None,
        "deployment_id": None,
        "entity_id": None,
        "preserve_on_migration": False,
        "read_only": False,
        "metadata": {},
        "hidden": None,
        "created_by_id": None,
        "last_updated_by_id": None,
        "tags": [],
    }

    assert is_id("agent", created.id)
    assert human == {
        **block,
        "id": human["id"],
        "label": "human",
        "value": "Name: Ada",
        "description": human["description"],
    }
    assert human["description"].startswith("The human block")
    assert rules == {
        **block,
        "id": rules["id"],
        "label": "rules",
        "value": "IdleTimeout.",
        "limit": 500,
        "description": "House rules",
        "read_only": True,
        "metadata": {"by": "the head"},
        "tags": ["house"],
        "hidden": False,
        "project_id": "project-of-the-library",
    }
    assert shelves == {
        **block,
        "id": shared.id,
        "label": "shelves",
        "value": "A to Z",
        "description": "Where what is",
    }
    assert [tool["name"] for tool in whole["tools"]] == DEFAULT_TOOLS
    settings = FIELDS["model_settings"]
    llm = whole["llm_config"]
    assert (llm["handle"], llm["model"], llm["model_endpoint_type"]) == (
        MODEL,
        "gpt-4o-mini",
        "openai",
    )
    assert (llm["context_window"], llm["temperature"], llm["max_tokens"]) == (16_000, 0.25, 1_234)
    assert (llm["parallel_tool_calls"], llm["reasoning_effort"], llm["strict"]) == (
        False,
        "low",
        True,
    )
    assert llm["response_format"] == {"type": "json_object"}
    embedding = whole["embedding_config"]
    assert (embedding["handle"], embedding["embedding_model"], embedding["embedding_dim"]) == (
        EMBEDDING,
        "text-embedding-3-small",
        1536,
    )
    assert embedding["embedding_chunk_size"] == 512
    assert TIMESTAMP.fullmatch(whole["created_at"])
    assert whole == {
        "created_by_id": USER,
        "last_updated_by_id": USER,
        "created_at": whole["created_at"],
        "updated_at": whole["created_at"],
        "id": created.id,
        "name": name,
        "tool_rules": [],
        "message_ids": whole["message_ids"],
        "system": "You are a librarian.",
        "agent_type": "letta_v1_agent",
        "llm_config": llm,
        "embedding_config": embedding,
        "model": MODEL,
        "embedding": EMBEDDING,
        "model_settings": {**settings, "response_format": {"type": "json_object"}},
        "compaction_settings": {**FIELDS["compaction_settings"], "model_settings": None},
        "response_format": {"type": "json_object"},
        "description": "Knows the shelves",
        "metadata": FIELDS["metadata"],
        "memory": {
            "agent_type": "letta_v1_agent",
            "git_enabled": False,
            "blocks": whole["blocks"],
            "file_blocks": [],
            "prompt_template": "",
        },
        "blocks": whole["blocks"],
        "tools": whole["tools"],
        "sources": [],
        "tags": ["alpha", "beta"],
        "tool_exec_environment_variables": [],
        "secrets": [],
        "project_id": "project-of-the-library",
        "template_id": "template-1",
        "base_template_id": "base-template-1",
        "deployment_id": None,
        "entity_id": None,
        "identity_ids": [],
        "identities": [],
        "pending_approval": None,
        "message_buffer_autoclear": False,
        "enable_sleeptime": None,
        "multi_agent_group": None,
        "managed_group": None,
        "last_run_completion": None,
        "last_run_duration_ms": None,
        "last_stop_reason": None,
        "timezone": "Europe/Berlin",
        "max_files_open": 7,
        "per_file_view_window_char_limit": 9_000,
        "hidden": False,
    }
    assert len(whole["message_ids"]) == 1
    assert is_id("message", whole["message_ids"][0])

    # The reply to the creation, and what clients before SDK 1.0 see, are the whole agent.
    assert created.to_dict(mode="json") == letta.agents.retrieve(
        created.id,
        include=EVERYTHING,  # type: ignore[arg-type]
    ).to_dict(mode="json")
    assert legacy.get(f"/v1/agents/{created.id}").json() == whole
    # An SDK since 1.0 sees relationships only if it asks.
    bare = http.get(f"/v1/agents/{created.id}").json()
    nothing: dict[str, Any] = {"blocks": [], "tools": [], "tags": []}
    assert bare == {**whole, **nothing, "memory": {**whole["memory"], "blocks": []}}
    for include, shown in (
        (["agent.blocks"], {"blocks": whole["blocks"], "memory": whole["memory"]}),
        (["agent.tools"], {"tools": whole["tools"]}),
        (["agent.tags"], {"tags": ["alpha", "beta"]}),
    ):
        part = http.get(f"/v1/agents/{created.id}", params={"include": include}).json()
        assert part == {**bare, **shown}


@pytest.mark.operation("POST /v1/agents/")
def test_an_agent_without_wishes_has_the_defaults(letta: Letta) -> None:
    agent = letta.agents.create(model=MODEL)

    assert agent.name
    assert agent.agent_type == "letta_v1_agent"
    assert agent.model == MODEL
    assert agent.embedding is None
    assert agent.embedding_config is None
    assert agent.blocks == []
    assert agent.tags == []
    assert [tool.name for tool in agent.tools] == DEFAULT_TOOLS
    assert agent.tool_rules == []
    assert agent.timezone == "UTC"
    assert agent.message_buffer_autoclear is False
    assert agent.description is None
    assert agent.metadata is None
    assert "memory" in agent.system
    assert agent.llm_config.context_window == 128_000
    assert agent.created_by_id == agent.last_updated_by_id == USER
    assert letta.agents.create(model=MODEL).name != agent.name


@pytest.mark.operation("POST /v1/agents/")
@pytest.mark.operation("GET /v1/agents/{agent_id}/tools")
def test_tools_come_by_name_by_id_and_by_default(letta: Letta, new_agent: NewAgent) -> None:
    by_name = new_agent(tools=["memory_insert"], include_base_tools=False)
    tool = by_name.tools[0]
    by_id = new_agent(tool_ids=[tool.id], include_base_tools=False)
    both = new_agent(tools=["memory_rethink"], tool_ids=[tool.id])

    assert [tool.name for tool in by_name.tools] == ["memory_insert"]
    assert [tool.id for tool in by_id.tools] == [tool.id]
    assert [tool.name for tool in both.tools] == sorted([*DEFAULT_TOOLS, "memory_rethink"])
    assert [tool.to_dict() for tool in letta.agents.tools.list(by_name.id)] == [tool.to_dict()]
    assert tool.tool_type == "letta_sleeptime_core"
    assert tool.description
    assert tool.json_schema
    assert tool.json_schema["name"] == "memory_insert"
    assert (tool.return_char_limit, tool.source_type, tool.tags) == (
        50_000,
        "python",
        ["letta_sleeptime_core"],
    )
    assert new_agent(include_base_tools=False).tools == []


@pytest.mark.operation("POST /v1/agents/")
@pytest.mark.operation("PATCH /v1/agents/{agent_id}")
def test_an_agent_has_identical_tool_rules_once(letta: Letta, new_agent: NewAgent) -> None:
    def limited(times: int) -> dict[str, Any]:
        rule = {"type": "max_count_per_step", "tool_name": "memory_insert"}
        return {**rule, "max_count_limit": times}

    def limits(agent: AgentState) -> list[Any]:
        rules = [rule.to_dict() for rule in agent.tool_rules or []]
        return [rule["max_count_limit"] for rule in rules if "max_count_limit" in rule]

    agent = new_agent(tool_rules=[limited(2), limited(2), limited(3), limited(2)])
    assert limits(agent) == [2, 3]
    rules: Any = [limited(1), limited(2), limited(1)]
    assert limits(letta.agents.update(agent.id, tool_rules=rules)) == [1, 2]
    assert limits(letta.agents.retrieve(agent.id)) == [1, 2]


@pytest.mark.operation("POST /v1/agents/")
@pytest.mark.operation("GET /v1/agents/{agent_id}/messages")
def test_an_agent_may_begin_with_messages(letta: Letta, new_agent: NewAgent) -> None:
    agent = new_agent(
        initial_message_sequence=[
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": "Hello yourself"},
        ]
    )

    system, user, assistant = letta.agents.messages.list(agent.id).items
    assert (system.message_type, user.message_type, assistant.message_type) == (
        "system_message",
        "user_message",
        "assistant_message",
    )
    assert user.content == "Hello"
    assert assistant.content == "Hello yourself"
    assert agent.message_ids == [system.id, user.id, assistant.id]
    assert "Name: Ada" in str(system.content)


@pytest.mark.operation("POST /v1/agents/")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("from_template", "a-template"),
        ("memory_variables", {"name": "value"}),
    ],
)
def test_what_has_no_effect_is_refused_by_name(
    letta: Letta, http: httpx.Client, field: str, value: object
) -> None:
    name = unique("refused")
    block = unique("label")
    body = {"name": name, "model": MODEL, "memory_blocks": [{"label": block, "value": ""}]}

    answer = http.post("/v1/agents/", json={**body, field: value})

    assert answer.status_code == 400
    assert f"`{field}`" in answer.json()["detail"]
    assert "/v1/templates" in answer.json()["detail"]
    assert letta.agents.list(name=name).items == []
    assert letta.blocks.list(label=block).items == []


@pytest.mark.operation("POST /v1/agents/")
def test_an_agent_that_cannot_be_leaves_nothing_behind(letta: Letta, http: httpx.Client) -> None:
    label = unique("label")
    block = letta.blocks.create(label=label, value="mine")
    for wrong, status, said in (
        ({"model": "nope/nope"}, 404, "Handle nope/nope not found"),
        ({"model": "no-slash"}, 400, "no-slash"),
        ({"embedding": "openai/nope"}, 404, "openai/nope"),
        ({"folder_ids": [f"source-{NOBODY}"]}, 404, f"source-{NOBODY}"),
        ({"source_ids": [f"source-{NOBODY}"]}, 404, f"source-{NOBODY}"),
        ({"tools": ["nope"]}, 404, "nope"),
        ({"tool_ids": [f"tool-{NOBODY}"]}, 404, f"tool-{NOBODY}"),
        ({"block_ids": [f"block-{NOBODY}"]}, 404, f"block-{NOBODY}"),
        ({"block_ids": ["nope"]}, 422, "nope"),
        ({"block_ids": [block.id]}, 409, label),
        ({"memory_blocks": [{"label": label, "value": "ab", "limit": 1}]}, 422, "`limit` of 1"),
        ({"timezone": "Mars/Base"}, 400, "Mars/Base"),
        ({"name": "a/b"}, 400, "a/b"),
        ({"agent_type": "nope"}, 422, "agent_type"),
    ):
        name = unique("impossible")
        body = {"name": name, "model": MODEL, "memory_blocks": [{"label": label, "value": ""}]}

        answer = http.post("/v1/agents/", json={**body, **wrong})

        assert answer.status_code == status, (wrong, answer.text)
        assert said in answer.json()["detail"], answer.text
        assert letta.agents.list(name=name).items == []
    assert [block.id for block in letta.blocks.list(label=label).items] == [block.id]


UPDATES: dict[str, tuple[Any, dict[str, Any]]] = {
    "name": ("Renamed", {}),
    "system": ("You are a pirate.", {}),
    "description": ("New description", {}),
    "metadata": ({"b": [1, 2]}, {}),
    "tags": (["y", "x"], {"tags": ["x", "y"]}),
    "timezone": ("Asia/Tokyo", {}),
    "project_id": ("another-project", {}),
    "template_id": ("template-2", {}),
    "base_template_id": ("base-template-2", {}),
    "hidden": (True, {}),
    "message_buffer_autoclear": (False, {}),
    "max_files_open": (3, {}),
    "per_file_view_window_char_limit": (4_000, {}),
    "model": ("openai/gpt-4.1", {}),
    "embedding": ("openai/text-embedding-3-large", {}),
    "response_format": ({"type": "json_object"}, {}),
    "compaction_settings": (
        {
            "mode": "self_compact_all",
            "model": MODEL,
            "prompt": "Mine.",
            "clip_chars": 9,
            "prompt_acknowledgement": False,
            "sliding_window_percentage": 0.1,
        },
        {},
    ),
}


@pytest.mark.operation("PATCH /v1/agents/{agent_id}")
@pytest.mark.operation("GET /v1/agents/{agent_id}")
@pytest.mark.parametrize("field", UPDATES)
def test_a_field_changes_alone(
    letta: Letta, http: httpx.Client, new_agent: NewAgent, field: str
) -> None:
    agent = new_agent(description="Old description", tags=["old"])
    before = http.get(f"/v1/agents/{agent.id}", params={"include": EVERYTHING}).json()
    value, expected = UPDATES[field]

    updated = letta.agents.update(agent.id, **{field: value})

    after = http.get(f"/v1/agents/{agent.id}", params={"include": EVERYTHING}).json()
    shown = expected.get(field, value)
    if field == "compaction_settings":
        shown = {**shown, "model_settings": None}
    assert after[field] == shown
    follows = {"updated_at", field}
    follows |= {
        "model": {"llm_config", "model_settings", "max_files_open",
                  "per_file_view_window_char_limit"},
        "embedding": {"embedding_config"},
        "response_format": {"llm_config", "model_settings"},
    }.get(field, set())  # fmt: skip
    unchanged = before.keys() - follows
    assert {key: after[key] for key in unchanged} == {key: before[key] for key in unchanged}
    assert after["updated_at"] > before["updated_at"]
    everything = letta.agents.retrieve(agent.id, include=EVERYTHING)  # type: ignore[arg-type]
    assert updated.to_dict(mode="json") == everything.to_dict(mode="json")


@pytest.mark.operation("PATCH /v1/agents/{agent_id}")
def test_the_model_settings_change_one_by_one(letta: Letta, new_agent: NewAgent) -> None:
    agent = new_agent()

    letta.agents.update(agent.id, context_window_limit=9_000)
    letta.agents.update(agent.id, parallel_tool_calls=False)
    updated = letta.agents.update(
        agent.id,
        model_settings={
            "provider_type": "openai",
            "temperature": 0.5,
            "max_output_tokens": 99,
            "parallel_tool_calls": True,
        },
    )

    read = letta.agents.retrieve(agent.id)
    for state in (updated, read):
        assert state.model == MODEL
        assert state.llm_config.context_window == 9_000
        assert state.llm_config.temperature == 0.5
        assert state.llm_config.max_tokens == 99
        assert state.api_model_settings is not None
        assert state.api_model_settings.max_output_tokens == 99
        assert state.api_model_settings.parallel_tool_calls is True


@pytest.mark.operation("PATCH /v1/agents/{agent_id}")
def test_tools_and_blocks_are_replaced_as_lists(letta: Letta, new_agent: NewAgent) -> None:
    agent = new_agent()
    keep = next(tool for tool in agent.tools if tool.name == "memory_insert")
    block = letta.blocks.create(label="only", value="this")

    letta.agents.update(agent.id, tool_ids=[keep.id], block_ids=[block.id])

    read = letta.agents.retrieve(agent.id, include=["agent.tools", "agent.blocks"])
    assert [tool.name for tool in read.tools] == ["memory_insert"]
    assert [block.id for block in read.blocks] == [block.id]
    for old in agent.blocks:
        assert letta.blocks.retrieve(str(old.id)).value == old.value


@pytest.mark.operation("PATCH /v1/agents/{agent_id}")
def test_fields_can_be_emptied(letta: Letta, http: httpx.Client, new_agent: NewAgent) -> None:
    agent = new_agent(
        description="d", metadata={"a": 1}, tags=["t"], response_format={"type": "json_object"}
    )

    emptied = {"description": None, "metadata": None, "response_format": None, "tags": []}
    http.patch(f"/v1/agents/{agent.id}", json=emptied).raise_for_status()

    read = http.get(f"/v1/agents/{agent.id}", params={"include": EVERYTHING}).json()
    assert {field: read[field] for field in emptied} == emptied


@pytest.mark.operation("PATCH /v1/agents/{agent_id}")
def test_a_change_that_cannot_be_changes_nothing(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    clashing = letta.blocks.create(label="human", value="")
    path = f"/v1/agents/{agent.id}"
    before = http.get(path, params={"include": EVERYTHING}).json()
    for wrong, status, said in (
        ({"model": "nope/nope"}, 404, "nope/nope"),
        ({"timezone": "Mars/Base"}, 400, "Mars/Base"),
        ({"tool_ids": [f"tool-{NOBODY}"]}, 404, f"tool-{NOBODY}"),
        ({"block_ids": [f"block-{NOBODY}"]}, 404, f"block-{NOBODY}"),
        ({"block_ids": [clashing.id, str(agent.blocks[0].id)]}, 409, "human"),
        ({"secrets": {"A=": "b"}}, 422, "`secrets`"),
        ({"folder_ids": [f"source-{NOBODY}"]}, 404, f"source-{NOBODY}"),
        ({"source_ids": [f"source-{NOBODY}"] * 2}, 404, f"source-{NOBODY}"),
        ({"identity_ids": [f"identity-{NOBODY}"]}, 404, f"identity-{NOBODY}"),
        ({"message_ids": [f"message-{NOBODY}"]}, 400, "`message_ids`"),
        ({"name": 5}, 422, "name"),
        ({"tags": "x"}, 422, "tags"),
    ):
        answer = http.patch(path, json={"description": "half done", **wrong})

        assert answer.status_code == status, (wrong, answer.text)
        assert said in answer.json()["detail"], answer.text
        assert http.get(path, params={"include": EVERYTHING}).json() == before
    missing = http.patch(f"/v1/agents/agent-{NOBODY}", json={"name": "x"})
    assert missing.status_code == 404


@pytest.mark.operation("DELETE /v1/agents/{agent_id}")
def test_a_deleted_agent_is_gone_with_what_only_it_had(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    standalone = letta.blocks.create(label="standalone", value="stays")
    agent = new_agent(name=unique("doomed"), tags=[unique("tag")], block_ids=[standalone.id])
    own, shared = (str(block.id) for block in agent.blocks[:2])
    heir = new_agent(memory_blocks=[], block_ids=[shared])
    letta.agents.messages.create(agent.id, messages=says("remember me"))
    run = letta.runs.list(agent_id=agent.id).items[0]

    answer = http.delete(f"/v1/agents/{agent.id}")

    assert answer.json() == {"message": f"Agent id={agent.id} successfully deleted"}
    for path in (
        f"/v1/agents/{agent.id}",
        f"/v1/agents/{agent.id}/messages",
        f"/v1/agents/{agent.id}/tools",
        f"/v1/agents/{agent.id}/core-memory",
        f"/v1/agents/{agent.id}/core-memory/blocks",
        f"/v1/agents/{agent.id}/core-memory/blocks/human",
        f"/v1/runs/{run.id}",
        f"/v1/runs/{run.id}/usage",
    ):
        assert http.get(path).status_code == 404, path
    assert letta.agents.list(name=agent.name).items == []
    assert letta.agents.list(tags=agent.tags).items == []
    assert letta.runs.list(agent_id=agent.id).items == []
    wait_until("block gone", lambda: http.get(f"/v1/blocks/{own}").status_code == 404, 10)
    assert letta.blocks.retrieve(shared).value == "I am kind."
    assert letta.blocks.retrieve(standalone.id).value == "stays"
    assert [
        block.id for block in letta.agents.retrieve(heir.id, include=["agent.blocks"]).blocks
    ] == [shared]
    for again in (
        http.delete(f"/v1/agents/{agent.id}"),
        http.patch(f"/v1/agents/{agent.id}", json={"name": "x"}),
        http.post(f"/v1/agents/{agent.id}/messages", json={"messages": says("hi")}),
    ):
        assert again.status_code == 404
        assert again.json() == {"detail": f"Agent with ID {agent.id} not found"}
    with pytest.raises(NotFoundError):
        letta.agents.retrieve(agent.id)


@pytest.mark.operation("GET /v1/agents/{agent_id}/core-memory")
def test_core_memory_is_the_memory_of_the_agent(http: httpx.Client, new_agent: NewAgent) -> None:
    agent = new_agent()

    memory = http.get(f"/v1/agents/{agent.id}/core-memory").json()

    whole = http.get(f"/v1/agents/{agent.id}", params={"include": EVERYTHING}).json()
    assert memory == whole["memory"]
    assert [block["value"] for block in memory["blocks"]] == ["Name: Ada", "I am kind."]


@pytest.mark.operation("POST /v1/agents/")
def test_two_own_blocks_need_two_labels(letta: Letta) -> None:
    name = unique("twins")
    twins: Any = [{"label": "a", "value": "1"}, {"label": "a", "value": "2"}]
    with pytest.raises(ConflictError, match="label 'a'"):
        letta.agents.create(name=name, model=MODEL, memory_blocks=twins)
    assert letta.agents.list(name=name).items == []


@pytest.mark.operation("POST /v1/agents/")
@pytest.mark.operation("PATCH /v1/agents/{agent_id}")
@pytest.mark.operation("POST /v1/agents/{agent_id}/messages")
def test_a_model_config_without_a_handle_is_answered_by_who_offers_the_model(
    letta: Letta, http: httpx.Client
) -> None:
    config = {
        "model": MODEL.partition("/")[2],
        "model_endpoint_type": "openai",
        "model_endpoint": "https://api.openai.com/v1",
        "context_window": 9_000,
    }
    made = http.post("/v1/agents/", json={"name": unique("no-handle"), "llm_config": config})
    assert made.status_code == 200, made.text
    path = f"/v1/agents/{made.json()['id']}"
    assert made.json()["llm_config"]["handle"] is None
    for wrong in ({"model": "nope"}, {"model_endpoint_type": "groq"}, {"handle": "nope/nope"}):
        name = unique("unroutable")
        body = {"llm_config": {**config, **wrong}}
        for refused in (
            http.post("/v1/agents/", json={"name": name, **body}),
            http.patch(path, json=body),
        ):
            assert refused.status_code == 400, refused.text
            assert "`llm_config.handle`" in refused.json()["detail"]
        assert letta.agents.list(name=name).items == []
    for change in ({}, {"llm_config": {**config, "context_window": 8_000}}):
        assert http.patch(path, json=change).status_code == 200
        said = {"messages": [{"role": "user", "content": "SAY:here"}]}
        answer = http.post(f"{path}/messages", json=said)
        assert answer.status_code == 200, answer.text
        assert answer.json()["messages"][-1]["content"] == "here"
    letta.agents.delete(made.json()["id"])
