"""Estimates of the tokens in messages, before a provider has counted them.

Everything is weighed in bytes of UTF-8, and a token is taken for four of them: about right for
English, and on the safe side for most other languages, whose letters are several bytes each.
"""

from __future__ import annotations

from collections.abc import Iterable

from pydantic_core import to_json

from libs.contracts.agent.conversations import Message
from libs.contracts.bus_messages import Json, JsonObject

BYTES_PER_TOKEN = 4
# What a message takes besides its words: its role, and the marks around it.
MESSAGE_BYTES = 16
# What an image takes, however large it is: about what providers take for one of medium size.
IMAGE_BYTES = 1_500 * BYTES_PER_TOKEN


def text_bytes(text: str) -> int:
    """The weight of a text, in bytes."""
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def text_tokens(text: str) -> int:
    """About how many tokens a text takes."""
    return -(-text_bytes(text) // BYTES_PER_TOKEN)


def message_bytes(message: Message) -> int:
    """The weight of a message where a model is shown it, in bytes."""
    content = message.content
    if not (message.tool_calls or message.reasoning or message.reasoning_parts):
        # Most are so, and all of a window are weighed before each step.
        return MESSAGE_BYTES + content_bytes(content)
    thoughts = sum(
        text_bytes(thought.text) + len(thought.signature or "") + len(thought.redacted or "")
        for thought in message.thoughts
    )
    calls = sum(
        MESSAGE_BYTES + text_bytes(call.name) + text_bytes(call.arguments)
        for call in message.tool_calls
    )
    return MESSAGE_BYTES + content_bytes(content) + thoughts + calls


def content_bytes(content: Json) -> int:
    """The weight of a message's content, in bytes."""
    if isinstance(content, str):
        return text_bytes(content)
    if isinstance(content, list):
        return sum(part_bytes(part) for part in content if isinstance(part, dict))
    return 0


def part_bytes(part: JsonObject) -> int:
    """The weight of one content part, in bytes."""
    return IMAGE_BYTES if part.get("type") == "image" else text_bytes(str(part.get("text", "")))


def stored_bytes(message: Message) -> int:
    """The bytes of a message in memory: more than its weight if there are images in it."""
    if not isinstance(message.content, list):
        return message_bytes(message)
    return message_bytes(message) + len(to_json(message.content))


def schema_bytes(schemas: Iterable[JsonObject]) -> int:
    """The weight of the tools that a model is offered, in bytes."""
    return sum(len(to_json(schema)) for schema in schemas)
