"""Messages as JSON in a provider's words, kept for the next step, which shows most of them again.

To write down a long window is most of what it costs to ask a model.

A message never changes: one with other content is another object. So what is kept is believed for
the very object that it was made from, and for no other of the same id.
"""

from __future__ import annotations

from collections.abc import Callable

from libs.contracts.conversation import Message

# What is kept by a process, and what a message takes of that besides its JSON: it is kept, too.
KEPT_BYTES_MAX = 16 << 20
ENTRY_BYTES = 1_500


class RenderedMessages:
    """What `render` makes of messages, kept up to a limit; the oldest goes first."""

    def __init__(self, render: Callable[[Message], bytes], bytes_max: int = KEPT_BYTES_MAX) -> None:
        self.render = render
        self.bytes_max = bytes_max
        self.bytes = 0
        self.kept: dict[str, tuple[Message, bytes]] = {}

    def of(self, message: Message) -> bytes:
        """The message as JSON; empty if nothing of it is shown."""
        known = self.kept.get(message.id)
        if known is not None and known[0] is message:
            return known[1]
        rendered = self.render(message)
        if known is not None:
            self.forget(message.id)
        size = len(rendered) + ENTRY_BYTES
        if size <= self.bytes_max:
            self.kept[message.id] = (message, rendered)
            self.bytes += size
            while self.bytes > self.bytes_max:
                self.forget(next(iter(self.kept)))
        return rendered

    def forget(self, message_id: str) -> None:
        """Keep what was made of a message no longer."""
        _, rendered = self.kept.pop(message_id)
        self.bytes -= len(rendered) + ENTRY_BYTES
