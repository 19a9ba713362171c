"""How much of what a tool returns is kept, and how much of that a model is shown."""

from libs.contracts.agent.conversations import Message
from libs.contracts.shortened_text import cut

# A model is shown a fifth of its window of one result, but so much in any case.
SHOWN_CHARS_MIN = 5_000
SHOWN_PART_OF_WINDOW = 0.2
CHARS_PER_TOKEN = 4


def shown_chars_max(window_tokens: int) -> int:
    """How much of one result is shown to a model with such a window."""
    return max(SHOWN_CHARS_MIN, int(window_tokens * SHOWN_PART_OF_WINDOW * CHARS_PER_TOKEN))


def within_window(message: Message, chars_max: int) -> Message:
    """A message as it is shown to a model; only the text of a tool's result is ever cut."""
    content = message.content
    if message.role != "tool" or not isinstance(content, str) or len(content) <= chars_max:
        return message
    return message.model_copy(update={"content": cut(content, chars_max)})
