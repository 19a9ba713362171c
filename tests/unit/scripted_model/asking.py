"""How these tests ask the scripted model, through the OpenAI SDK."""

from collections.abc import Iterable
from typing import Any

import openai

MODEL = "gpt-4o-mini"
DEFAULT = "Hello from the scripted model."


def tool(name: str = "roll", **parameters: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {}} | parameters
    return {"type": "function", "function": {"name": name, "parameters": schema}}


def user(text: str) -> list[dict[str, Any]]:
    return [{"role": "system", "content": "Be kind."}, {"role": "user", "content": text}]


def results(message: Any, *, content: str = "6") -> list[dict[str, Any]]:
    """The assistant message as history, with a result for each of its calls."""
    ids = [call.id for call in message.tool_calls]
    answers = [{"role": "tool", "tool_call_id": call_id, "content": content} for call_id in ids]
    return [message.model_dump(exclude_none=True), *answers]


async def ask(client: openai.AsyncOpenAI, messages: Any, **options: Any) -> Any:
    messages = user(messages) if isinstance(messages, str) else messages
    return await client.chat.completions.create(model=MODEL, messages=messages, **options)


async def say(client: openai.AsyncOpenAI, messages: Any, **options: Any) -> str:
    return (await ask(client, messages, **options)).choices[0].message.content


async def streamed(client: openai.AsyncOpenAI, text: str, **options: Any) -> list[Any]:
    return [chunk async for chunk in await ask(client, text, stream=True, **options)]


def joined(chunks: Iterable[Any]) -> str:
    return "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
