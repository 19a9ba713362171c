"""The loop of the older types of agents: forced calls, heartbeats, thoughts among the arguments."""

from __future__ import annotations

import json
from typing import Any

import pytest

from libs.contracts.agent.conversations import MessageAppended, ToolCall
from libs.contracts.agent.stream_chunks import streamed_messages
from libs.contracts.letta.enums import AgentType
from services.agent.adapters.models.ports import Finished, ToolCallDelta
from services.agent.domain.conversations.active_run import served_parts
from services.agent.domain.runs.step_results import ModelReply
from tests.contract.examples import LLM, RUN_CONFIG
from tests.unit.agent.heartbeat_calls import call, messages, say, served
from tests.unit.agent.model_replies import USAGE, calls, words
from tests.unit.agent.openai_documents import body_of
from tests.unit.agent.rule_runs import rule, stop_reason
from tests.unit.agent.speaking_models import speaking
from tests.unit.agent.world import ASK, Process, World

THINKING_LLM = LLM.model_copy(update={"put_inner_thoughts_in_kwargs": True})
TOOLS = ["send_message", "conversation_search", ASK]


async def ran(
    world: World, *turns: ModelReply, rules: list[dict[str, Any]] | None = None, **fields: Any
) -> Process:
    """A process that has answered one message of an agent of an older type."""
    await world.agent(
        tools=TOOLS, agent_type=AgentType.memgpt_v2_agent, tool_rules=rules or [], **fields
    )
    process = world.process("p-1", *turns)
    world.build_tool(process)
    await world.hear(process, "run-1")
    await process.say("run-1")
    await process.idle()
    assert not process.model.turns, "the model was asked as often as it should be"
    return process


async def test_send_message_is_shown_as_words_and_ends_the_run(world: World) -> None:
    await ran(world, say("Hello", thinking="A guest"), llm_config=THINKING_LLM)
    assert served(world) == [("reasoning_message", "A guest"), ("assistant_message", "Hello")]
    assert stop_reason(world) == "end_turn"
    live = [
        delta["message"]["message_type"] for delta in world.deltas["run-1"] if "message" in delta
    ]
    assert live == ["reasoning_message", "assistant_message"]
    spoken, result = messages(world)
    assert (spoken.inner_thoughts, result.hidden) == (True, True)
    assert [served_parts(answer) for answer in (spoken, result)] == [2, 0]
    row = world.row("messages", spoken.id)
    assert row["text"] == "Hello"
    assert row["v1_messages"][0]["source"] == "non_reasoner_model"


async def test_every_step_has_to_be_a_call_with_the_arguments_of_the_loop(world: World) -> None:
    process = await ran(
        world, say("Hello"), rules=[rule("exit_loop", "send_message")], llm_config=THINKING_LLM
    )
    [request] = process.model.asked
    assert body_of(request)["tool_choice"] == "required"
    properties = {
        str(tool["name"]): list(tool["parameters"]["properties"])  # type: ignore[call-overload,index]
        for tool in request.tools
    }
    assert properties["send_message"] == ["thinking", "message"], "it ends the run anyway"
    assert properties[ASK] == ["thinking", "content", "tags", "request_heartbeat"]


async def test_a_model_that_thinks_by_itself_is_not_asked_for_its_thoughts(world: World) -> None:
    process = await ran(world, say("Hello"))
    assert all("thinking" not in str(tool) for tool in process.model.asked[0].tools)


async def test_claude_is_left_to_think_unless_a_rule_wants_a_call(world: World) -> None:
    claude = LLM.model_copy(update={"model_endpoint_type": "anthropic", "enable_reasoner": True})
    process = await ran(world, say("Hello"), llm_config=claude)
    assert not process.model.asked[0].must_call


async def test_a_rule_wants_a_call_of_claude_too(world: World) -> None:
    claude = LLM.model_copy(update={"model_endpoint_type": "anthropic", "enable_reasoner": True})
    first = [rule("run_first", "send_message")]
    process = await ran(world, say("Hello"), llm_config=claude, rules=first)
    assert process.model.asked[0].must_call


async def test_a_heartbeat_asks_for_another_step(world: World) -> None:
    process = await ran(
        world,
        calls(call(ASK, content="tea", thinking="Keep it", request_heartbeat=True)),
        say("Kept"),
        llm_config=THINKING_LLM,
    )
    assert [kind for kind, _ in served(world)] == [
        "reasoning_message",
        "tool_call_message",
        "tool_return_message",
        "assistant_message",
    ]
    kept = messages(world)[0].tool_calls[0]
    assert json.loads(kept.arguments) == {"content": "tea", "request_heartbeat": True}
    again = body_of(process.model.asked[1])["messages"]
    shown = [message for message in again if message.get("tool_calls")]  # type: ignore[union-attr]
    arguments = json.loads(shown[0]["tool_calls"][0]["function"]["arguments"])  # type: ignore[index,call-overload,arg-type]
    assert list(arguments) == ["thinking", "content", "request_heartbeat"]


async def test_without_a_heartbeat_the_run_ends_after_the_call(world: World) -> None:
    await ran(world, calls(call(ASK, content="tea")))
    assert stop_reason(world) == "end_turn"
    assert world.tool_runs == ["p-1 call_1"]


async def test_a_rule_goes_on_without_a_heartbeat(world: World) -> None:
    await ran(
        world, calls(call(ASK, content="tea")), say("Kept"), rules=[rule("continue_loop", ASK)]
    )
    kept = messages(world)[0].tool_calls[0]
    assert json.loads(kept.arguments)["request_heartbeat"] is True, "as it came to pass"


async def test_a_tool_that_ends_the_run_does_so_against_a_heartbeat(world: World) -> None:
    asked = [rule("exit_loop", ASK)]
    await ran(world, calls(call(ASK, content="tea", request_heartbeat="true")), rules=asked)
    assert stop_reason(world) == "tool_rule"


