"""Agents become agent files of the form that the retired server wrote."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from libs.contracts.agent.conversations import Message, ReasoningPart, ToolCall
from libs.contracts.letta.agent_state import AgentConfig, Relationships, agent_state
from libs.contracts.letta.blocks import BlockState, block_state
from libs.contracts.letta.model_configs import LLMConfig
from libs.contracts.letta.tools import ToolState, tool_state
from libs.contracts.tools.base_tools.catalogue import SERVER_TOOLS, base_tool_state
from services.api.v1.agent_file.agent_file_document import (
    Export,
    ExportedAgent,
    agent_file_document,
    legacy_document,
)
from services.api.v1.agent_file.exported_messages import with_said_results
from tests.unit.api.agent_files.small_agent_files import (
    LLM_CONFIG,
    NOW,
    ROLL_SCHEMA,
    SOURCE_CODE,
    events,
    lines_of,
    messages,
    options,
    payload,
    texts,
)
from tests.unit.letta import recordings

AGENT, OTHER = (f"agent-{digit * 8}-1111-4111-8111-111111111111" for digit in "12")


def message_id(number: int) -> str:
    """The id of a message."""
    return f"message-{number:08}-1111-4111-8111-111111111111"


def said(number: int, role: Any, content: Any = None, **fields: Any) -> Message:
    """A message."""
    at = datetime(2026, 11, 21, 21, 48, number, 5, tzinfo=UTC)
    return Message(id=message_id(number), role=role, content=content, created_at=at, **fields)


CONVERSATION = (
    said(0, "system", "You are Ada, with blocks."),
    said(1, "user", "hi there", otid="otid-1"),
    said(
        2,
        "assistant",
        reasoning_parts=[ReasoningPart(text="Hm.", signature="sig")],
        tool_calls=[ToolCall(id="call-1", name="roll", arguments='{"sides": 6}')],
    ),
    said(3, "tool", "4", name="roll", tool_call_id="call-1", tool_status="success"),
    said(4, "assistant", "A four."),
)


def document(agent_id: str = AGENT, **fields: Any) -> Any:
    """An agent as clients read it, with its relationships."""
    config = AgentConfig(
        id=agent_id,
        name="Ada",
        system="You are Ada.",
        llm_config=LLMConfig.model_validate(LLM_CONFIG),
        tool_rules=[{"type": "exit_loop", "tool_name": "roll", "prompt_template": None}],
        created_at=NOW,
        updated_at=NOW,
        **fields,
    )
    block = BlockState(id="block-9", label="human", value="Likes tea.", tags=["t"])
    roll = ToolState(id="tool-9", name="roll", source_code=SOURCE_CODE, json_schema=ROLL_SCHEMA)
    tools = [base_tool_state(SERVER_TOOLS["memory_insert"]), tool_state(roll)]
    return agent_state(
        config,
        Relationships(
            blocks=[block_state(block)],
            tools=tools,
            sources=[{"id": "source-9", "name": "notes"}],
            tags=["t1"],
            secrets=[{"key": "KEY", "value": "hunter2"}],
        ),
    )


def export(**fields: Any) -> Export:
    """An export of one agent."""
    agent = ExportedAgent(
        document=document(),
        messages=CONVERSATION,
        in_context=[message.id for message in CONVERSATION],
        files=[{"file_id": "file-9", "folder_id": "source-9", "name": "notes/a.txt"}],
    )
    folders = [{"id": "source-9", "name": "notes", "description": None}]
    files = [
        {
            "id": "file-9",
            "source_id": "source-9",
            "file_name": "a.txt",
            "file_type": "text/plain",
            "content": "Tea is hot.",
        }
    ]
    things: dict[str, Any] = {"agents": [agent], "folders": folders, "files": files, "at": NOW}
    return Export(**{**things, **fields})


async def test_a_file_has_the_fields_that_the_retired_server_wrote_in_their_order() -> None:
    recorded: Any = recordings.exchange("agent_export")["body"]
    written: Any = await agent_file_document(export())
    assert [*written] == [*recorded]
    assert [*written["agents"][0]] == [*recorded["agents"][0]]
    assert [*written["blocks"][0]] == [*recorded["blocks"][0]]
    assert [*written["tools"][0]] == [*recorded["tools"][0]]
    assert written["metadata"] == recorded["metadata"]
    for ours, theirs in zip(
        written["agents"][0]["messages"], recorded["agents"][0]["messages"][:3], strict=False
    ):
        assert [*ours] == [*theirs]


async def test_messages_are_written_as_the_retired_server_stores_them() -> None:
    recorded: Any = recordings.exchange("agent_export")["body"]["agents"][0]["messages"]
    written: Any = (await agent_file_document(export()))["agents"]
    system, user, called, result, _ = written[0]["messages"]
    assert user["content"] == recorded[1]["content"]
    assert (user["otid"], user["model"]) == ("otid-1", None)
    assert system["model"] == called["model"] == "gpt-4o-mini"
    assert called["content"] == [
        {"type": "reasoning", "is_native": True, "reasoning": "Hm.", "signature": "sig"}
    ]
    assert [*called["tool_calls"][0]] == [*recorded[4]["tool_calls"][0]]
    assert [*result["tool_returns"][0]] == [*recorded[5]["tool_returns"][0]]
    wrapped = json.loads(result["content"][0]["text"])
    assert wrapped == {
        "status": "OK",
        "message": "4",
        "time": "2026-11-21 09:48:03 PM UTC+0000",
    }
    assert result["created_at"] == "2026-11-21T21:48:03.000005+00:00"


async def test_ids_are_those_of_the_file_and_secrets_have_no_values() -> None:
    written: Any = await agent_file_document(export())
    agent = written["agents"][0]
    assert (agent["id"], agent["tool_ids"]) == ("agent-0", ["tool-0", "tool-1"])
    assert (agent["block_ids"], agent["source_ids"]) == (["block-0"], ["source-0"])
    assert agent["in_context_message_ids"] == [f"message-{number}" for number in range(5)]
    assert agent["tool_exec_environment_variables"] == {"KEY": ""}
    assert "hunter2" not in json.dumps(written)
    assert AGENT not in json.dumps(written)
    assert agent["files_agents"][0]["file_id"] == written["files"][0]["id"] == "file-0"


async def test_a_group_comes_with_its_agents() -> None:
    group = {
        "id": "group-9",
        "manager_type": "sleeptime",
        "manager_agent_id": AGENT,
        "sleeptime_agent_frequency": 5,
        "agent_ids": [OTHER],
        "shared_block_ids": ["block-9"],
        "description": "d",
        "hidden": None,
    }
    first = ExportedAgent(document={**document(), "managed_group": group})
    second = ExportedAgent(document=document(OTHER))
    written: Any = await agent_file_document(export(agents=[first, second]))
    assert [agent["id"] for agent in written["agents"]] == ["agent-0", "agent-1"]
    assert written["agents"][0]["group_ids"] == ["group-0"]
    [exported] = written["groups"]
    assert exported["agent_ids"] == ["agent-1"]
    assert exported["manager_config"] == {
        "manager_type": "sleeptime",
        "manager_agent_id": "agent-0",
        "sleeptime_agent_frequency": 5,
    }
    assert exported["shared_block_ids"] == ["block-0"]
    assert len(written["blocks"]) == 1


async def test_a_kind_of_group_that_the_retired_server_has_not_becomes_the_simplest() -> None:
    group = {"id": "group-9", "manager_type": "broadcast", "agent_ids": [AGENT]}
    agent = ExportedAgent(document={**document(), "managed_group": group})
    written: Any = await agent_file_document(export(agents=[agent]))
    assert written["groups"][0]["manager_config"]["manager_type"] == "round_robin"


async def test_an_mcp_server_comes_without_its_secrets() -> None:
    servers = [
        {
            "id": "mcp_server-9",
            "mcp_server_type": "streamable_http",
            "server_name": "exa",
            "server_url": "https://mcp.example.com/mcp?key=hunter2",
            "auth_token": "hunter2",
            "custom_headers": {"authorization": "hunter2"},
        },
        {
            "id": "mcp_server-8",
            "mcp_server_type": "stdio",
            "server_name": "local",
            "command": "npx",
            "args": ["exa"],
            "env": {"KEY": "hunter2"},
        },
    ]
    written: Any = await agent_file_document(export(mcp_servers=servers))
    assert "hunter2" not in json.dumps(written)
    remote, local = written["mcp_servers"]
    assert (remote["id"], remote["server_url"]) == ("mcp_server-0", "https://mcp.example.com/mcp")
    assert local["stdio_config"]["command"] == "npx"


async def test_what_is_written_is_read_again() -> None:
    written = await agent_file_document(export(skills=[{"name": "s", "files": None}]))
    lines = lines_of(json.loads(json.dumps(written)), options(tools_accepted=True))
    created = payload(lines, "agent.created")["config"]
    kept = ("name", "system", "agent_type", "llm_config", "tool_rules", "description", "timezone")
    wanted = document()
    assert {name: created[name] for name in kept} == {name: wanted[name] for name in kept}
    assert payload(lines, "block.created")["block"]["value"] == "Likes tea."
    assert [chunk.text for chunk in texts(lines)[0].chunks] == ["Tea is hot."]
    assert events(lines, "context.replaced") == []
    same = ("role", "content", "created_at", "reasoning_parts", "tool_call_id", "tool_status")
    for ours, original in zip(messages(lines), CONVERSATION, strict=True):
        stored = original.model_dump(mode="json")
        assert {name: ours[name] for name in same} == {name: stored[name] for name in same}


async def test_calls_that_waited_for_a_client_are_written_as_approvals_and_read_again() -> None:
    gated = ToolCall(id="call-1", name="roll", arguments="{}", gated=True)
    answer: Any = {"type": "approval", "tool_call_id": "call-1", "approve": True, "reason": None}
    conversation = (
        CONVERSATION[0],
        said(1, "user", "roll"),
        said(2, "assistant", tool_calls=[gated]),
        said(3, "approval", [answer], request_id=message_id(2)),
        said(4, "tool", "4", name="roll", tool_call_id="call-1", tool_status="success"),
    )
    agent = ExportedAgent(
        document=document(),
        messages=conversation,
        in_context=[message.id for message in conversation],
    )
    written: Any = await agent_file_document(export(agents=[agent]))
    asked, answered = written["agents"][0]["messages"][2:4]
    assert (asked["role"], asked["tool_call_id"]) == ("approval", "call-1")
    assert (answered["approve"], answered["approvals"]) == (True, [answer])
    lines = lines_of(written)
    read = messages(lines)
    assert [each["role"] for each in read] == ["system", "user", "assistant", "approval", "tool"]
    assert read[3]["content"] == [answer]
    assert events(lines, "context.replaced") == []


async def test_what_an_assistant_said_by_a_call_has_a_result_in_the_file() -> None:
    spoken = ToolCall(
        id="call-1", name="send_message", arguments='{"message": "Hi."}', spoken_argument="message"
    )
    conversation = [
        CONVERSATION[0],
        said(1, "user", "hi"),
        said(2, "assistant", tool_calls=[spoken]),
    ]
    whole = with_said_results(conversation)
    assert [each.role for each in whole] == ["system", "user", "assistant", "tool"]
    assert with_said_results(whole) == whole
    agent = ExportedAgent(
        document=document(agent_type="memgpt_agent"),
        messages=whole,
        in_context=[message.id for message in whole],
    )
    left_out: list[Any] = []
    lines = lines_of(await agent_file_document(export(agents=[agent])), left_out=left_out)
    result = messages(lines)[-1]
    assert (result["hidden"], result["tool_status"]) == (True, "success")
    assert not any("no result" in each.why for each in left_out)


async def test_the_legacy_form_is_read_again() -> None:
    written = await legacy_document(export())
    lines = lines_of(json.loads(json.dumps(written)))
    created = payload(lines, "agent.created")
    assert created["config"]["name"] == "Ada"
    assert created["tools"] == ["memory_insert", "roll"]
    assert created["tags"] == ["t1"]
    assert [each["content"] for each in messages(lines)] == [
        "You are Ada, with blocks.",
        "hi there",
        None,
        "4",
        "A four.",
    ]
    assert payload(lines, "block.created")["block"]["label"] == "human"
