"""Base tools through the SDK: words by `send_message`, calls side by side, and the beginning of a
pause. Its end is in `test_pauses.py`: the files between the two take longer than it lasts."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import httpx
import pytest
from letta_client import Letta

from tests.e2e.asking import HELLO, SEND, STREAM, ask, kinds, stream
from tests.e2e.conftest import NewAgent

pytestmark = pytest.mark.usefixtures("paused")
LONG = "words " * 2_000  # 12,000 characters


def say(text: str, **more: Any) -> str:
    return f"CALL:send_message:{json.dumps({'message': text, **more})}"


LOOK = 'CALL:conversation_search:{"query":"tea","request_heartbeat":true}'
SEVERAL = f"{say('1', request_heartbeat=True)} {say('2', request_heartbeat=True)} {say('3')}"


def told(messages: list[Any]) -> list[str]:
    """What the assistant says."""
    return [message.content for message in messages if message.message_type == "assistant_message"]


class TestSendMessage:
    """LOOP-10: the words of `send_message` are what the assistant says, as plain text is; a call
    that says nothing is shown as what it is."""

    @SEND
    @pytest.mark.parametrize(
        ("agent_type", "script", "said", "expected"),
        [
            *(
                pytest.param(kind, say(words), [words], "end_turn", id=f"{what}-{kind}")
                for kind in ("memgpt_agent", "memgpt_v2_agent", "react_agent")
                for what, words in (
                    ("single", "Hi"),
                    ("long", LONG),
                    ("any script", "é😀\u2028\n\"'"),
                    ("empty", ""),
                )
            ),
            *(
                pytest.param(kind, f"{LOOK} {say('Hi')}", ["Hi"], "end_turn", id=f"mixed-{kind}")
                for kind in ("memgpt_agent", "react_agent")
            ),
            pytest.param("react_agent", SEVERAL, ["1", "2", "3"], "end_turn", id="multiple"),
            # Of the types that have it from the beginning a rule says that it ends the turn.
            pytest.param("memgpt_agent", SEVERAL, ["1"], "tool_rule", id="multiple-with-rule"),
            # The newest type goes on after any call, and then says something as plain text.
            pytest.param("letta_v1_agent", say("Hi"), ["Hi", HELLO], "end_turn", id="both modes"),
            pytest.param("letta_v1_agent", "SAY:Plain.", ["Plain."], "end_turn", id="none"),
        ],
    )
    def test_is_what_the_assistant_says(
        self,
        letta: Letta,
        new_agent: NewAgent,
        agent_type: str,
        script: str,
        said: list[str],
        expected: str,
    ) -> None:
        agent = new_agent(
            agent_type=agent_type,
            tools=["send_message", "conversation_search"],
            include_base_tool_rules=None if agent_type != "react_agent" else False,
        )
        messages, reason = ask(letta, agent.id, script)
        assert (told(messages), reason) == (said, expected)
        listed = letta.agents.messages.list(agent.id, order="asc", limit=100).items
        assert told(listed) == said, "the history says the same"

    @SEND
    @pytest.mark.parametrize("arguments", ["{}", '{"message": 7}', '{"text": "Hi"}'])
    def test_a_call_that_says_nothing_is_an_error_that_the_model_sees(
        self, letta: Letta, new_agent: NewAgent, arguments: str
    ) -> None:
        agent = new_agent(agent_type="memgpt_agent", tools=["send_message"])
        messages, reason = ask(letta, agent.id, f"CALL:send_message:{arguments}")
        assert [message.message_type for message in messages] == [
            "tool_call_message",
            "tool_return_message",
        ]
        assert messages[1].status == "error"
        assert "message" in messages[1].tool_return
        assert reason == "end_turn"


class TestSideBySide:
    @STREAM
    def test_results_of_several_calls_come_in_the_order_of_the_calls(
        self, http: httpx.Client, letta: Letta, new_agent: NewAgent
    ) -> None:
        agent = new_agent(parallel_tool_calls=True)
        calls = [
            {"name": "conversation_search", "arguments": {"query": "one"}},
            {"name": "memory_insert", "arguments": {"label": "human", "new_string": "Likes tea"}},
            {"name": "conversation_search", "arguments": {"query": "two"}},
            {"name": "no_such_tool", "arguments": {}},
        ]
        lines = stream(http, agent.id, f"CALLS:{json.dumps(calls)}")
        docs = [line.data for line in lines if line.data != "[DONE]"]
        [called] = [
            document for document in docs if document["message_type"] == "tool_call_message"
        ]
        ids = [call["tool_call_id"] for call in called["tool_calls"]]
        returned = [
            document for document in docs if document["message_type"] == "tool_return_message"
        ]
        assert [document["tool_call_id"] for document in returned] == ids
        statuses = [document["status"] for document in returned]
        assert statuses == ["success", "success", "success", "error"]
        assert "Likes tea" in returned[1]["tool_return"]
        assert kinds(lines)[-3:] == ["stop_reason", "usage_statistics", "[DONE]"]
        listed = letta.agents.messages.list(agent.id, order="asc", limit=100).items
        history = [message for message in listed if message.message_type == "tool_return_message"]
        assert [message.tool_call_id for message in history] == ids


def returns(messages: list[Any]) -> list[tuple[str, str]]:
    """What the tools returned."""
    found = [message for message in messages if message.message_type == "tool_return_message"]
    return [(message.status, message.tool_return) for message in found]


def calls(name: str, *arguments: dict[str, Any]) -> str:
    """One call after the other, each in a step of its own."""
    later = {"request_heartbeat": True}
    return " ".join(f"CALL:{name}:{json.dumps({**argument, **later})}" for argument in arguments)


class TestMemoryAsFiles:
    @SEND
    @pytest.mark.operation("GET /v1/agents/{agent_id}/core-memory/blocks")
    @pytest.mark.operation("GET /v1/blocks/{block_id}")
    def test_blocks_are_made_edited_renamed_and_taken_out(
        self, letta: Letta, http: httpx.Client, new_agent: NewAgent
    ) -> None:
        agent = new_agent(tools=["memory"], include_base_tools=False)
        plans = {"path": "/memories/plans"}
        script = calls(
            "memory",
            {"command": "create", **plans, "file_text": "Tea", "description": "Plans"},
            {"command": "insert", **plans, "insert_line": 1, "insert_text": "at four"},
            {"command": "str_replace", **plans, "old_string": "four", "new_string": "five"},
            {"command": "rename", "old_path": "/memories/plans", "new_path": "/memories/today"},
            {"command": "rename", "path": "/memories/today", "description": "Of today"},
            {"command": "create", "path": "/memories/today"},
            {"command": "delete", "path": "/memories/persona"},
            {"command": "delete", "path": "/memories/persona"},
        )
        messages, _ = ask(letta, agent.id, f"{script} SYSTEM?")
        told_back = returns(messages)
        assert [status for status, _ in told_back] == ["success"] * 5 + [
            "error",
            "success",
            "error",
        ]
        assert told_back[1][1] == "Tea\nat four"
        assert told_back[2][1] == "Tea\nat five"
        assert "'today' already" in told_back[5][1]
        assert told_back[7][1].endswith("Yours are: human, today")
        blocks = {block.label: block for block in letta.agents.blocks.list(agent.id)}
        assert sorted(blocks) == ["human", "today"]
        assert (blocks["today"].value, blocks["today"].description) == ("Tea\nat five", "Of today")
        assert blocks["today"].limit == 100_000
        prompt = told(messages)[-1]
        assert "Of today" in prompt, "the model is shown it within the turn"
        assert "I am kind." not in prompt
        [gone] = [block for block in agent.memory.blocks if block.label == "persona"]
        assert letta.blocks.retrieve(str(gone.id)).value == "I am kind.", "people still have it"
        assert http.get("/v1/blocks/", params={"label": "plans"}).json() == []

    @SEND
    def test_a_patch_changes_whole_lines_of_a_shared_block(
        self, letta: Letta, new_agent: NewAgent
    ) -> None:
        shared = letta.blocks.create(label="shared", value="I like tea\ntea\nmilk")
        agents = [new_agent(tools=["memory_apply_patch"], block_ids=[shared.id]) for _ in range(2)]
        for agent, (old, new) in zip(agents, [("tea", "coffee"), ("milk", "cream")], strict=True):
            asked = {"label": "shared", "patch": f"@@\n-{old}\n+{new}"}
            messages, _ = ask(letta, agent.id, calls("memory_apply_patch", asked))
            assert returns(messages)[0][0] == "success"
        assert letta.blocks.retrieve(shared.id).value == "I like tea\ncoffee\ncream"

        letta.blocks.update(shared.id, read_only=True)
        patch = (
            "*** Begin Patch\n*** Add Block: notes\n+One\n+Two\n*** Update Block: human\n"
            "*** Move to: ada\n@@\n-Name: Ada\n+Name: Grace\n*** Update Block: shared\n@@\n"
            "-cream\n+sugar\n*** Delete Block: persona\n*** End Patch"
        )
        asked = {"label": "", "patch": patch}
        messages, _ = ask(letta, agents[0].id, calls("memory_apply_patch", asked))
        [(status, text)] = returns(messages)
        assert status == "error"
        assert "'shared' is read-only" in text
        assert "Done before it: Add notes, Update human. Not tried after it: 1" in text
        values = {block.label: block.value for block in letta.agents.blocks.list(agents[0].id)}
        assert values == {
            "ada": "Name: Grace",
            "notes": "One\nTwo",
            "persona": "I am kind.",
            "shared": "I like tea\ncoffee\ncream",
        }

    @SEND
    def test_messages_are_listed_by_their_days(self, letta: Letta, new_agent: NewAgent) -> None:
        agent = new_agent(tools=["conversation_search_date"])
        ask(letta, agent.id, "SAY:Green tea.")
        wanted = [
            {"start_date": "2000-01-01", "end_date": end} for end in ("2100-01-01", "2001-01-01")
        ]
        script = calls("conversation_search_date", *wanted)
        messages, _ = ask(letta, agent.id, script)
        [(first, found), (second, nothing)] = returns(messages)
        assert (first, second, nothing) == ("success", "success", "No results found.")
        assert "Green tea." in found


@SEND
def test_a_message_in_a_pause_is_answered_as_usual(
    paused: tuple[str, datetime], letta: Letta
) -> None:
    """LOOP-12"""
    messages, reason = ask(letta, paused[0], say("Yes?"))
    assert (told(messages), reason) == (["Yes?"], "end_turn")
