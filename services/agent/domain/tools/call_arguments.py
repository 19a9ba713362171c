"""The arguments of a model's calls: read, and written anew where the server has a say in them."""

from __future__ import annotations

import json
from collections.abc import Container

from pydantic_core import from_json

from libs.contracts.agent.conversations import ToolCall
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.runs import RunConfig

# The argument in which a model writes its thoughts where it does not reason by itself.
THOUGHTS = "thinking"
# Where the text of arguments stands that are no JSON object: providers refuse a message with them.
WRITTEN = "arguments"


def arguments_of(call: ToolCall) -> JsonObject | None:
    """The arguments of a call; None where they are no JSON object."""
    try:
        arguments = from_json(call.arguments)
    except ValueError:
        return None
    return arguments if isinstance(arguments, dict) else None


def sendable_arguments(call: ToolCall) -> JsonObject:
    """The arguments of a call as an object that a provider can be sent: text that is no such object
    stands in it as the model wrote it."""
    arguments = finite_object(call.arguments)
    return {WRITTEN: call.arguments} if arguments is None else arguments


def sendable_text(call: ToolCall) -> str:
    """The same as JSON, which is the model's own text wherever that can be sent."""
    if finite_object(call.arguments) is not None:
        return call.arguments
    return json.dumps({WRITTEN: call.arguments}, ensure_ascii=False)


def finite_object(text: str) -> JsonObject | None:
    """The object that a text is; None for other text, and for numbers that JSON does not have."""
    try:
        # Arguments that are nested more deeply than this reads could not be written either.
        arguments = from_json(text, allow_inf_nan=False)
        json.dumps(arguments, allow_nan=False)  # a number such as 1e999 is read as infinite
    except ValueError:
        return None
    return arguments if isinstance(arguments, dict) else None


def marked_as_spoken(call: ToolCall, run: RunConfig, offered: Container[str]) -> ToolCall:
    """A call that clients are shown as words of the assistant, if the run is to show it so. One of
    a tool that was not offered is not carried out, so it says nothing."""
    if not run.use_assistant_message or call.name != run.assistant_message_tool_name:
        return call
    if call.name not in offered:
        return call
    said = (arguments_of(call) or {}).get(run.assistant_message_tool_kwarg)
    if not isinstance(said, str):
        return call
    return call.model_copy(update={"spoken_argument": run.assistant_message_tool_kwarg})


def with_arguments(call: ToolCall, arguments: JsonObject) -> ToolCall:
    """The call with these arguments instead."""
    return call.model_copy(update={"arguments": json.dumps(arguments, ensure_ascii=False)})


def with_thoughts(call: ToolCall, thoughts: str) -> ToolCall:
    """A call as the model made it: with its thoughts among the arguments."""
    arguments = arguments_of(call)
    return call if arguments is None else with_arguments(call, {THOUGHTS: thoughts, **arguments})
