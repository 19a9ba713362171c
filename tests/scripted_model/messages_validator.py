"""Refuses what the Anthropic messages API refuses.

The wording follows api.anthropic.com from memory, as that of the other validator does. Where the
API has become lenient (it joins messages of the same role), this one stays strict.
"""

import re
from typing import Any

from tests.scripted_model import messages_wire
from tests.scripted_model.refusal import Invalid, Refusal, check_name
from tests.scripted_model.tool_schemas import check_tools_once

OPTIONS = frozenset(
    {"model", "messages", "max_tokens", "system", "tools", "tool_choice", "stream", "metadata",
     "stop_sequences", "temperature", "top_k", "top_p", "thinking", "output_config",
     "service_tier"}
)  # fmt: skip
CALL_ID = re.compile(r"[a-zA-Z0-9_-]+")
THINKING_TOKENS_MIN = 1024
CACHE_MARKS_MAX = 4
ADAPTIVE_ONLY = ("claude-opus-4-7", "claude-opus-5", "claude-sonnet-5")
ALLOWED = {
    "user": ("text", "image", "tool_result", "document"),
    "assistant": ("text", "tool_use", "thinking", "redacted_thinking"),
}
THOUGHTS = ("thinking", "redacted_thinking")
MESSAGES_MAX = 100_000
# What a block may have besides its type.
MEMBERS = {
    "text": ("text", "cache_control", "citations"),
    "image": ("source", "cache_control"),
    "document": ("source", "title", "context", "citations", "cache_control"),
    "tool_use": ("id", "name", "input", "cache_control"),
    "tool_result": ("tool_use_id", "content", "is_error", "cache_control"),
    "thinking": ("thinking", "signature"),
    "redacted_thinking": ("data",),
}
IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")


USES = (("tool_use", "id"), ("tool_result", "tool_use_id"))


def check(body: Any) -> Refusal | None:
    """None for a valid messages request body, else the reason to answer 400."""
    try:
        _check_request(body)
    except Invalid as invalid:
        return invalid.refusal
    return None


def need(good: object, message: str) -> None:
    """Refuse with this message unless all is good."""
    if not good:
        raise Invalid(message)


def _check_request(body: Any) -> None:
    need(isinstance(body, dict), "The JSON body must be an object.")
    for option in body:
        need(option in OPTIONS, f"{option}: Extra inputs are not permitted")
    model, limit = body.get("model"), body.get("max_tokens")
    need(isinstance(model, str) and model, "model: Field required")
    need(type(limit) is int and limit >= 1, "max_tokens: Field required")
    messages = body.get("messages")
    need(isinstance(messages, list) and messages, "messages: at least one message is required")
    need(len(messages) <= MESSAGES_MAX, f"messages: at most {MESSAGES_MAX} are allowed")
    _check_system(body.get("system"))
    marks = _marks(body.get("system")) + sum(_marks(message.get("content")) for message in messages)
    need(marks <= CACHE_MARKS_MAX, f"A maximum of 4 blocks with cache_control, found {marks}.")
    _check_order(messages)
    for index, message in enumerate(messages):
        _check_blocks(message, f"messages.{index}")
    _check_pairs(messages)
    used = any(_ids(message, kind, kind_id) for message in messages for kind, kind_id in USES)
    need(
        body.get("tools") or not used,
        "Requests which include `tool_use` or `tool_result` blocks must define tools.",
    )
    _check_tools(body)
    _check_thinking(body, messages)


def _check_system(system: Any) -> None:
    if system is None or isinstance(system, str):
        return
    need(isinstance(system, list), "system: Input should be a valid list")
    for block in system:
        need(block.get("type") == "text", "system: Input should be 'text'")
        need(block["text"].strip(), "system: text content blocks must be non-empty")


def _marks(content: Any) -> int:
    blocks = content if isinstance(content, list) else []
    return sum(isinstance(block, dict) and "cache_control" in block for block in blocks)


def _check_order(messages: list[Any]) -> None:
    wanted = "user"
    for index, message in enumerate(messages):
        need(isinstance(message, dict), f"messages.{index}: Input should be an object")
        extra = set(message) - {"role", "content"}
        need(not extra, f"messages.{index}: Extra inputs are not permitted: {sorted(extra)}")
        role = message.get("role")
        need(role in ALLOWED, f'messages: Unexpected role "{role}".')
        if index == 0:
            need(role == "user", 'messages: first message must use the "user" role')
        need(role == wanted, 'messages: roles must alternate between "user" and "assistant"')
        wanted = "assistant" if role == "user" else "user"
    need(wanted == "assistant", "This model does not support assistant message prefill.")


def _check_blocks(message: Any, where: str) -> None:
    content, role = message.get("content"), message["role"]
    if isinstance(content, str):
        need(content.strip(), f"{where}: all messages must have non-empty content")
        return
    need(isinstance(content, list) and content, f"{where}: all messages need non-empty content")
    for index, block in enumerate(content):
        here = f"{where}.content.{index}"
        need(isinstance(block, dict), f"{here}: Input should be an object")
        kind = block.get("type")
        need(kind in ALLOWED[role], f"{here}: `{kind}` blocks can not be in `{role}` messages")
        _check_block(block, kind, here)


