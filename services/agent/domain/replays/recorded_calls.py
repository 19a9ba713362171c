"""The tool calls of a run and their recorded results, found again by name and arguments."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

from libs.contracts.agent.conversations import Message, MessageAppended, ToolCall
from libs.contracts.agent.runs import HeartbeatsPaused
from libs.contracts.agent.steps import ModelReplied, ToolCallFinished, ToolCallRefused
from libs.contracts.agent.stored_to_letta_messages import text_of
from libs.contracts.bus_messages import Event
from services.agent.domain.runs.step_results import ToolResult
from services.agent.domain.tools.call_arguments import arguments_of

NOT_RECORDED = (
    "[Replay] The recorded run did not make this call with these arguments, or not so often: there "
    "is no recorded result, and the tool was not run."
)
NO_RESULT = ToolResult("success", "")


def key_of(call: ToolCall) -> tuple[str, str]:
    """The key of a call: its name, and its arguments in any order."""
    arguments = arguments_of(call)
    same = call.arguments if arguments is None else json.dumps(arguments, sort_keys=True)
    return call.name, same


@dataclass(slots=True)
class RecordedCall:
    """A call, the number of its step, and its result; None where it has none that holds for the
    same call elsewhere."""

    call: ToolCall
    number: int
    result: ToolResult | None = None
    is_used: bool = False


class RecordedCalls:
    """The calls of a transcript, in order."""

    def __init__(self, events: Iterable[Event], first_step: int) -> None:
        self.calls: list[RecordedCall] = []
        self.number = first_step - 1
        for event in events:
            self.take(event)

    def take(self, event: Event) -> None:
        """Note what an event says of calls."""
        match event:
            case ModelReplied():
                self.number += 1
                self.calls += [RecordedCall(call, self.number) for call in event.tool_calls]
            case MessageAppended() if event.message.role == "tool":
                self.answer(event.message)
            case ToolCallFinished() if event.called and (found := self.find(event.tool_call_id)):
                found.result = replace(found.result or NO_RESULT, called=tuple(event.called))
            case HeartbeatsPaused() if found := self.find(event.tool_call_id):
                found.result = replace(found.result or NO_RESULT, pause_minutes=event.minutes)
            case ToolCallRefused() if found := self.find(event.tool_call_id):
                found.is_used = True

    def find(self, call_id: str) -> RecordedCall | None:
        """The newest call of this id: a provider may give one id twice."""
        return next((each for each in reversed(self.calls) if each.call.id == call_id), None)

    def answer(self, message: Message) -> None:
        """Keep the result of a call."""
        found = self.find(message.tool_call_id or "")
        if found is not None:
            found.result = replace(
                found.result or NO_RESULT,
                status=message.tool_status or "success",
                text=text_of(message),
                stdout=message.stdout,
                stderr=message.stderr,
            )

    def use(self, call: ToolCall) -> ToolResult | None:
        """The recorded result of the first such call that was not used yet."""
        wanted = key_of(call)
        for recorded in self.calls:
            if not recorded.is_used and recorded.result and key_of(recorded.call) == wanted:
                recorded.is_used = True
                return recorded.result
        return None

    def before(self, number: int) -> list[tuple[str, str]]:
        """The calls of all steps before this one, in order of their names and arguments."""
        return sorted(key_of(each.call) for each in self.calls if each.number < number)
