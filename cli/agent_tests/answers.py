"""Actions of an agent in a turn, read from the messages of its runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cli.files_and_json import json_or_text
from cli.message_printing import call_text, text_of
from cli.message_printing import calls_of as calls_in

END_OF_TURN = "end_turn"
NEEDS_APPROVAL = "requires_approval"
FAILED = "error"
ASKS_FOR_APPROVAL = "approval_request_message"


@dataclass(frozen=True)
class Call:
    """A tool call with what came of it; `returned` is None while it waits for an approval."""

    name: str
    arguments: Any
    id: str = ""
    returned: str | None = None
    status: str | None = None
    mocked: bool = False

    @property
    def is_over(self) -> bool:
        """Whether it waits no longer."""
        return self.returned is not None


@dataclass(frozen=True)
class Event:
    """A line of the transcript: who, and what was said, called or returned."""

    who: str  # user, agent, thought, call, return, approval, failure
    text: str


@dataclass(frozen=True)
class Answer:
    """The actions of an agent in one turn. `cost_usd` is None where it is not known, and `error`
    says why its run failed, where it did."""

    said: str
    text: str = ""
    tool_calls: Sequence[Call] = ()
    events: Sequence[Event] = ()
    stop_reason: str = END_OF_TURN
    error: str | None = None
    run_ids: Sequence[str] = ()
    steps: int = 0
    tokens: int = 0
    cost_usd: float | None = None
    memory: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def waiting(self) -> list[Call]:
        """The calls that wait for an approval."""
        return [call for call in self.tool_calls if not call.is_over]


def events_of(messages: Iterable[Any]) -> list[Event]:
    """The transcript of these messages."""
    return [event for message in messages if (event := _event(message))]


def calls_of(messages: Sequence[Any], mocked: Iterable[str] = ()) -> list[Call]:
    """The calls in these messages, each once, with what was returned."""
    returned = {
        entry["tool_call_id"]: entry
        for message in messages
        if message["message_type"] == "tool_return_message"
        for entry in message["tool_returns"] or [message]
    }
    called: dict[str, Any] = {}
    for message in messages:
        if message["message_type"] in ("tool_call_message", ASKS_FOR_APPROVAL):
            called |= {call["tool_call_id"]: call for call in calls_in(message)}
    return [
        Call(
            name=call["name"],
            arguments=json_or_text(call["arguments"]),
            id=call_id,
            returned=text_of(returned[call_id]["tool_return"]) if call_id in returned else None,
            status=returned[call_id]["status"] if call_id in returned else None,
            mocked=call["name"] in mocked,
        )
        for call_id, call in called.items()
    ]


def said_in(messages: Iterable[Any]) -> str:
    """The agent's words to the user, a line for each message."""
    return "\n".join(
        text_of(message["content"])
        for message in messages
        if message["message_type"] == "assistant_message"
    )


def _event(message: Any) -> Event | None:
    match message["message_type"]:
        case "assistant_message":
            return Event("agent", text_of(message["content"]))
        case "reasoning_message":
            return Event("thought", str(message["reasoning"]))
        case "tool_call_message" | "approval_request_message" as kind:
            calls = "; ".join(map(call_text, calls_in(message)))
            return Event("call" if kind == "tool_call_message" else "approval", calls)
        case "tool_return_message":
            failed = " failed" if message["status"] == "error" else ""
            return Event("return", f"{message['name']}{failed}: {text_of(message['tool_return'])}")
        case _:
            return None
