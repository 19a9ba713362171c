"""Whatever a server leaves out of a valid answer, repeats, reorders or writes otherwise, it ends as
an answer, or as one sentence that names the provider."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.agent.adapters.models import http_provider
from services.agent.adapters.models.ports import ModelFailed
from tests.unit.agent.asking import RawWire, reply_to, script, streamed
from tests.unit.agent.stand_in_answers import CLAUDE, claude, claude_events, openai

USAGE = {"prompt_tokens": 3, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 1}}
FUNCTIONS = [{"name": "look", "arguments": '{"a": 1}'}, {"name": "find", "arguments": "{}"}]
OPENAI: Any = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "Hi",
                "reasoning_content": "Hm.",
                "refusal": None,
                "tool_calls": [
                    {"id": f"call_{n}", "type": "function", "function": function}
                    for n, function in enumerate(FUNCTIONS)
                ],
            },
            "logprobs": {"content": [{"token": "Hi", "logprob": -1.0, "bytes": None}]},
            "finish_reason": "tool_calls",
        }
    ],
    "usage": USAGE,
}


def openai_events() -> list[Any]:
    """The same answer in events, as OpenAI sends it."""
    deltas: list[Any] = [
        {"role": "assistant", "content": None},
        {"reasoning_content": "Hm."},
        {"content": "H"},
        {"content": "i"},
    ]
    for index, function in enumerate(FUNCTIONS):
        first = {"name": function["name"], "arguments": ""}
        deltas.append({"tool_calls": [{"index": index, "id": f"call_{index}", "function": first}]})
        for part in (function["arguments"][:2], function["arguments"][2:]):
            rest = {"index": index, "function": {"arguments": part}}
            deltas.append({"tool_calls": [rest]})
    events: list[Any] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    return [*events, {"choices": [], "usage": USAGE}]


ODD: Any = st.sampled_from(
    [None, True, 0, -1, 7, 1.5, "", "x", "null", [], [None], {}, {"text": "x"}, [[]], "{}", [{}]]
).map(deepcopy)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to all that stands inside a value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    found: list[tuple[Any, ...]] = []
    for key, member in inside:
        found.append((*path, key))
        if isinstance(member, dict | list):
            found += places(member, (*path, key))
    return found


def holder(value: Any, path: tuple[Any, ...]) -> Any:
    """What holds the last step of a path."""
    for key in path[:-1]:
        value = value[key]
    return value


@st.composite
def changed(draw: st.DrawFn, valid: Any) -> Any:
    """A value with some of what stands in it left out, repeated, moved, or something else."""
    value = deepcopy(valid)
    for _ in range(draw(st.integers(1, 4))):
        paths = places(value)
        if not paths:
            break
        path = draw(st.sampled_from(paths))
        held, key = holder(value, path), path[-1]
        match draw(st.sampled_from(["drop", "set", "repeat", "move", "add"])):
            case "drop":
                del held[key]
            case "set":
                held[key] = draw(ODD)
            case "repeat" if isinstance(held, list):
                held.insert(draw(st.integers(0, len(held))), deepcopy(held[key]))
            case "move" if isinstance(held, list):
                held.insert(draw(st.integers(0, len(held) - 1)), held.pop(key))
            case _ if isinstance(held, dict):
                held[draw(st.sampled_from(["error", "type", "text", "extra", "index"]))] = draw(ODD)
    return value


def written(value: Any, *, as_events: bool) -> bytes:
    """An answer as it is sent."""
    if not as_events:
        return json.dumps(value).encode()
    events = value if isinstance(value, list) else [value]
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


NAMED = re.compile(r"(openai|anthropic) at http://model")


@pytest.mark.parametrize("asked_in_pieces", [False, True], ids=["ask whole", "ask pieces"])
@pytest.mark.parametrize("as_events", [False, True], ids=["tell whole", "tell pieces"])
@pytest.mark.parametrize("spoken", ["openai", "anthropic"])
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
async def test_a_changed_answer_is_an_answer_or_a_sentence(
    spoken: str, as_events: bool, asked_in_pieces: bool, data: st.DataObject
) -> None:
    whole, events = (OPENAI, openai_events()) if spoken == "openai" else (CLAUDE, claude_events())
    raw = written(data.draw(changed(events if as_events else whole)), as_events=as_events)
    provider = (openai if spoken == "openai" else claude)()
    provider.wire = RawWire(*[raw] * http_provider.TRIES_MAX, chunk_bytes=97)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(http_provider, "PAUSE_SECONDS", [0.0])
        try:
            if asked_in_pieces:
                _, reply = await streamed(provider, script("Hi"))
            else:
                reply = await reply_to(provider, script("Hi"))
        except ModelFailed as failed:
            failure = failed.failure
            assert NAMED.search(failure.message)
            shown = f"{failure.message} {failure.detail}"
            assert not re.search(r"\w(Error|Exception)\b|another form", shown), shown
            return
    assert all(call.name and call.id for call in reply.tool_calls)
    assert len({call.id for call in reply.tool_calls}) == len(reply.tool_calls)


NEEDLESS = (
    *("id", "object", "index", "type", "usage", "logprobs", "role", "refusal", "finish_reason"),
    *("stop_reason", "signature"),
)


@pytest.mark.parametrize("asked_in_pieces", [False, True], ids=["ask whole", "ask pieces"])
@pytest.mark.parametrize("as_events", [False, True], ids=["tell whole", "tell pieces"])
@pytest.mark.parametrize("spoken", ["openai", "anthropic"])
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
async def test_an_answer_without_what_is_needless_says_the_same(
    spoken: str, as_events: bool, asked_in_pieces: bool, data: st.DataObject
) -> None:
    whole, events = (OPENAI, openai_events()) if spoken == "openai" else (CLAUDE, claude_events())
    value = deepcopy(events if as_events else whole)
    needless = [path for path in places(value) if path[-1] in NEEDLESS]
    for path in data.draw(st.lists(st.sampled_from(needless), unique=True)):
        holder(value, path).pop(path[-1], None)
    end = b"data: [DONE]\n\n" if as_events else b""
    provider = (openai if spoken == "openai" else claude)()
    provider.wire = RawWire(written(value, as_events=as_events) + end)
    if asked_in_pieces:
        _, reply = await streamed(provider, script("Hi"))
    else:
        reply = await reply_to(provider, script("Hi"))
    calls = [(function["name"], function["arguments"]) for function in FUNCTIONS]
    assert (reply.text, reply.reasoning) == ("Hi", "Hm.")
    assert [(call.name, call.arguments) for call in reply.tool_calls] == (
        calls if spoken == "openai" else calls[:1]
    )
