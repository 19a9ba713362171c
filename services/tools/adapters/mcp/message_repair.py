"""Repair of messages that are nearly MCP, so that the SDK reads them. It would refuse a whole
message over one character, a whole list over one tool, and a whole answer over one part."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import httpx2
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse
from mcp_types.methods import validate_server_result
from pydantic import ValidationError
from pydantic_core import to_json

from libs.contracts.bus_messages import Json, JsonObject

# Half of a surrogate pair, which is no character, as JSON escapes it; of a pair both halves, and
# of other escapes the first two characters, so that `\\\\ud83d` is a backslash and five letters.
HALF = re.compile(rb"\\u[dD][89a-fA-F]")
ESCAPES = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|\\.",
    re.DOTALL,
)
IN_ESCAPES = b'\\"/bfnrtu0123456789abcdefABCDEF'
REPLACEMENT = rb"\ufffd"
# The version of the protocol that says most about tools; where a tool is kept that is not as it
# says, until whoever registers tools looks at it.
STRICT_VERSION = "2025-11-25"
AS_LISTED = "heeler/as-listed"
OF_ANSWERS = frozenset(("content", "structuredContent", "isError"))
PARTS_MAX = 500
KIND_CHARS_MAX = 60
PLAIN_KINDS = ("text", "str", "int", "float")
ANY_ARGUMENTS: JsonObject = {"type": "object"}


def without_halves(data: bytes) -> bytes:
    """JSON of the same length, with a replacement character for each half of a surrogate pair."""
    if not HALF.search(data):
        return data
    return ESCAPES.sub(lambda found: REPLACEMENT if found[1] else found[0], data)


class RepairedStream(httpx2.AsyncByteStream):
    """A body of JSON, or of events with JSON, without halves of surrogate pairs. What comes is
    handed on up to a byte that no escape has, so that none is cut."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self.stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        rest = bytearray()
        async for chunk in self.stream:
            end = len(chunk.rstrip(IN_ESCAPES))
            rest += chunk[:end] if end else chunk
            if end:
                yield without_halves(bytes(rest))
                rest = bytearray(chunk[end:])
        if rest:
            yield without_halves(bytes(rest))

    async def aclose(self) -> None:
        """Close the stream that is read."""
        await self.stream.aclose()


def repair(item: SessionMessage) -> None:
    """Keep the tools of a list, and the parts of an answer, from being refused with the one that is
    not as MCP has it."""
    message = item.message
    if not isinstance(message, JSONRPCResponse):
        return
    if not OF_ANSWERS.isdisjoint(message.result):
        repair_answer(message.result)
        return
    tools = message.result.get("tools")
    if isinstance(tools, list):
        message.result["tools"] = [tool if is_tool(tool) else put_aside(tool) for tool in tools]


def is_tool(tool: Json) -> bool:
    """Whether the SDK takes a tool."""
    return is_taken("tools/list", {"tools": [tool]})


def is_taken(method: str, result: JsonObject) -> bool:
    """Whether the SDK takes what a server answers."""
    try:
        validate_server_result(method, STRICT_VERSION, result)
    except ValidationError:
        return False
    return True


def repair_answer(result: JsonObject) -> None:
    """Put words in the place of what the SDK does not take of the answer to a call."""
    content = result.get("content")
    parts: list[Json] = content if isinstance(content, list) else [content] if content else []
    structured = result.get("structuredContent")
    if not isinstance(structured, dict | None):
        del result["structuredContent"]
        parts = parts or [to_json(structured, inf_nan_mode="null").decode()]
    if not isinstance(result.get("_meta"), dict | None):
        del result["_meta"]
    is_error = result.get("isError", False)
    if is_error is None or not is_taken("tools/call", {"content": [], "isError": is_error}):
        result["isError"] = bool(is_error)
    left_out = len(parts) - PARTS_MAX
    parts = parts[:PARTS_MAX]
    if left_out > 0:
        parts.append(f"[{left_out} more parts are left out]")
    if not is_taken("tools/call", {"content": parts}):
        parts = [
            part if is_taken("tools/call", {"content": [part]}) else part_in_words(part)
            for part in parts
        ]
    result["content"] = parts


def part_in_words(part: Json) -> JsonObject:
    """A part of an answer that MCP does not know, or not so, as a text: its own, if it has one."""
    given: JsonObject = {"type": type(part).__name__, "text": part}
    given = part if isinstance(part, dict) else given
    kind, text = str(given.get("type"))[:KIND_CHARS_MAX], text_in(given)
    if text is None:
        size = len(to_json(part, inf_nan_mode="null"))
        text = f"[content of type '{kind}' that cannot be shown, {size} bytes]"
    elif kind not in PLAIN_KINDS:
        text = f"[content of type '{kind}']\n{text}"
    return {"type": "text", "text": text}


def text_in(part: JsonObject) -> str | None:
    """The text of a part that MCP does not know: in its own field, in the resource that it has, or
    as JSON where it has data of its own that is `json`; None for other parts, such as images."""
    resource = part.get("resource")
    inner = resource.get("text") if isinstance(resource, dict) else None
    found = next((part[name] for name in ("text", "json") if part.get(name) is not None), inner)
    if found is None or isinstance(found, str):
        return found
    return to_json(found, inf_nan_mode="null").decode()


def put_aside(tool: Json) -> JsonObject:
    """A tool that the SDK takes, and within it the one that it would not."""
    name = tool.get("name") if isinstance(tool, dict) else None
    return {
        "name": name if isinstance(name, str) else "",
        "inputSchema": ANY_ARGUMENTS,
        "_meta": {AS_LISTED: tool},
    }
