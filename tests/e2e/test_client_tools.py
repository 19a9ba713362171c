"""Tools and skills that the client brings with a request (LOOP-17), through the SDK."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import httpx
import pytest
from letta_client import BadRequestError, ConflictError, Letta

from tests.e2e.asking import SEND, STREAM, kinds, lines_of, says
from tests.e2e.conftest import NewAgent

TALK = pytest.mark.operation("POST /v1/conversations/{conversation_id}/messages")

LIST_FILES = {
    "name": "list_files",
    "description": "List the files of a folder.",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
}
READ = {"path": "/home"}
ASK = f"CALL:list_files:{json.dumps(READ)} SAY:I see."
PIXEL = b64encode(b"\x89PNG\r\n\x1a\n").decode()
CLAUDE = "anthropic/claude-sonnet-4-6"


def tool_return(call_id: str, content: Any = "README.md", **fields: Any) -> dict[str, Any]:
    """What a tool of the client gave back."""
    given = {"type": "tool", "tool_call_id": call_id, "tool_return": content, "status": "success"}
    return {**given, **fields}


def within_approval(*returns: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"type": "approval", "approvals": list(returns)}]


def asked_for(letta: Letta, agent_id: str, text: str = ASK) -> Any:
    """The one call of a client tool that the agent asks for."""
    answer = letta.agents.messages.create(agent_id, messages=says(text), client_tools=[LIST_FILES])
    assert answer.stop_reason.stop_reason == "requires_approval"
    [request] = answer.messages
    assert request.message_type == "approval_request_message"
    [call] = request.tool_calls
    return call


@SEND
@pytest.mark.parametrize("kind", ["approval", "tool_return"])
def test_the_client_carries_out_its_own_tools(letta: Letta, new_agent: NewAgent, kind: str) -> None:
    agent = new_agent()
    call = asked_for(letta, agent.id)
    assert (call.name, json.loads(call.arguments)) == ("list_files", READ)
    given = tool_return(call.tool_call_id, stdout=["1 file"], stderr=["slow"])
    messages = (
        within_approval(given)
        if kind == "approval"
        else [{"type": "tool_return", "tool_returns": [given]}]
    )
    answer = letta.agents.messages.create(agent.id, messages=messages, client_tools=[LIST_FILES])
    returned, said = answer.messages
    assert (returned.message_type, returned.tool_return) == ("tool_return_message", "README.md")
    assert (returned.status, returned.tool_call_id) == ("success", call.tool_call_id)
    assert (returned.stdout, returned.stderr) == (["1 file"], ["slow"])
    assert said.content == "I see."
    history = letta.agents.messages.list(agent.id).items
    [response] = [
        message for message in history if message.message_type == "approval_response_message"
    ]
    [kept] = response.approvals
    assert (kept.tool_return, kept.status) == ("README.md", "success")
    assert "list_files" not in [tool.name for tool in letta.agents.tools.list(agent.id).items]


@SEND
def test_an_error_and_a_denial_of_a_client_tool_reach_the_model(
    letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent()
    call = asked_for(letta, agent.id)
    failed = tool_return(call.tool_call_id, "no such folder", status="error")
    answer = letta.agents.messages.create(agent.id, messages=within_approval(failed))
    assert (answer.messages[0].status, answer.messages[0].tool_return) == (
        "error",
        "no such folder",
    )
    call = asked_for(letta, agent.id)
    approve = {"type": "approval", "tool_call_id": call.tool_call_id, "approve": True}
    with pytest.raises(BadRequestError, match="the client carries out"):
        letta.agents.messages.create(agent.id, messages=within_approval(approve))
    denied = {**approve, "approve": False, "reason": "Not that folder"}
    answer = letta.agents.messages.create(agent.id, messages=within_approval(denied))
    assert "Not that folder" in answer.messages[0].tool_return


@SEND
@pytest.mark.parametrize("handle", ["openai/gpt-4o-mini", CLAUDE])
def test_images_of_a_client_tool_are_shown_to_the_model(
    letta: Letta, new_agent: NewAgent, handle: str
) -> None:
    agent = new_agent(model=handle)
    call = asked_for(letta, agent.id)
    image = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    parts = [{"type": "text", "text": "a pixel"}, {"type": "image", "source": image}]
    answer = letta.agents.messages.create(
        agent.id, messages=within_approval(tool_return(call.tool_call_id, parts))
    )
    assert answer.stop_reason.stop_reason == "end_turn", "a strict provider took it"
    returned = answer.messages[0]
    assert returned.tool_return == "a pixel"
    [listed] = returned.tool_returns
    assert [part.type for part in listed.tool_return] == ["text", "image"]
    assert listed.tool_return[1].source.data == PIXEL


@SEND
def test_a_client_tool_shadows_the_agents_own(letta: Letta, new_agent: NewAgent) -> None:
    agent = new_agent()
    mine = {"name": "memory_insert", "description": "Mine.", "parameters": {"type": "object"}}
    edit = {"label": "human", "new_string": "Likes tea"}
    answer = letta.agents.messages.create(
        agent.id,
        messages=says(f"CALL:memory_insert:{json.dumps(edit)} SAY:Done."),
        client_tools=[mine],
    )
    [request] = answer.messages
    [call] = request.tool_calls
    letta.agents.messages.create(
        agent.id, messages=within_approval(tool_return(call.tool_call_id, "kept by me"))
    )
    block = letta.agents.blocks.retrieve("human", agent_id=agent.id)
    assert block.value == "Name: Ada", "the server did not carry it out"


@SEND
def test_skills_stand_in_the_prompt_of_their_request_only(
    letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent()
    skill = {"name": "review", "description": "How we review.", "location": "/s/SKILL.md"}
    answer = letta.agents.messages.create(agent.id, messages=says("SYSTEM?"), client_skills=[skill])
    prompt = answer.messages[-1].content
    assert 'name="review" location="/s/SKILL.md": How we review.' in prompt
    without = letta.agents.messages.create(agent.id, messages=says("SYSTEM?"))
    assert "review" not in without.messages[-1].content
    stored = letta.agents.messages.list(agent.id, order="asc").items[0]
    assert "review" not in stored.content


@STREAM
@pytest.mark.parametrize("tokens", [False, True])
def test_a_client_tool_on_a_background_stream(
    http: httpx.Client, new_agent: NewAgent, tokens: bool
) -> None:
    agent = new_agent()
    path = f"/v1/agents/{agent.id}/messages/stream"
    more = {"background": True, "stream_tokens": tokens, "client_tools": [LIST_FILES]}
    lines = lines_of(http.post(path, json={"messages": says(ASK), **more}).text)
    shown = [kind for kind in kinds(lines) if kind != "ping"]
    assert list(dict.fromkeys(shown)) == [
        "approval_request_message",
        "stop_reason",
        "usage_statistics",
        "[DONE]",
    ]
    asking = [line.data for line in lines if "approval_request_message" in str(line.data)]
    call_id = asking[0]["tool_call"]["tool_call_id"]
    answer = {"messages": within_approval(tool_return(call_id)), **more}
    lines = lines_of(http.post(path, json=answer).text)
    shown = [kind for kind in kinds(lines) if kind != "ping"]
    assert shown[0] == "tool_return_message"
    assert set(shown[1:-3]) == {"assistant_message"}
    numbers = [line.data["seq_id"] for line in lines if "seq_id" in line.data]
    assert [number for number in numbers if number] == sorted(
        number for number in numbers if number
    )


@TALK
def test_a_client_tool_in_a_conversation_of_its_own(letta: Letta, new_agent: NewAgent) -> None:
    agent = new_agent()
    talk = letta.conversations.create(agent_id=agent.id)
    send = letta.conversations.messages.create
    more = {"background": True, "stream_tokens": True, "client_tools": [LIST_FILES]}
    events = list(send(talk.id, messages=says(ASK), **more))
    [call_id] = {
        event.tool_call.tool_call_id
        for event in events
        if event.message_type == "approval_request_message"
    }
    with pytest.raises(ConflictError):
        list(send(talk.id, messages=says("And?"), **more))
    own = letta.agents.messages.create(agent.id, messages=says("SAY:Free."))
    assert own.messages[-1].content == "Free.", "another conversation of the agent does not wait"
    answer = list(send(talk.id, messages=within_approval(tool_return(call_id)), **more))
    types = list(
        dict.fromkeys(message.message_type for message in answer if message.message_type != "ping")
    )
    assert types == ["tool_return_message", "assistant_message", "stop_reason", "usage_statistics"]
