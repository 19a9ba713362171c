"""Messages as JSON in a provider's words, kept for the next step, which shows most of them again.

To write down a long window is most of what it costs to ask a model. So the JSON of all messages of
a window but the last ones is kept as one text, to which a step adds what has come since.

A message never changes: one with other content is another object, and is not equal to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from libs.contracts.agent.conversations import Message

# What is kept by a process, and what a message takes of that besides its JSON: it is kept, too.
KEPT_BYTES_MAX = 16 << 20
ENTRY_BYTES = 1_500


@dataclass(slots=True)
class RenderedWindow:
    """The first messages of a window behind the system's, and their JSON, divided by commas."""

    messages: list[Message] = field(default_factory=list)
    content: bytes = b""

    @property
    def bytes(self) -> int:
        """The memory that the entry takes."""
        return len(self.content) + ENTRY_BYTES * len(self.messages)


class RenderedMessages:
    """A cache of `render` over windows, with a limit; the one that was used longest ago goes first.
    The rendered results of tools depend on those around them, and on nothing else."""

    def __init__(
        self,
        render: Callable[[Sequence[Message]], Iterable[bytes]],
        bytes_max: int = KEPT_BYTES_MAX,
    ) -> None:
        self.render = render
        self.bytes_max = bytes_max
        self.bytes = 0
        self.kept: dict[str, RenderedWindow] = {}

    def of(self, messages: Sequence[Message]) -> list[bytes]:
        """The messages as JSON, in chunks of one or several, which belong between commas."""
        end = start_of_last_step(messages)
        shown = [*self.render(messages[:1])]
        if end > 1:
            shown.append(self.window(messages[1:end]))
        shown += self.render(messages[max(end, 1) :])
        return [chunk for chunk in shown if chunk]

    def window(self, messages: Sequence[Message]) -> bytes:
        """The JSON of the first messages of a window."""
        key = messages[0].id
        known = self.kept.pop(key, None) or RenderedWindow()
        self.bytes -= known.bytes
        count = len(known.messages)
        changed = messages[:count] != known.messages
        if changed or (count < len(messages) and messages[count].role == "tool"):
            known, count = RenderedWindow(), 0
        later = [chunk for chunk in self.render(messages[count:]) if chunk]
        content = b",".join([known.content, *later] if known.content else later)
        grown = RenderedWindow(list(messages), content)
        if grown.bytes <= self.bytes_max:
            self.kept[key] = grown
            self.bytes += grown.bytes
            while self.bytes > self.bytes_max:
                self.bytes -= self.kept.pop(next(iter(self.kept))).bytes
        return content


def start_of_last_step(messages: Sequence[Message]) -> int:
    """The place of the last message that is no result of a tool: what is before it is complete."""
    place = len(messages) - 1
    while place > 0 and messages[place].role == "tool":
        place -= 1
    return place