def _check_block(block: Any, kind: str, where: str) -> None:
    extra = set(block) - {"type", *MEMBERS[kind]}
    need(not extra, f"{where}.{kind}: Extra inputs are not permitted: {sorted(extra)}")
    if kind == "text":
        said = isinstance(block.get("text"), str) and block["text"].strip()
        need(said, f"{where}: text content blocks must contain non-whitespace text")
    if kind == "tool_use":
        call_id = block.get("id")
        good = isinstance(call_id, str) and CALL_ID.fullmatch(call_id)
        need(good, f"{where}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
        check_name(block.get("name"), f"{where}.tool_use.name")
        need(isinstance(block.get("input"), dict), f"{where}.tool_use.input: no valid dictionary")
    if kind == "tool_result":
        need(isinstance(block.get("tool_use_id"), str), f"{where}.tool_use_id: Field required")
        need(block.get("content") or not block.get("is_error"), f"{where}: content is empty")
        shown = block.get("content") or ""
        for part in shown if isinstance(shown, list) else ():
            need(part.get("type") in ("text", "image"), f"{where}.content: no such part")
            _check_block(part, part["type"], f"{where}.content")
    if kind == "image":
        _check_source(block.get("source"), where)
    if kind == "thinking":
        signed = block.get("signature") == messages_wire.signature(block.get("thinking"))
        need(signed, f"{where}: Invalid `signature` in `thinking` block")
    if kind == "redacted_thinking":
        known = block.get("data") == messages_wire.signature("")
        need(known, f"{where}: Invalid `data` in `redacted_thinking` block")
    if kind in THOUGHTS:
        need("cache_control" not in block, f"{where}.cache_control: Extra inputs")


def _check_source(source: Any, where: str) -> None:
    need(isinstance(source, dict), f"{where}.source: Field required")
    if source.get("type") == "url":
        need(isinstance(source.get("url"), str), f"{where}.source.url: Field required")
        return
    need(source.get("type") == "base64", f"{where}.source.type: Input should be base64 or url")
    need(source.get("media_type") in IMAGES, f"{where}.source.media_type: no such image")
    need(isinstance(source.get("data"), str), f"{where}.source.data: Field required")


def _ids(message: Any, kind: str, name: str) -> list[str]:
    content = message["content"]
    blocks = content if isinstance(content, list) else []
    return [block[name] for block in blocks if block["type"] == kind]


def _check_pairs(messages: list[Any]) -> None:
    waiting: list[str] = []
    seen: set[str] = set()
    for index, message in enumerate(messages):
        results = _ids(message, "tool_result", "tool_use_id")
        for result in results:
            need(
                result in waiting,
                f"messages.{index}: unexpected `tool_use_id` found in `tool_result` blocks: "
                f"{result}. Each `tool_result` block must have a corresponding `tool_use` block "
                "in the previous message.",
            )
        need(len(set(results)) == len(results), f"messages.{index}: a result comes twice")
        missing = [call_id for call_id in waiting if call_id not in results]
        need(
            not missing,
            f"messages.{index}: `tool_use` ids were found without `tool_result` blocks "
            f"immediately after: {', '.join(missing)}.",
        )
        kinds = [block["type"] for block in message["content"] if isinstance(block, dict)]
        first = kinds[: len(results)]
        need(set(first) <= {"tool_result"}, f"messages.{index}: tool_result blocks come first")
        waiting = _ids(message, "tool_use", "id")
        need(
            len(set(waiting)) == len(waiting) and not seen & set(waiting),
            "messages: `tool_use` ids must be unique",
        )
        seen |= set(waiting)


def _check_tools(body: Any) -> None:
    tools = body.get("tools")
    if tools:
        names = [tool.get("name") for tool in tools]
        need(len(set(names)) == len(names), "tools: Tool names must be unique.")
        check_tools_once([messages_wire.chat_tool(tool) for tool in tools])
    choice = body.get("tool_choice")
    if choice is not None:
        need(tools, "tool_choice: may only be specified while providing tools")
        kinds = ("auto", "none") if messages_wire.thinks(body) else ("auto", "none", "any", "tool")
        need(choice.get("type") in kinds, "tool_choice: not possible, or not with thinking")


def _check_thinking(body: Any, messages: list[Any]) -> None:
    temperature = body.get("temperature", 1.0)
    new = any(body["model"].startswith(name) for name in ADAPTIVE_ONLY)
    need(not new or "temperature" not in body, "`temperature` is deprecated for this model.")
    need(0 <= temperature <= 1, "temperature: range: 0..1")
    if not messages_wire.thinks(body):
        return
    thinking = body["thinking"]
    need(not new or thinking["type"] == "adaptive", '"thinking.type.enabled" is not supported')
    need(temperature == 1.0, "`temperature` may only be set to 1 when thinking is enabled.")
    if thinking["type"] == "adaptive":
        return
    budget = thinking.get("budget_tokens")
    enough = type(budget) is int and budget >= THINKING_TOKENS_MIN
    need(enough, "thinking.enabled.budget_tokens: should be greater than or equal to 1024")
    need(budget < body["max_tokens"], "`max_tokens` must be greater than the thinking budget")
    first = _first_of_turn(messages)
    if first is not None:
        content = first["content"]
        starts = content[0]["type"] if isinstance(content, list) else "text"
        need(
            starts in THOUGHTS,
            "messages: Expected `thinking` or `redacted_thinking`, but found "
            f"`{starts}`. When `thinking` is enabled, a final `assistant` message must start "
            "with a thinking block.",
        )


def _first_of_turn(messages: list[Any]) -> Any | None:
    """The first message of the assistant after the last words of the user, None where the user
    has the last word."""
    first = None
    for message in reversed(messages):
        content = message["content"]
        if message["role"] == "assistant":
            first = message
        elif isinstance(content, str) or any(block["type"] != "tool_result" for block in content):
            break
    return first
