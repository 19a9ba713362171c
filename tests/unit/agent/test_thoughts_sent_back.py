"""A model that thinks in a run which calls tools gets its thoughts back with the calls: there are
servers that refuse the next request without them, and servers that refuse it with them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from libs.contracts.agent.conversations import Message, Usage
from services.agent.adapters.models import http_provider
from services.agent.adapters.models.anthropic_provider import AnthropicProvider
from services.agent.adapters.models.http_provider import HttpProvider
from services.agent.adapters.models.openai_provider import OpenAIProvider
from services.agent.adapters.models.ports import ModelFailed
from services.agent.adapters.models.transport import Refused
from services.agent.domain.prompts.model_context import ModelRequest
from services.agent.domain.runs.reply_interpretation import with_thoughts_of
from services.agent.domain.runs.step_results import ModelReply, Spoken, spoken_message
from tests.contract.examples import SYSTEM, message
from tests.unit.agent.asking import RawWire, ask, reply_to, streamed
from tests.unit.given import NOW

EITHER_WAY = pytest.mark.parametrize("in_pieces", [False, True], ids=["whole", "pieces"])
CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
USER = message(2, role="user", content="Look.")
RESULT = message(4, role="tool", content="seen", name="look", tool_call_id="call_1")
UNSIGNED = [
    {"type": "thinking", "thinking": "Hm."},
    {"type": "tool_use", "id": "call_1", "name": "look", "input": {}},
]


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_provider, "PAUSE_SECONDS", [0.0])


def openai(*answers: bytes | Refused, base: str = "http://model/v1") -> HttpProvider:
    provider = OpenAIProvider("k", base)
    provider.wire = RawWire(*answers)
    return provider


def claude(*answers: bytes | Refused, base: str = "http://model") -> HttpProvider:
    provider = AnthropicProvider("k", base)
    provider.wire = RawWire(*answers)
    return provider


def said(**fields: Any) -> bytes:
    answer = {"message": {"content": None, **fields}, "finish_reason": "stop"}
    return json.dumps({"choices": [answer]}).encode()


def said_by_claude(*content: Any) -> bytes:
    return json.dumps({"type": "message", "content": content, "stop_reason": "end_turn"}).encode()


WORDS, CLAUDES_WORDS = said(content="Done."), said_by_claude({"type": "text", "text": "Done."})


async def answer_of(
    provider: HttpProvider, request: ModelRequest, *, in_pieces: bool = False
) -> ModelReply:
    return (
        (await streamed(provider, request))[1] if in_pieces else await reply_to(provider, request)
    )


def recorded(reply: ModelReply) -> Message:
    """The message of a step, as the next process reads it from the events."""
    stored = spoken_message(Spoken("message-3", NOW), reply, reply.tool_calls)
    return Message.model_validate_json(stored.model_dump_json())


def asked_of(provider: HttpProvider) -> list[Any]:
    assert isinstance(provider.wire, RawWire)
    return [asked["messages"] for asked in provider.wire.asked]


async def called(provider: HttpProvider, *, in_pieces: bool = False, **llm: Any) -> list[Message]:
    """A run up to the result of its first call."""
    reply = await answer_of(provider, ask(SYSTEM, USER, **llm), in_pieces=in_pieces)
    return [SYSTEM, USER, recorded(reply), RESULT]


@EITHER_WAY
@pytest.mark.parametrize(
    ("came_as", "goes_as"),
    [
        ("reasoning_content", "reasoning_content"),
        ("reasoning", "reasoning"),
        ("reasoning_details", "reasoning"),
    ],
)
async def test_thoughts_go_back_with_the_call_as_they_came(
    came_as: str, goes_as: str, in_pieces: bool
) -> None:
    thoughts: Any = [{"text": "Hm."}] if came_as == "reasoning_details" else "Hm."
    provider = openai(said(tool_calls=[CALL], **{came_as: thoughts}), WORDS, WORDS)
    run = await called(provider, in_pieces=in_pieces)
    reply = await answer_of(provider, ask(*run), in_pieces=in_pieces)
    assert reply.text == "Done."
    sent = asked_of(provider)[-1][2]
    assert sent["tool_calls"][0]["id"] == "call_1"
    assert {name: sent[name] for name in sent if "reasoning" in name} == {goes_as: "Hm."}
    # The next run shows the same beginning: providers keep what they have read of it.
    later = [*run, recorded(reply), message(6, role="user", content="Again.")]
    await answer_of(provider, ask(*later), in_pieces=in_pieces)
    assert asked_of(provider)[-1][: len(run)] == asked_of(provider)[-2]


async def test_thoughts_without_a_call_stay_away() -> None:
    provider = openai(said(content="Hi", reasoning_content="Hm."), WORDS)
    run = await called(provider)
    await answer_of(provider, ask(*run[:3], USER))
    assert "reasoning_content" not in asked_of(provider)[-1][2]


def unknown(words: str, status: int = 400, **error: Any) -> Refused:
    return Refused(status, {}, json.dumps({"error": {"message": words, **error}}))


@EITHER_WAY
@pytest.mark.parametrize(
    "refused",
    [
        unknown("Unknown parameter", param="messages[2].reasoning_content"),
        unknown("property 'reasoning_content' is unsupported", param="messages.2"),
        unknown("'messages.2' : property 'reasoning_content' is unsupported"),
        Refused(422, {}, json.dumps({"detail": [{"type": "extra_forbidden", "msg": "Extra inputs",
            "loc": ["body", "messages", 2, "assistant", "reasoning_content"]}]})),
    ],
)  # fmt: skip
async def test_a_server_that_does_not_take_thoughts_is_asked_without_and_that_is_remembered(
    refused: Refused, in_pieces: bool
) -> None:
    provider = openai(said(tool_calls=[CALL], reasoning_content="Hm."), refused, WORDS, WORDS)
    run = await called(provider)
    assert (await answer_of(provider, ask(*run), in_pieces=in_pieces)).text == "Done."
    assert (await answer_of(provider, ask(*run), in_pieces=in_pieces)).text == "Done."
    _, first, second, third = asked_of(provider)
    assert "reasoning_content" in first[2]
    assert "reasoning_content" not in second[2]
    assert second == third


@pytest.mark.parametrize("host", ["api.openai.com", "mine.openai.azure.com"])
async def test_openai_itself_is_not_shown_the_thoughts_of_another_model(host: str) -> None:
    run = await called(openai(said(tool_calls=[CALL], reasoning_content="Hm.")))
    provider = openai(WORDS, base=f"https://{host}/v1")
    await answer_of(provider, ask(*run))
    [asked] = asked_of(provider)
    assert "reasoning_content" not in asked[2]


async def test_a_refusal_that_misses_thoughts_is_told_as_it_is() -> None:
    missing = unknown("The `reasoning_content` in the thinking mode must be passed back.")
    provider = openai(said(tool_calls=[CALL], reasoning_content="Hm."), missing, missing)
    with pytest.raises(ModelFailed, match="must be passed back"):
        await answer_of(provider, ask(*await called(provider)))
    assert not provider.learned.omitted_parameters("gpt-4o-mini")


@EITHER_WAY
async def test_calls_of_another_model_get_empty_thoughts_where_a_server_wants_some(
    in_pieces: bool,
) -> None:
    run = await called(openai(said(tool_calls=[CALL])))
    missing = unknown("Missing `reasoning_content` field in the assistant message at index 2")
    provider = openai(missing, WORDS, WORDS)
    for _ in range(2):
        assert (await answer_of(provider, ask(*run), in_pieces=in_pieces)).text == "Done."
    first, second, third = asked_of(provider)
    assert "reasoning_content" not in first[2]
    assert second[2] == {"reasoning_content": "", **first[2]}
    assert second == third, "it is remembered"


def test_thoughts_that_stood_in_a_call_are_sent_there_only() -> None:
    reply = ModelReply("", [], "stop", Usage(), reasoning_field="reasoning")
    read = with_thoughts_of(reply, "Hm.", native=False)
    assert (read.reasoning, read.reasoning_field) == ("Hm.", None)


@EITHER_WAY
@pytest.mark.parametrize("llm", [{"enable_reasoner": False}, {"max_reasoning_tokens": 2048}])
async def test_unsigned_thoughts_go_back_to_a_server_that_stands_in_for_claude(
    llm: dict[str, Any], in_pieces: bool
) -> None:
    provider = claude(said_by_claude(*UNSIGNED), CLAUDES_WORDS)
    run = await called(provider, in_pieces=in_pieces, **llm)
    await answer_of(provider, ask(*run, **llm), in_pieces=in_pieces)
    assert asked_of(provider)[-1][1]["content"] == UNSIGNED


async def test_anthropic_itself_gets_no_unsigned_thoughts() -> None:
    run = await called(claude(said_by_claude(*UNSIGNED)))
    provider = claude(CLAUDES_WORDS, base="https://api.anthropic.com")
    await answer_of(provider, ask(*run))
    assert asked_of(provider)[-1][1]["content"] == UNSIGNED[1:]


async def test_a_server_that_wants_signatures_gets_no_unsigned_thoughts_again() -> None:
    wants = unknown("messages.1.content.0.thinking.signature: Field required")
    provider = claude(said_by_claude(*UNSIGNED), wants, CLAUDES_WORDS, CLAUDES_WORDS)
    llm: dict[str, Any] = {"model": "claude-opus-4-6", "enable_reasoner": True}
    run = await called(provider, **llm)
    await answer_of(provider, ask(*run, **llm))
    await answer_of(provider, ask(*run, **llm))
    _, first, second, third = asked_of(provider)
    assert first[1]["content"] == UNSIGNED
    assert second[1]["content"] == third[1]["content"] == UNSIGNED[1:]
    assert isinstance(provider.wire, RawWire)
    assert all("thinking" in asked for asked in provider.wire.asked), "it goes on to think"


SIGNATURE = {"google": {"thought_signature": "c2ln"}}


@EITHER_WAY
async def test_what_a_provider_wants_back_with_a_call_goes_back_with_it(in_pieces: bool) -> None:
    """The signatures of Gemini's thoughts on its endpoint of OpenAI's wire."""
    call = {"index": 0, **CALL, "extra_content": SIGNATURE}
    events = [
        {"choices": [{"delta": {"tool_calls": [call]}}]},
        {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]},
    ]
    raw = said(tool_calls=[call])
    if in_pieces:
        raw = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
        raw += b"data: [DONE]\n\n"
    provider = openai(raw, WORDS)
    run = await called(provider, in_pieces=in_pieces)
    await answer_of(provider, ask(*run))
    [sent] = [each for each in asked_of(provider)[-1] if each["role"] == "assistant"]
    assert sent["tool_calls"][0]["extra_content"] == SIGNATURE
    own = openai(WORDS, base="https://api.openai.com/v1")
    await answer_of(own, ask(*run))
    assert "extra_content" not in str(asked_of(own)[-1])


@pytest.mark.parametrize(
    "words",
    [
        "Missing `reasoning_content` field in the assistant message",
        "assistant message with tool_calls should contain reasoning_content",
        "reasoning_content cannot be empty for tool calls",
        "reasoning_content not found in messages[2]",
    ],
)
async def test_thoughts_that_came_by_another_name_go_to_a_server_that_demands_them(
    words: str,
) -> None:
    provider = openai(said(reasoning="Hm.", tool_calls=[CALL]))
    run = await called(provider)
    refusal = Refused(400, {}, json.dumps({"error": {"message": words}}))
    demanding = openai(refusal, WORDS)
    await answer_of(demanding, ask(*run))
    [sent] = [each for each in asked_of(demanding)[-1] if each["role"] == "assistant"]
    assert sent["reasoning_content"] == "Hm."
