"""The window as models are shown it: a result behind each call, and cut to what there is room for.
It is kept from step to step, for a step adds few messages to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from libs.contracts.agent.conversations import Message
from libs.contracts.shortened_text import cut
from libs.contracts.token_estimates import message_bytes
from services.agent.domain.conversations.active_run import INTERRUPTED
from services.agent.domain.tools.call_arguments import with_thoughts

# A model is shown a fifth of its window of one result, but so much in any case.
SHOWN_CHARS_MIN = 5_000
SHOWN_PART_OF_WINDOW = 0.2
CHARS_PER_TOKEN = 4


def shown_chars_max(window_tokens: int) -> int:
    """The characters of one result that a model with such a window is shown, at most."""
    return max(SHOWN_CHARS_MIN, int(window_tokens * SHOWN_PART_OF_WINDOW * CHARS_PER_TOKEN))


def within_window(message: Message, chars_max: int) -> Message:
    """A message as it is shown to a model; only the text of a tool's result is ever cut."""
    content = message.content
    if message.role != "tool" or not isinstance(content, str) or len(content) <= chars_max:
        return message
    return message.model_copy(update={"content": cut(content, chars_max)})


def pair_calls(window: Iterable[Message]) -> list[Message]:
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


class ContextWindowCache:
    """The part of a window that was shown last, up to the last message that is no result of a tool:
    later messages change nothing of it."""

    def __init__(self) -> None:
        self.window: list[Message] = []
        self.chars_max: int | None = None
        self.shown: list[Message] = []
        self.bytes = 0

    def of(self, window: Sequence[Message], chars_max: int | None) -> tuple[list[Message], int]:
        """The shown messages of a window without its system message, and their weight, if a model
        is shown so much of a result."""
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
    written = [as_written(message) for message in pair_calls(window)]
    return (
        written if chars_max is None else [within_window(message, chars_max) for message in written]
    )


def as_written(message: Message) -> Message:
    """A message as the model wrote it: with the thoughts that stood among the arguments of its
    calls."""
    if not message.inner_thoughts:
        return message
    thoughts = message.reasoning or ""
    calls = [with_thoughts(call, thoughts) for call in message.tool_calls]
    return message.model_copy(update={"tool_calls": calls})


def weight(messages: Sequence[Message]) -> int:
    """The weight of messages as a model is shown them, in bytes."""
    return sum(map(message_bytes, messages))
