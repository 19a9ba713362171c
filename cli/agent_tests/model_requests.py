"""Requests to a model, the same for every provider and without the parts that vary."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel

ID = re.compile(r"\b[a-z_]+-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\b")
TIME = re.compile(
    r"\b\d{4}-\d\d-\d\d"
    r"(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?: [AP]M)?(?: ?[A-Z]{1,5}\b)?(?:[+-]\d\d:?\d\d)?)?"
    r"(?!\d)"
)


class Asked(BaseModel):
    """A request to the model: the system prompt, the names of the tools, and the messages since its
    last reply. Ids and times stand as `<id>` and `<time>`."""

    system: str
    tools: list[str]
    heard: list[str]


def asked_in(body: Any) -> Asked:
    """The content of a request, in OpenAI's words or in Anthropic's."""
    messages = list(body.get("messages", []))
    systems = [body.get("system")] if body.get("system") else []
    systems += [m["content"] for m in messages if m["role"] in ("system", "developer")]
    heard: list[str] = []
    for message in messages:
        if message["role"] == "assistant":
            heard = []
        elif message["role"] not in ("system", "developer"):
            heard += texts_of(message["content"])
    tools = [tool.get("function", tool)["name"] for tool in body.get("tools", [])]
    return Asked(
        system=without_varying("\n".join(text for part in systems for text in texts_of(part))),
        tools=sorted(tools),
        heard=[without_varying(text) for text in heard],
    )


def texts_of(content: Any) -> Iterable[str]:
    """The texts of a message's content; of what is no text, its type."""
    match content:
        case None:
            return []
        case str():
            return [content]
        case list():
            return [text for part in content for text in texts_of(part)]
        case {"type": "tool_result"}:
            return texts_of(content.get("content"))
        case {"text": str(text)}:
            return [text]
        case _:
            return [f"({content.get('type', 'something')})"]


def without_varying(text: str) -> str:
    """The text with `<id>` and `<time>` in the places of ids and times."""
    return TIME.sub("<time>", ID.sub("<id>", text))
