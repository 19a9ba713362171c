"""The pairs that every provider insists on: a result behind every tool call."""

from __future__ import annotations

from collections.abc import Iterable

from libs.contracts.agent.conversations import Message
from services.agent.domain.conversations.active_run import INTERRUPTED


def paired(window: Iterable[Message]) -> list[Message]:
    """The window with exactly one result behind every tool call, in the order of the calls.

    Of what this server records only calls that wait for the client are unpaired, and no model is
    asked before they have results. This is the last line of defence, for histories that came from
    elsewhere: a call without result gets one that says so, a result without call is left out.
    """
    shown: list[Message] = []
    owed: dict[str, Message] = {}

    def settle() -> None:
        shown.extend(owed.values())
        owed.clear()

    for message in window:
        if message.role == "approval":
            continue
        if message.role == "tool":
            if message.tool_call_id in owed:
                owed[message.tool_call_id] = message
            continue
        if owed:
            settle()
        shown.append(message)
        for call in message.tool_calls:
            owed[call.id] = Message(
                id=message.id,
                role="tool",
                content=INTERRUPTED,
                name=call.name,
                tool_call_id=call.id,
                tool_status="error",
                created_at=message.created_at,
            )
    settle()
    return shown