async def test_words_outside_of_a_call_are_thoughts_but_alone_they_are_words(world: World) -> None:
    beside = ModelReply("Hm", [call(ASK, content="x", request_heartbeat=True)], "stop", USAGE)
    await ran(world, beside, words("Hello"))
    kinds = served(world)
    assert kinds[0] == ("reasoning_message", "Hm")
    assert kinds[-1] == ("assistant_message", "Hello")
    assert stop_reason(world) == "end_turn"


async def test_of_several_calls_the_first_counts(world: World) -> None:
    await ran(world, calls(call(ASK, 1, content="tea"), call(ASK, 2, content="cake")))
    assert world.tool_runs == ["p-1 call_1"]


async def test_a_call_that_was_refused_goes_on(world: World) -> None:
    first = [rule("run_first", "conversation_search")]
    await ran(world, say("Too early"), calls(call("conversation_search", query="tea")), rules=first)
    kinds = [kind for kind, _ in served(world)]
    assert "assistant_message" not in kinds, "what was not carried out was not said"
    assert kinds[:2] == ["tool_call_message", "tool_return_message"]
    assert "tool_call.refused" in world.story()
    assert stop_reason(world) == "end_turn"


async def test_arguments_that_cannot_be_read_are_told_to_the_model(world: World) -> None:
    broken = ToolCall(id="call_1", name="conversation_search", arguments='{"query": "Hel')
    await ran(world, calls(broken))
    kinds = [kind for kind, _ in served(world)]
    assert kinds == ["tool_call_message", "tool_return_message"]
    assert messages(world)[1].tool_status == "error"


async def test_who_wants_to_see_the_call_sees_it(world: World) -> None:
    await world.agent(tools=TOOLS, agent_type=AgentType.memgpt_v2_agent)
    process = world.process("p-1", say("Hello"))
    run = RUN_CONFIG.model_copy(update={"id": "run-1", "use_assistant_message": False})
    command = process.start_run("run-1").model_copy(update={"run": run})
    await process.tell(command, "say-run-1")
    await process.idle()
    assert [kind for kind, _ in served(world)] == ["tool_call_message", "tool_return_message"]


async def test_another_tool_may_be_the_one_that_speaks(world: World) -> None:
    await world.agent(tools=TOOLS, agent_type=AgentType.memgpt_v2_agent)
    process = world.process("p-1", calls(call(ASK, content="Hello")))
    world.build_tool(process)
    named = {"assistant_message_tool_name": ASK, "assistant_message_tool_kwarg": "content"}
    run = RUN_CONFIG.model_copy(update={"id": "run-1", **named})
    await process.tell(process.start_run("run-1").model_copy(update={"run": run}), "say-run-1")
    await process.idle()
    assert served(world) == [("assistant_message", "Hello")]


async def test_what_was_said_before_the_model_broke_off_was_said(world: World) -> None:
    await ran(
        world, calls(ToolCall(id="call_1", name="send_message", arguments='{"message": "Hel'))
    )
    assert served(world) == [("assistant_message", "Hel")]
    assert stop_reason(world) == "end_turn"


@pytest.mark.parametrize("pieces", [1, 3, 1_000])
async def test_thoughts_and_words_stream_out_of_the_arguments(world: World, pieces: int) -> None:
    await world.agent(
        tools=TOOLS, agent_type=AgentType.memgpt_v2_agent, llm_config=THINKING_LLM, tool_rules=[]
    )
    keep = call(ASK, 1, thinking="Keep \u00e9", content="tea", request_heartbeat=True)
    process = speaking(world, "p-1", in_pieces(keep, pieces), in_pieces(SAID, pieces))
    world.build_tool(process)
    await world.hear(process, "run-1")
    await process.say("run-1", stream_tokens=True)
    await process.idle()

    sent = [delta["chunk"] for delta in world.deltas["run-1"] if "chunk" in delta]
    kinds = [chunk["message_type"] for chunk in sent]
    assert list(dict.fromkeys(kinds)) == [
        "reasoning_message", "tool_call_message", "assistant_message",
    ]  # fmt: skip
    assert {chunk["source"] for chunk in sent if "source" in chunk} == {"non_reasoner_model"}
    assert (
        "".join(chunk["reasoning"] for chunk in sent if "reasoning" in chunk) == "Keep \u00e9Say it"
    )
    first, *rest = [
        chunk["tool_calls"] for chunk in sent if chunk["message_type"] == "tool_call_message"
    ]
    assert first == {"name": ASK, "tool_call_id": "call_1"}
    arguments = "".join(call_chunk["arguments"] for call_chunk in rest)
    assert json.loads(arguments) == {"content": "tea", "request_heartbeat": True}
    words = [chunk["content"] for chunk in sent if chunk["message_type"] == "assistant_message"]
    assert "".join(words) == 'He said "hi" \U0001f600\n'
    assert (len(words) > 5) == (pieces < 10)
    appended = [
        event for event in world.events() if isinstance(event, MessageAppended) and event.chunks
    ]
    told_again: list[Any] = []
    for event in appended:
        messages = world.row("messages", event.message.id)["v1_messages"]
        told_again += streamed_messages(messages, event.chunks)  # type: ignore[arg-type]
    assert sent == told_again


SAID = call("send_message", 2, thinking="Say it", message='He said "hi" \U0001f600\n')


def in_pieces(called: ToolCall, size: int) -> list[Any]:
    """A call in pieces of so many characters."""
    text = called.arguments
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    return [
        ToolCallDelta(called.id, called.name),
        *(ToolCallDelta(called.id, arguments=text) for text in pieces),
        Finished(calls(called)),
    ]
