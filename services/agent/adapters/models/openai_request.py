"""Requests to OpenAI's chat completions, and the messages in them, in that wire's words."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Sequence
from typing import Any

from pydantic_core import to_json

from libs.contracts.agent.conversations import Message
from libs.contracts.agent.stored_to_letta_messages import text_of
from libs.contracts.bus_messages import Json, JsonObject
from services.agent.adapters.models.rendered_message_cache import RenderedMessages
from services.agent.adapters.models.rendered_tools import json_around
from services.agent.adapters.models.tool_schemas import openai_function
from services.agent.domain.prompts.model_context import ModelRequest
from services.agent.domain.tools.call_arguments import sendable_text

# What stands for the thoughts in the messages, among the parameters that a server may refuse.
THOUGHTS = "reasoning_content"
# The same for calls that have none: servers that want thoughts with each call are sent empty ones.
MISSING_THOUGHTS = "calls without reasoning_content"

# The beginnings of the names of models that refuse to be told whether calls may come together.
ONE_CALL_AT_A_TIME = ("o1", "o3", "o4")


def content_of(
    request: ModelRequest, kept: RenderedMessages, tools: bytes, omitted: Container[str] = ()
) -> bytes:
    """The request in the provider's words, as JSON, without these of its parameters: from messages
    that are written down once, `kept` by `rendered_message_cache`, and from its tools as JSON. A
    long one is copied once."""
    chunks = kept.of(request.messages) or [b""]
    chunks[0] = b'"messages":[' + chunks[0]
    chunks[-1] += b"]}"
    parameters = parameters_of(request)
    sent = {name: value for name, value in parameters.items() if name not in omitted}
    return b",".join([json_around(sent, tools)[:-1], *chunks])


def parameters_of(request: ModelRequest) -> dict[str, Json]:
    """All of a request but its messages; its tools have an empty list for a place."""
    config = request.config.llm_config
    body: dict[str, Json] = {"model": config.model}
    reasons = config.model.startswith(("o1", "o3", "o4", "gpt-5"))
    if config.max_tokens:
        body["max_completion_tokens"] = config.max_tokens
    if reasons:
        if config.reasoning_effort:
            body["reasoning_effort"] = config.reasoning_effort
    else:
        body["temperature"] = config.temperature
    if config.frequency_penalty:
        body["frequency_penalty"] = config.frequency_penalty
    if config.response_format is not None:
        body["response_format"] = config.response_format.model_dump(mode="json", exclude_none=True)
    if config.return_logprobs:
        body["logprobs"] = True
        if config.top_logprobs is not None:
            body["top_logprobs"] = config.top_logprobs
    if config.return_token_ids:
        body["return_token_ids"] = True
    if request.tools:
        body["tools"] = []
        body["tool_choice"] = "required" if request.must_call else "auto"
        if not config.model.rpartition("/")[2].startswith(ONE_CALL_AT_A_TIME):
            body["parallel_tool_calls"] = request.parallel
    if request.stream_tokens:
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
    return body


def openai_tool(tool: JsonObject) -> JsonObject:
    """A function schema as a tool."""
    return {"type": "function", "function": openai_function(tool)}


def rendered_messages(messages: Sequence[Message]) -> Iterator[bytes]:
    """The messages as JSON. Results of tools are text there: images that came with them are shown
    by the user, right behind the results of the step."""
    images: list[Json] = []
    for message in messages:
        if message.role != "tool" and images:
            yield to_json({"role": "user", "content": images})
            images = []
        if said := render_message(message):
            yield said
        if message.role == "tool":
            images.extend(images_of_result(message))
    if images:
        yield to_json({"role": "user", "content": images})


def render_message(message: Message) -> bytes:
    """One message as JSON; empty for a message without content, which servers that imitate the
    provider refuse."""
    said = openai_message(message)
    return to_json(said) if says_something(said) else b""


def images_of_result(message: Message) -> list[Json]:
    """The images that a tool gave back, behind a line that says which tool."""
    parts = message.content if isinstance(message.content, list) else []
    images = [part for part in parts if isinstance(part, dict) and part.get("type") == "image"]
    if not images:
        return []
    line = f"[Images that {message.name} returned for the call {message.tool_call_id}:]"
    return [{"type": "text", "text": line}, *(openai_part(part) for part in images)]


def openai_message(message: Message) -> JsonObject:
    """One message in the provider's words."""
    match message.role:
        case "tool":
            envelope = {
                "status": "OK" if message.tool_status != "error" else "Failed",
                "message": text_of(message),
            }
            return {
                "role": "tool",
                "tool_call_id": message.tool_call_id,
                "content": json.dumps(envelope, ensure_ascii=False),
            }
        case "assistant":
            said: JsonObject = {"role": "assistant", "content": text_of(message) or None}
            if message.tool_calls:
                if message.reasoning_field and message.reasoning:
                    said[message.reasoning_field] = message.reasoning
                said["tool_calls"] = [
                    {
                        "id": call.id,
                        "type": "function",
                        "function": {"name": call.name, "arguments": sendable_text(call)},
                        **({"extra_content": call.extra} if call.extra else {}),
                    }
                    for call in message.tool_calls
                ]
            return said
        case "system":
            return {"role": "system", "content": text_of(message)}
        case "user" | "approval":
            return {"role": "user", "content": openai_content(message.content)}


def carries_thoughts(message: Message) -> bool:
    """Whether a message has thoughts, or signatures of them, that go back with its calls: a model
    in a run that calls tools may refuse to go on without those that it had in it."""
    has_words = bool(message.reasoning_field and message.reasoning)
    return bool(message.tool_calls) and (has_words or any(c.extra for c in message.tool_calls))


def lacks_thoughts(message: Message) -> bool:
    """Whether a message has calls that go without thoughts."""
    carries = carries_thoughts(message) and message.reasoning_field == THOUGHTS
    return bool(message.tool_calls) and not carries


def with_empty_thoughts(messages: Sequence[Message]) -> Iterator[bytes]:
    """The messages as JSON, for servers that want thoughts with each call."""
    for said in rendered_messages(messages):
        message = json.loads(said)
        if "tool_calls" in message and THOUGHTS not in message:
            yield to_json({THOUGHTS: message.pop("reasoning", ""), **message})
        else:
            yield said


def without_thoughts(messages: Sequence[Message]) -> Iterator[bytes]:
    """The messages as JSON, for servers that do not take the thoughts of a model."""
    return rendered_messages([strip_thoughts(message) for message in messages])


def strip_thoughts(message: Message) -> Message:
    """The message without thoughts that would go back, and without their signatures."""
    if not carries_thoughts(message):
        return message
    calls = [call.model_copy(update={"extra": None}) for call in message.tool_calls]
    return message.model_copy(update={"reasoning_field": None, "tool_calls": calls})


def says_something(message: JsonObject) -> bool:
    """Whether there is anything in a message, be it an empty text of the user."""
    content = message["content"]
    return bool(content or "tool_calls" in message or content == "")


def openai_content(content: Json) -> Json:
    """Text as it is, parts in the provider's words."""
    if not isinstance(content, list):
        return content
    return [openai_part(part) for part in content if isinstance(part, dict)]


def openai_part(part: JsonObject) -> Json:
    """One content part; images by address or inline."""
    if part.get("type") != "image":
        return {"type": "text", "text": str(part.get("text", ""))}
    source: Any = part.get("source") or {}
    if source.get("type") == "url":
        return {"type": "image_url", "image_url": {"url": source.get("url")}}
    data = f"data:{source.get('media_type')};base64,{source.get('data')}"
    return {"type": "image_url", "image_url": {"url": data}}
