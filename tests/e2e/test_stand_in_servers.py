"""What clients see of servers that stand in for a provider and answer in their own ways."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from letta_client import APIStatusError, Letta

from tests.e2e.asking import CLAUDE, MODEL, SEND, STREAM, says, stream, unique, without_keepalives
from tests.e2e.conftest import NewAgent
from tests.scripted_model import ScriptedModelProcess

# Without a number: the window that a server names is learned, and all tests ask the same model.
TOO_LONG = {"object": "error", "message": "Context size has been exceeded.", "code": 400}
EITHER_WAY = pytest.mark.parametrize("tokens", [False, True], ids=["whole", "pieces"])


def sse(*events: Any) -> str:
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"


def chat(finish_reason: str, **message: Any) -> Any:
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish_reason}]}


def claude(stop_reason: str, *content: Any, **more: Any) -> Any:
    return {"type": "message", "content": list(content), "stop_reason": stop_reason, **more}


def told(http: httpx.Client, agent_id: str, text: str, *, tokens: bool) -> list[Any]:
    """The messages that a client gets for one of its own, in pieces or not."""
    if not tokens:
        answer = http.post(f"/v1/agents/{agent_id}/messages", json={"messages": says(text)})
        assert answer.status_code == 200, answer.text
        messages: list[Any] = answer.json()["messages"]
        return messages
    lines = without_keepalives(stream(http, agent_id, text, stream_tokens=True))
    return [line.data for line in lines if line.data != "[DONE]"]


def text_of(messages: list[Any], kind: str = "assistant_message") -> str:
    name = "reasoning" if kind == "reasoning_message" else "content"
    return "".join(message[name] for message in messages if message["message_type"] == kind)


ANSWERS: dict[str, tuple[str, Any]] = {
    "a refusal": (MODEL, chat("stop", content=None, refusal="I refuse, it is against the rules.")),
    "a content filter": (MODEL, chat("content_filter", content=None)),
    "a refusal of Claude": (
        CLAUDE,
        claude("refusal", stop_details={"explanation": "it is against the rules"}),
    ),
    "thoughts under another name": (MODEL, chat("stop", content="Hi", reasoning="Hm.")),
    "a stream of Claude without its end": (
        CLAUDE,
        sse(
            {"type": "message_start", "message": {}},
            {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hi"}},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        ),
    ),
    "a stream": (
        MODEL,
        "data: \n\n: wait\r\n\r\n" + sse({"choices": [{"delta": {"content": "Hi"}}]}),
    ),
}
SHOWN = {
    "a refusal": "I refuse, it is against the rules.",
    "a content filter": "[The model refused to answer: a content filter stopped it; its provider "
    "says no reason.]",
    "a refusal of Claude": "[The model refused to answer: a content filter stopped it: it is "
    "against the rules.]",
}


@SEND
@STREAM
@EITHER_WAY
@pytest.mark.parametrize("kind", ANSWERS)
async def test_what_a_stand_in_says_is_shown_in_either_way(
    http: httpx.Client, new_agent: NewAgent, model: ScriptedModelProcess, kind: str, tokens: bool
) -> None:
    handle, body = ANSWERS[kind]
    agent, text = new_agent(model=handle), unique("stand-in")
    await model.answer(text, body)
    messages = told(http, agent.id, text, tokens=tokens)
    assert text_of(messages) == SHOWN.get(kind, "Hi")
    if kind.startswith("thoughts"):
        assert text_of(messages, "reasoning_message") == "Hm."


@SEND
@STREAM
@EITHER_WAY
@pytest.mark.parametrize("handle", [MODEL, CLAUDE])
async def test_a_tool_runs_whose_arguments_are_an_object(
    http: httpx.Client,
    letta: Letta,
    new_agent: NewAgent,
    model: ScriptedModelProcess,
    handle: str,
    tokens: bool,
) -> None:
    agent, text = new_agent(model=handle, tools=["memory_insert"]), unique("object")
    arguments = {"label": "human", "new_string": f"likes {text}"}
    function = {"name": "memory_insert", "arguments": arguments}
    call: Any = {"id": "call_1", "type": "function", "function": function}
    block = {"type": "tool_use", "id": "toolu_1", "name": "memory_insert", "input": arguments}
    body: Any = claude("tool_use", block)
    if handle == MODEL:
        body = chat("tool_calls", content=None, tool_calls=[call])
        if tokens:
            pieces: list[Any] = [{"id": "call_1"}, {"function": function}]
            body = sse(*({"choices": [{"delta": {"tool_calls": [delta]}}]} for delta in pieces))
    elif tokens:
        body = sse(
            {"type": "content_block_start", "content_block": block}, {"type": "message_stop"}
        )
    await model.answer(text, body)
    messages = told(http, agent.id, text, tokens=tokens)
    [returned] = [
        message for message in messages if message["message_type"] == "tool_return_message"
    ]
    assert returned["status"] == "success", returned
    assert f"likes {text}" in str(letta.agents.blocks.retrieve("human", agent_id=agent.id).value)


@SEND
@STREAM
@EITHER_WAY
async def test_a_context_that_is_too_long_in_other_words_is_compacted_and_answered(
    http: httpx.Client, new_agent: NewAgent, model: ScriptedModelProcess, tokens: bool
) -> None:
    agent = new_agent(compaction_settings={"mode": "all", "prompt": "SAY:Tea.", "model": MODEL})
    for number in range(4):
        told(http, agent.id, f"question {number} {'q' * 200}", tokens=False)
    text = unique("overflow")
    await model.answer(text, TOO_LONG, status=400)
    messages = told(http, agent.id, f"{text} SAY:Here you are.", tokens=tokens)
    assert text_of(messages) == "Here you are."
    shown = (await model.requests(last=1))[0]["messages"]
    assert "question 0" not in str(shown), "the older messages are summarised"


@SEND
@STREAM
@EITHER_WAY
async def test_a_parameter_that_is_refused_is_left_out(
    http: httpx.Client, new_agent: NewAgent, model: ScriptedModelProcess, tokens: bool
) -> None:
    name = unique("gpt-4o-mini")
    config = new_agent().llm_config.model_dump(mode="json", by_alias=True)
    agent = new_agent(model=None, llm_config={**config, "handle": f"openai/{name}", "model": name})
    text = unique("refused")
    error = {"message": "Unsupported parameter: 'parallel_tool_calls'", "code": None}
    await model.answer(text, {"error": error}, status=400)
    assert text_of(told(http, agent.id, f"{text} SAY:Fine.", tokens=tokens)) == "Fine."
    first, second = await model.requests(last=2)
    assert first.keys() - second.keys() == {"parallel_tool_calls"}
    assert text_of(told(http, agent.id, "SAY:Again.", tokens=tokens)) == "Again."
    assert "parallel_tool_calls" not in (await model.requests(last=1))[0]


@SEND
@pytest.mark.parametrize("handle", [MODEL, CLAUDE])
@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"error": {"message": "The GPU fell out", "code": 400}}, "answered 400: The GPU fell out"),
        ({"error": "bad request: no GPU"}, "answered 500: bad request: no GPU"),
        ({"object": "list"}, "cannot be understood: it has no `"),
        ("<html>Sign in</html>", "cannot be understood: it is no JSON, and begins with '<html>"),
    ],
)
async def test_what_is_no_answer_is_told_in_a_sentence_that_names_the_provider(
    letta: Letta,
    new_agent: NewAgent,
    model: ScriptedModelProcess,
    handle: str,
    body: Any,
    why: str,
) -> None:
    agent, text = new_agent(model=handle), unique("odd")
    provider = handle.partition("/")[0]
    for sending in (letta.agents.messages.create, letta.agents.messages.stream):
        await model.answer(text, body, body, body)
        with pytest.raises(APIStatusError) as raised:
            list(sending(agent.id, messages=says(text)))  # type: ignore[operator]
        shown = str(raised.value.body)
        assert why in shown
        assert f"{provider} at http://" in shown
        assert "Error:" not in shown
