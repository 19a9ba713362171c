"""What agents of the older types call and say."""

from __future__ import annotations

import json
from typing import Any

from libs.contracts.agent.conversations import Message, MessageAppended, ToolCall
from services.agent.domain.runs.step_results import ModelReply
from tests.unit.agent.model_replies import calls
from tests.unit.agent.world import World


def call(name: str, number: int = 1, **arguments: Any) -> ToolCall:
    return ToolCall(id=f"call_{number}", name=name, arguments=json.dumps(arguments))


def say(text: str, **arguments: Any) -> ModelReply:
    return calls(call("send_message", message=text, **arguments))


def messages(world: World) -> list[Message]:
    """What was recorded of the answer."""
    appended = [event for event in world.events() if isinstance(event, MessageAppended)]
    return [event.message for event in appended if event.run_id and not event.sent]


def served(world: World) -> list[tuple[str, str]]:
    """What clients are shown of the answer: the type of each message, and its words."""
    rows = [row for row in world.schema.rows("messages") if row["run_id"] and not row["sent"]]
    messages = [
        message
        for row in sorted(rows, key=lambda row: row["position"])
        for message in row["v1_messages"]
    ]
    return [
        (message["message_type"], str(message.get("content") or message.get("reasoning") or ""))
        for message in messages
    ]
