"""Where in its turn a request stands, and what the model replies there. No I/O."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from tests.scripted_model.script import Call, Script, Step, Usage

JSONObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ActiveRun:
    """The place of a request: the last user text, and what came after it.

    `step` is the number of tool messages after the last user message, `calls_made` the number
    of assistant messages with tool calls there (they differ after parallel calls).
    """

    text: str
    step: int
    calls_made: int
    message_count: int


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model says: text, or tool calls as (id, name, arguments as JSON text). Before that
    it thinks; None is a thought that nobody may read."""

    text: str
    calls: tuple[tuple[str, str, str], ...]
    finish_reason: str
    thoughts: tuple[str | None, ...] = ()
    usage: Usage | None = None


def text_of(content: object) -> str:
    """The text of a message's content, a string or a list of parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "\n".join(part["text"] for part in content if isinstance(part.get("text"), str))


def unwrap(text: str) -> str:
    """The user's own words out of {"type": "user_message", "message": ...}; else the text."""
    if not text.startswith("{"):
        return text
    try:
        wrapped = json.loads(text)
    except ValueError:
        return text
    message = wrapped.get("message") if isinstance(wrapped, dict) else None
    return message if isinstance(message, str) else text


def read_turn(messages: list[JSONObject]) -> ActiveRun:
    """The place where these messages stand in their turn."""
    step = calls_made = 0
    for message in reversed(messages):
        role = message["role"]
        if role == "user":
            text = unwrap(text_of(message.get("content")))
            return ActiveRun(text, step, calls_made, len(messages))
        if role == "tool":
            step += 1
        elif role == "assistant" and message.get("tool_calls"):
            calls_made += 1
    return ActiveRun("", step, calls_made, len(messages))


def system_prompt(messages: list[JSONObject]) -> str | None:
    """The text of the last system (or developer) message, None where there is none."""
    for message in reversed(messages):
        if message["role"] in ("system", "developer"):
            return text_of(message.get("content"))
    return None


def reply_to(turn: ActiveRun, script: Script, body: JSONObject, serial: int) -> Reply:
    """The reply to a valid chat request; `serial` keeps ids apart in equal requests."""
    step = script.step(turn.calls_made)
    calls = _calls(step, body)
    if not calls:
        text = _text(script, body["messages"])
        return Reply(text, (), script.finish_reason, step.thoughts, step.usage)
    schemas = {tool["function"]["name"]: tool["function"] for tool in body["tools"]}
    seed = f"{turn.text}\0{turn.step}\0{turn.message_count}\0{serial}\0"
    return Reply(
        "",
        tuple(
            (_call_id(seed, index), call.name, _arguments(call, schemas))
            for index, call in enumerate(calls)
        ),
        "tool_calls",
        step.thoughts,
        step.usage,
    )


def _calls(step: Step, body: JSONObject) -> tuple[Call, ...]:
    choice, tools = body.get("tool_choice"), body.get("tools")
    if not tools or choice == "none":
        return ()
    if isinstance(choice, dict) and "function" in choice:
        forced = choice["function"]["name"]
        scripted = tuple(call for call in step.calls if call.name == forced)
        return scripted or (Call(forced, None),)
    if choice == "required" and not step.calls:
        return (Call(tools[0]["function"]["name"], None),)
    return step.calls


def _text(script: Script, messages: list[JSONObject]) -> str:
    if script.text_kind == "say":
        return script.text
    if script.text_kind == "empty":
        return ""
    prompt = system_prompt(messages)
    if script.text_kind == "system":
        return prompt or ""
    digest = "none" if prompt is None else hashlib.sha1(prompt.encode()).hexdigest()
    return f"messages={len(messages)} system_sha1={digest}"


def _call_id(seed: str, index: int) -> str:
    return "call_" + hashlib.sha1(f"{seed}{index}".encode()).hexdigest()[:24]


def _arguments(call: Call, schemas: dict[str, JSONObject]) -> str:
    if call.arguments is not None:
        return call.arguments
    schema = schemas.get(call.name, {}).get("parameters") or {}
    return json.dumps(_example(schema | {"type": "object"}))


def _example(schema: JSONObject | bool) -> object:
    if isinstance(schema, bool):
        return "text"
    for fixed in ("default", "const"):
        if fixed in schema:
            return schema[fixed]
    if schema.get("enum"):
        return schema["enum"][0]
    for union in ("anyOf", "oneOf"):
        if schema.get(union):
            return _example(schema[union][0])
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        properties = schema.get("properties") or {}
        required = schema.get("required") or []
        return {name: _example(properties.get(name, {})) for name in required}
    plain = {"integer": 1, "number": 1.0, "boolean": False, "array": [], "null": None}
    return plain.get(kind, "text") if isinstance(kind, str) else "text"
