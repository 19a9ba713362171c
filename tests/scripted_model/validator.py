"""Refuses what the OpenAI chat API refuses.

The wording follows api.openai.com from memory, not from a recording: assert on the status and
the counts, not on whole sentences. `check` looks at the shape of the request, the pairing of
tool calls with their results, and the tools' schemas.
"""

import re
from typing import Any

from tests.scripted_model.refusal import (
    Invalid,
    Refusal,
    check_name,
    empty_array,
    expect,
    too_many,
    wrong_type,
)
from tests.scripted_model.tool_schemas import check_tools_once

ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
TOOL_CALL_ID_LENGTH_MAX = 40
MESSAGES_MAX = 2_048
CALLS_MAX = 128
STRING_LENGTH_MAX = 10_485_760
# What the content of a message may be made of, by its role.
PARTS = {
    "user": ("text", "image_url", "input_audio", "file"),
    "assistant": ("text", "refusal"),
}
PARTICIPANT_NAME = re.compile(r"[^\s<|\\/>]{1,64}")


def check(body: Any) -> Refusal | None:
    """None for a valid chat.completions request body, else the reason to answer 400."""
    try:
        _check_request(body)
    except Invalid as invalid:
        return invalid.refusal
    return None


def _check_request(body: Any) -> None:
    if not isinstance(body, dict):
        raise Invalid("The JSON body must be an object.")
    if not isinstance(body.get("model"), str) or not body["model"]:
        raise Invalid("you must provide a model parameter", "model")
    messages = body.get("messages")
    if messages is None:
        raise Invalid("Missing required parameter: 'messages'.", "messages", "missing_parameter")
    expect(messages, list, "messages")
    if not messages:
        raise empty_array("messages")
    if len(messages) > MESSAGES_MAX:
        raise too_many("messages", MESSAGES_MAX, len(messages))
    _check_messages(messages)
    tools = body.get("tools")
    if tools is not None:
        check_tools_once(tools)
    _check_options(body, tools)


def _check_options(body: dict[str, Any], tools: list[Any] | None) -> None:
    for option in ("tool_choice", "parallel_tool_calls"):
        if body.get(option) is not None and not tools:
            raise Invalid(f"'{option}' is only allowed when 'tools' are specified.", option)
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and "function" in choice:
        expect(choice["function"], dict, "tool_choice.function")
        name = choice["function"].get("name")
        if all(tool["function"]["name"] != name for tool in tools or ()):
            raise Invalid(f"Tool choice '{name}' not found in 'tools' parameter.", "tool_choice")
    elif choice not in (None, "auto", "none", "required"):
        raise Invalid(f"Invalid value: '{choice}'.", "tool_choice", "invalid_value")
    if body.get("top_logprobs") is not None and not body.get("logprobs"):
        raise Invalid("'top_logprobs' is only allowed when 'logprobs' is enabled.", "top_logprobs")
    if body.get("stream_options") is not None and not body.get("stream"):
        raise Invalid(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
            "stream_options",
        )
    if body.get("stream_options") is not None:
        expect(body["stream_options"], dict, "stream_options")


def _check_messages(messages: list[Any]) -> None:
    waiting: dict[str, None] = {}  # calls of the last assistant message, still without a result
    for index, message in enumerate(messages):
        if not waiting and is_plain(message):
            continue
        where = f"messages[{index}]"
        expect(message, dict, where)
        role = message.get("role")
        if not isinstance(role, str) or role not in ROLES:
            raise Invalid(
                f"Invalid value: '{role}'. Supported values are: 'system', 'assistant', "
                "'user', 'function', 'tool', and 'developer'.",
                f"{where}.role",
                "invalid_value",
            )
        if role == "tool":
            _check_result(message, index, waiting)
        elif waiting:
            raise _unanswered(waiting, index)
        elif role == "assistant" and message.get("tool_calls") is not None:
            waiting = _calls_of(message["tool_calls"], where)
        _check_content(message, role, where)
    if waiting:
        raise _unanswered(waiting, len(messages))


def is_plain(message: Any) -> bool:
    """Whether it is words of the user and nothing else, as most of a long history."""
    if type(message) is not dict or len(message) != 2 or message.get("role") != "user":
        return False
    content = message.get("content")
    return type(content) is str and 0 < len(content) <= STRING_LENGTH_MAX


