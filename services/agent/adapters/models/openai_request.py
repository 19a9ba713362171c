"""What OpenAI's chat completions are sent: a request and its messages in that wire's words."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Sequence
from typing import Any

from pydantic_core import to_json

from libs.contracts.agent.conversations import Message
from libs.contracts.agent.stored_to_letta_messages import text_of
from libs.contracts.bus_messages import Json, JsonObject
from services.agent.adapters.models.rendered_message_cache import RenderedMessages
from services.agent.adapters.models.tool_schemas import openai_function
from services.agent.domain.prompts.model_context import ModelRequest

# The beginnings of the names of models that refuse to be told whether calls may come together.
ONE_CALL_AT_A_TIME = ("o1", "o3", "o4")


def body_of(request: ModelRequest) -> dict[str, Json]:
    """The request in the provider's words."""
    body: dict[str, Json] = json.loads(content_of(request, RenderedMessages(rendered_messages)))
    return body


def content_of(
    request: ModelRequest, kept: RenderedMessages, omitted: Container[str] = ()
) -> bytes:
    """The same as JSON, without these of its parameters, from messages that are written down once;
    `kept` by `rendered_message_cache`. A long one is copied once."""
    chunks = kept.of(request.messages) or [b""]
    chunks[0] = b'"messages":[' + chunks[0]
    chunks[-1] += b"]}"
    parameters = parameters_of(request)
    sent = {name: value for name, value in parameters.items() if name not in omitted}
    return b",".join([to_json(sent)[:-1], *chunks])


def parameters_of(request: ModelRequest) -> dict[str, Json]:
    """All of a request but its messages."""
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
        body["tools"] = [
            {"type": "function", "function": openai_function(tool)} for tool in request.tools
        ]
        body["tool_choice"] = "required" if request.must_call else "auto"
        if not config.model.rpartition("/")[2].startswith(ONE_CALL_AT_A_TIME):
            body["parallel_tool_calls"] = request.parallel
    if request.stream_tokens:
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
    return body


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
                said["tool_calls"] = [
                    {
                        "id": call.id,
                        "type": "function",
                        "function": {"name": call.name, "arguments": call.arguments},
                    }
                    for call in message.tool_calls
                ]
            return said
        case "system":
            return {"role": "system", "content": text_of(message)}
        case "user" | "approval":
            return {"role": "user", "content": openai_content(message.content)}


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
