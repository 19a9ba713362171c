"""The window as models are shown it, kept from step to step, for a step adds few messages to it."""

from __future__ import annotations

from collections.abc import Sequence

from libs.contracts.agent.conversations import Message
from libs.contracts.token_estimates import message_bytes
from services.agent.domain.conversations.tool_call_pairing import paired
from services.agent.domain.tools.call_arguments import with_thoughts
from services.agent.domain.tools.return_limits import within_window


class ContextWindowCache:
    """What was shown last of a window, up to the last message that is no result of a tool: what
    comes later changes nothing of that."""

    def __init__(self) -> None:
        self.window: list[Message] = []
        self.chars_max: int | None = None
        self.shown: list[Message] = []
        self.bytes = 0

    def of(self, window: Sequence[Message], chars_max: int | None) -> tuple[list[Message], int]:
        """What is shown of a window without its system message, if a model is shown so much of a
        result; and how much that weighs."""
        count = len(self.window)
        known = chars_max == self.chars_max and window[:count] == self.window
        if not known or is_result(window[count : count + 1]):
            self.window, self.chars_max, self.shown, self.bytes, count = [], chars_max, [], 0, 0
        end = start_of_last_step(window, count)
        settled = as_shown(window[count:end], chars_max)
        self.window += window[count:end]
        self.shown += settled
        self.bytes += weight(settled)
        last = as_shown(window[end:], chars_max)
        return [*self.shown, *last], self.bytes + weight(last)


def start_of_last_step(window: Sequence[Message], count: int) -> int:
    """The place of the last message that is no result, but not before `count`."""
    place = len(window) - 1
    while place > count and is_result(window[place : place + 1]):
        place -= 1
    return max(place, count)


def is_result(messages: Sequence[Message]) -> bool:
    """Whether the first of these belongs to the calls before it."""
    return bool(messages) and messages[0].role in ("tool", "approval")


def as_shown(window: Sequence[Message], chars_max: int | None) -> list[Message]:
    """Messages as models are shown them: each call with its result, of which no more than a window
    has room for."""
    written = [as_written(one) for one in paired(window)]
    return written if chars_max is None else [within_window(one, chars_max) for one in written]


def as_written(message: Message) -> Message:
    """A message as the model wrote it: with the thoughts that stood among the arguments of its
    calls."""
    if not message.inner_thoughts:
        return message
    thoughts = message.reasoning or ""
    calls = [with_thoughts(call, thoughts) for call in message.tool_calls]
    return message.model_copy(update={"tool_calls": calls})


def weight(messages: Sequence[Message]) -> int:
    """How much messages weigh where a model is shown them."""
    return sum(map(message_bytes, messages))