def _check_result(message: dict[str, Any], index: int, waiting: dict[str, None]) -> None:
    where = f"messages[{index}]"
    call_id = message.get("tool_call_id")
    if call_id is None:
        raise Invalid(
            f"Missing required parameter: '{where}.tool_call_id'.",
            f"{where}.tool_call_id",
            "missing_parameter",
        )
    expect(call_id, str, f"{where}.tool_call_id")
    if not waiting:
        raise Invalid(
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding "
            "message with 'tool_calls'.",
            f"messages.[{index}].role",
        )
    if call_id not in waiting:
        raise Invalid(
            f"Invalid parameter: 'tool_call_id' of '{call_id}' not found in 'tool_calls' of "
            "previous message.",
            f"messages.[{index}].tool_call_id",
        )
    del waiting[call_id]


def _calls_of(calls: Any, where: str) -> dict[str, None]:
    where = f"{where}.tool_calls"
    expect(calls, list, where)
    if not calls:
        raise empty_array(where)
    if len(calls) > CALLS_MAX:
        raise too_many(where, CALLS_MAX, len(calls))
    ids: dict[str, None] = {}
    for index, call in enumerate(calls):
        here = f"{where}[{index}]"
        expect(call, dict, here)
        expect(call.get("id"), str, f"{here}.id")
        if len(call["id"]) > TOOL_CALL_ID_LENGTH_MAX:
            raise Invalid(
                f"Invalid '{here}.id': string too long. Expected a string with maximum length "
                f"{TOOL_CALL_ID_LENGTH_MAX}, but got a string with length {len(call['id'])} "
                "instead.",
                f"{here}.id",
                "string_above_max_length",
            )
        if call["id"] in ids:
            raise Invalid(f"Duplicate value for 'tool_call_id' of '{call['id']}'.", f"{here}.id")
        if call.get("type") != "function":
            raise Invalid(f"Invalid value: '{call.get('type')}'.", f"{here}.type", "invalid_value")
        expect(call.get("function"), dict, f"{here}.function")
        check_name(call["function"].get("name"), f"{here}.function.name")
        expect(call["function"].get("arguments"), str, f"{here}.function.arguments")
        ids[call["id"]] = None
    return ids


def _check_content(message: dict[str, Any], role: str, where: str) -> None:
    content = message.get("content")
    if isinstance(content, list):
        if not content:
            raise empty_array(f"{where}.content")
        for index, part in enumerate(content):
            _check_part(part, role, f"{where}.content[{index}]")
    elif content is None or (content == "" and role == "assistant"):
        # An empty text is accepted by OpenAI, but not by all that stand in for it.
        if role != "assistant" or not (message.get("tool_calls") or message.get("refusal")):
            got = "null" if content is None else "an empty one"
            raise Invalid(
                f"Invalid value for 'content': expected a string, got {got}.", f"{where}.content"
            )
    elif not isinstance(content, str):
        raise wrong_type(content, "string or array", f"{where}.content")
    elif len(content) > STRING_LENGTH_MAX:
        raise Invalid(f"Invalid '{where}.content': string too long.", f"{where}.content")
    name = message.get("name")
    if name is not None and not (isinstance(name, str) and PARTICIPANT_NAME.fullmatch(name)):
        raise Invalid(
            f"Invalid '{where}.name': string does not match pattern. Expected a string that "
            r"matches the pattern '^[^\s<|\\/>]+$'.",
            f"{where}.name",
            "invalid_value",
        )


def _check_part(part: Any, role: str, where: str) -> None:
    expect(part, dict, where)
    expect(part.get("type"), str, f"{where}.type")
    if part["type"] not in PARTS.get(role, ("text",)):
        raise Invalid(f"Invalid value: '{part['type']}'.", f"{where}.type", "invalid_value")
    if part["type"] == "text":
        expect(part.get("text"), str, f"{where}.text")
    if part["type"] == "image_url":
        expect(part.get("image_url"), dict, f"{where}.image_url")
        expect(part["image_url"].get("url"), str, f"{where}.image_url.url")


def _unanswered(waiting: dict[str, None], index: int) -> Invalid:
    return Invalid(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to "
        "each 'tool_call_id'. The following tool_call_ids did not have response messages: "
        + ", ".join(waiting),
        f"messages.[{index}].role",
    )
