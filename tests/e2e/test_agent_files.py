"""Agents are written to files of the retired server's form, and made from such files."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from letta_client import Letta

from tests.e2e.asking import ask, call_tool
from tests.e2e.conftest import NewAgent
from tests.unit.letta import recordings

EXPORT_WITH_SKILLS = pytest.mark.operation("POST /v1/agents/{agent_id}/export")
SOURCE_CODE = 'def roll(sides: int) -> str:\n    """Roll a die."""\n    return f"a {sides}"\n'


def exported(http: httpx.Client, agent_id: str, **body: Any) -> Any:
    """The file of an agent."""
    answer = http.post(f"/v1/agents/{agent_id}/export", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


@EXPORT_WITH_SKILLS
def test_a_file_has_what_the_agent_has(
    http: httpx.Client, letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent(
        memory_blocks=[{"label": "human", "value": "Likes tea."}],
        tags=["t1"],
        secrets={"KEY": "hunter2"},
    )
    call_tool(letta, agent.id, "memory_insert", label="human", new_string="And cake.")
    skill = {"name": "s", "files": {"SKILL.md": "# s"}}
    file = exported(http, agent.id, skills=[skill])
    recorded: Any = recordings.exchange("agent_export")["body"]
    assert [*file] == [*recorded]
    [written] = file["agents"]
    assert [*written] == [*recorded["agents"][0]]
    assert (written["name"], written["tags"]) == (agent.name, ["t1"])
    assert written["tool_exec_environment_variables"] == {"KEY": ""}
    assert "hunter2" not in json.dumps(file)
    [block] = file["blocks"]
    assert block["value"] == "Likes tea.\nAnd cake."
    messages = written["messages"]
    assert [message["role"] for message in messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert "And cake." in messages[0]["content"][0]["text"]
    assert messages[2]["tool_calls"][0]["function"]["name"] == "memory_insert"
    assert json.loads(messages[3]["tool_returns"][0]["func_response"])["status"] == "OK"
    assert written["in_context_message_ids"] == [message["id"] for message in messages]
    assert {tool["name"] for tool in file["tools"]} >= {"memory_insert"}
    assert file["skills"] == [{**skill, "source_url": None}]


@EXPORT_WITH_SKILLS
def test_a_file_may_be_without_messages_or_of_another_conversation(
    http: httpx.Client, letta: Letta, new_agent: NewAgent
) -> None:
    agent, other = new_agent(), new_agent()
    ask(letta, agent.id, "hi there")
    scrubbed = exported(http, agent.id, scrub_messages=True)["agents"][0]
    assert scrubbed["messages"] == scrubbed["in_context_message_ids"] == []
    conversation = letta.conversations.create(agent_id=agent.id)
    [system] = exported(http, agent.id, conversation_id=conversation.id)["agents"][0]["messages"]
    assert system["role"] == "system"
    body = {"conversation_id": conversation.id}
    assert http.post(f"/v1/agents/{other.id}/export", json=body).status_code == 404
