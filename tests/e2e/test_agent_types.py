"""Every type of agents and every tool rule, through the SDK: which messages, and why it stopped."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from letta_client import BadRequestError, Letta

from tests.e2e.asking import MODEL, SEND, STREAM, ask, lines_of, stream
from tests.e2e.conftest import NewAgent

CREATE = pytest.mark.operation("POST /v1/agents/")

SEARCH = "conversation_search"
INSERT = "memory_insert"
BOTH = [SEARCH, INSERT]
TALKING = [SEARCH, "send_message"]
LOOK = f'CALL:{SEARCH}:{{"query": "tea", "request_heartbeat": true}}'
SAY = 'CALL:send_message:{"message": "Hi"}'
WORDS = ["assistant_message"]
CALL = ["tool_call_message", "tool_return_message"]


def kinds(messages: list[Any]) -> list[str]:
    """The types of messages, without thoughts."""
    types = [message.message_type for message in messages]
    return [kind for kind in types if kind != "reasoning_message"]


@SEND
@pytest.mark.parametrize(
    ("agent_type", "fields", "text", "expected", "reason"),
    [
        ("letta_v1_agent", {}, "Hello", WORDS, "end_turn"),
        ("letta_v1_agent", {}, LOOK, CALL + WORDS, "end_turn"),
        ("sleeptime_agent", {}, "Hello", WORDS, "end_turn"),
        ("sleeptime_agent", {}, "CALL:memory_finish_edits", CALL, "tool_rule"),
        ("memgpt_agent", {}, SAY, WORDS, "end_turn"),
        ("memgpt_agent", {}, f"{LOOK} {SAY}", CALL + WORDS, "end_turn"),
        ("memgpt_v2_agent", {}, SAY, WORDS, "end_turn"),
        ("memgpt_v2_agent", {}, f"{LOOK} {SAY}", CALL + WORDS, "end_turn"),
        ("split_thread_agent", {"system": "Be kind."}, SAY, WORDS, "end_turn"),
        ("voice_sleeptime_agent", {}, "CALL:store_memories", CALL, "end_turn"),
        ("react_agent", {}, "Hello", WORDS, "end_turn"),
        ("react_agent", {"tools": TALKING}, f"{LOOK} {SAY}", CALL + WORDS, "end_turn"),
        ("workflow_agent", {}, "Hello", WORDS, "end_turn"),
    ],
)
def test_every_type_answers_as_it_always_did(
    letta: Letta,
    new_agent: NewAgent,
    agent_type: str,
    fields: dict[str, Any],
    text: str,
    expected: list[str],
    reason: str,
) -> None:
    agent = new_agent(agent_type=agent_type, **fields)
    messages, stopped = ask(letta, agent.id, text)
    assert (kinds(messages), stopped) == (expected, reason)
    listed = letta.agents.messages.list(agent.id, order="asc", limit=100).items
    assert kinds(listed)[-len(expected) :] == expected, "the history shows the same"
    again, _ = ask(letta, agent.id, text)
    assert kinds(again) == expected


@pytest.mark.operation("PATCH /v1/agents/{agent_id}")
@SEND
def test_a_change_of_the_model_makes_no_model_write_its_thoughts_into_arguments(
    letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent(agent_type="memgpt_v2_agent", reasoning=False)
    changed = letta.agents.update(agent.id, model=MODEL)
    assert changed.llm_config.put_inner_thoughts_in_kwargs is False
    messages, _ = ask(letta, agent.id, SAY)
    assert [message.message_type for message in messages] == WORDS
    asked: Any = {"reasoning": True}
    thinking = letta.agents.update(agent.id, model=MODEL, extra_body=asked)
    assert thinking.llm_config.put_inner_thoughts_in_kwargs is True


def rule(kind: str, tool: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "tool_name": tool, **fields}


@SEND
@pytest.mark.parametrize(
    ("asked", "text", "called", "refused", "reason"),
    [
        (rule("run_first", SEARCH), "Hello", [SEARCH], 0, "end_turn"),
        (rule("run_first", SEARCH), f"CALL:{INSERT}", [INSERT, SEARCH], 1, "end_turn"),
        (rule("exit_loop", SEARCH), LOOK, [SEARCH], 0, "tool_rule"),
        (rule("continue_loop", SEARCH), LOOK, [SEARCH], 0, "end_turn"),
        (rule("constrain_child_tools", SEARCH, children=[INSERT]), LOOK, BOTH, 0, "end_turn"),
        (rule("parent_last_tool", INSERT, children=[SEARCH]), LOOK, [SEARCH], 1, "end_turn"),
        (
            rule(
                "conditional",
                SEARCH,
                child_output_mapping={"nothing like this": INSERT},
                default_child=INSERT,
            ),
            LOOK,
            BOTH,
            0,
            "end_turn",
        ),
        (rule("max_count_per_step", SEARCH, max_count_limit=1), LOOK, [SEARCH], 0, "end_turn"),
        (rule("required_before_exit", SEARCH), "Hello", [], 0, "max_steps"),
    ],
    ids=lambda value: value["type"] if isinstance(value, dict) else "",
)  # fmt: skip
def test_every_rule_is_kept(
    letta: Letta,
    new_agent: NewAgent,
    asked: dict[str, Any],
    text: str,
    called: list[str],
    refused: int,
    reason: str,
) -> None:
    agent = new_agent(tool_rules=[asked])
    assert [rule.type for rule in agent.tool_rules or []] == [asked["type"], *added(agent)]
    messages, stopped = ask(letta, agent.id, text, max_steps=5)
    calls = [
        message.tool_call.name
        for message in messages
        if message.message_type == "tool_call_message"
    ]
    assert calls[: len(called)] == called
    failed = [
        message
        for message in messages
        if message.message_type == "tool_return_message"
        and "ToolConstraintError" in message.tool_return
    ]
    assert len(failed) == refused
    assert stopped == reason


def added(agent: Any) -> list[str]:
    """The kinds of the rules that the server gave an agent beside its own."""
    return [rule.type for rule in agent.tool_rules[1:]]


@SEND
def test_arguments_of_a_rule_win(letta: Letta, new_agent: NewAgent) -> None:
    rules = [rule("run_first", SEARCH, args={"query": "coffee"})]
    agent = new_agent(tool_rules=rules)
    messages, _ = ask(letta, agent.id, LOOK)
    [call] = [message for message in messages if message.message_type == "tool_call_message"]
    assert json.loads(call.tool_call.arguments)["query"] == "coffee"


@CREATE
def test_what_cannot_be_kept_is_refused(new_agent: NewAgent) -> None:
    with pytest.raises(BadRequestError, match="has no argument `colour`"):
        new_agent(tool_rules=[rule("run_first", SEARCH, args={"colour": "red"})])


@STREAM
@pytest.mark.parametrize("agent_type", ["memgpt_v2_agent", "letta_v1_agent"])
def test_what_an_agent_says_by_a_tool_streams_as_it_comes(
    http: httpx.Client, new_agent: NewAgent, agent_type: str
) -> None:
    agent = new_agent(agent_type=agent_type, tools=["send_message"])
    words = {"thinking": "Be kind", "message": 'They said "hi" to Zoë \U0001f600 and left.'}
    script = f"CALL:send_message:{json.dumps(words)} SAY:"
    lines = stream(http, agent.id, script, stream_tokens=True, background=True)
    messages = [line.data for line in lines if isinstance(line.data, dict)]
    said = [
        message["content"] for message in messages if message["message_type"] == "assistant_message"
    ]
    assert "".join(said) == words["message"]
    assert len(said) > 2, "it came in chunks"
    thoughts = [message for message in messages if message["message_type"] == "reasoning_message"]
    if agent_type == "memgpt_v2_agent":
        assert "".join(thought["reasoning"] for thought in thoughts) == "Be kind"
        assert {thought["source"] for thought in thoughts} == {"non_reasoner_model"}
    assert "tool_call_message" not in [message["message_type"] for message in messages]
    whole = http.get(f"/v1/agents/{agent.id}/messages").json()
    shown = [
        message["content"] for message in whole if message["message_type"] == "assistant_message"
    ]
    assert [text for text in shown if text] == [words["message"]]

    middle = lines[len(lines) // 2]
    asked = {"starting_after": middle.data["seq_id"]}
    run_id = messages[0]["run_id"]
    with http.stream("POST", f"/v1/runs/{run_id}/stream", json=asked) as again:
        again.read()
    behind = lines[lines.index(middle) + 1 :]
    assert [line for line in lines_of(again.text) if line.id] == [
        line for line in behind if line.id
    ]


@SEND
def test_core_memory_is_edited_by_the_tools_of_older_agents(
    letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent(agent_type="memgpt_agent")
    append = {"label": "human", "content": "Likes tea", "request_heartbeat": False}
    ask(letta, agent.id, f"CALL:core_memory_append:{json.dumps(append)}")
    replace = {"label": "human", "old_content": "Ada", "new_content": "Ada L."}
    ask(letta, agent.id, f"CALL:core_memory_replace:{json.dumps(replace)}")
    block = letta.agents.blocks.retrieve("human", agent_id=agent.id)
    assert block.value == "Name: Ada L.\nLikes tea"
