"""Messages of a history as text for a model that summarises them, in parts of a bounded size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from libs.contracts.agent.summaries import SummarisedMessages
from libs.contracts.token_estimates import BYTES_PER_TOKEN, text_bytes
from services.agent.domain.prompts.compaction_plan import (
    EXCERPT_CHARS_MAX,
    TOOL_RETURN_CHARS_MAX,
    clip,
    cut_middle,
    fitting,
    size,
)

# What a model is shown of its window at a time; the rest is for the prompt and its answer.
SHOWN_SHARE = 0.6
SHOWN_BYTES_MIN, SHOWN_BYTES_MAX = 2_000, 512 * 1024
# A history is summarised in about so many parts at most: the parts of a longer one are shown in
# excerpts.
PARTS_MAX = 64
# What is kept of the notes on a part: at most this part of what a model is shown, so that each
# merge makes fewer of them.
NOTES_BYTES_MAX = 4_000
NOTES_SHARE = 4
MESSAGE_SHARE = 4
# A single message up to this length is its own summary.
SINGLE_CHARS_MAX = 4_000
SUMMARY_CHARS_MAX = 20_000
SUMMARY_BYTES_MAX = 80_000


@dataclass(frozen=True, slots=True)
class HistoryMessage:
    """A message as clients see it: its place, whose it is, and its V1 messages; of one that is too
    large to be read whole the text alone (`v1_messages` is None)."""

    position: int
    role: str
    text: str
    v1_messages: list[dict[str, Any]] | None


def shown_bytes(context_window: int) -> int:
    """The bytes that a model with such a window is shown at a time."""
    room = int(context_window * SHOWN_SHARE * BYTES_PER_TOKEN)
    return min(max(room, SHOWN_BYTES_MIN), SHOWN_BYTES_MAX)


def notes_bytes(shown: int) -> int:
    """The bytes kept of the notes on a part, where a model is shown so much at a time."""
    return min(NOTES_BYTES_MAX, shown // NOTES_SHARE)


def part_bytes(messages: SummarisedMessages, shown: int) -> int:
    """The bytes of one part, before it is cut to the model's window: enough that there are not too
    many parts."""
    return max(shown, math.ceil(messages.bytes / PARTS_MAX))


@dataclass(slots=True)
class PartLines:
    """The lines of one part, as its messages are read."""

    lines: list[str] = field(default_factory=list)
    last: int = 0
    bytes: int = 0

    def add(self, message: HistoryMessage, chars_max: int) -> None:
        """Take up a message as one line."""
        line = line_of(message, chars_max)
        self.lines.append(line)
        self.bytes += text_bytes(line) + 2
        self.last = message.position


def transcript(lines: Sequence[str], bytes_max: int) -> str:
    """The lines in at most so many bytes: where they are longer, all are shortened alike, and only
    where that is not enough the older ones are left out."""
    if size(lines) > bytes_max:
        each = max(EXCERPT_CHARS_MAX // 4, bytes_max // max(1, len(lines)) - 2)
        lines = [cut_middle(line, each) for line in lines]
    return "\n\n".join(fitting(lines, bytes_max))


def line_chars(shown: int) -> int:
    """The length of one message's line in characters, where a model is shown so much."""
    return max(EXCERPT_CHARS_MAX, shown // MESSAGE_SHARE)


def line_of(message: HistoryMessage, chars_max: int) -> str:
    """One message as a line of text; images and other attachments are named, not shown."""
    limit = min(chars_max, TOOL_RETURN_CHARS_MAX) if message.role == "tool" else chars_max
    if message.v1_messages is None:
        words = f"{message.text} [the rest of this message is left out]"
    else:
        words = " ".join(filter(None, map(words_of, message.v1_messages)))
    name = "tool result" if message.role == "tool" else message.role
    return f"{name}: {cut_middle(words.strip(), limit)}"


def words_of(v1_message: dict[str, Any]) -> str:
    """The text of a V1 message; an assistant's thoughts are left out."""
    match v1_message.get("message_type"):
        case "user_message" | "assistant_message":
            return content_words(v1_message.get("content"))
        case "tool_call_message" | "approval_request_message":
            return " ".join(map(call_words, calls_of(v1_message)))
        case "tool_return_message":
            returns = v1_message.get("tool_returns") or []
            return " ".join(content_words(each.get("tool_return")) for each in returns)
        case _:
            return ""


def calls_of(v1_message: dict[str, Any]) -> list[dict[str, Any]]:
    """The calls of tools in a V1 message."""
    calls = v1_message.get("tool_calls") or [v1_message.get("tool_call")]
    return [call for call in calls if isinstance(call, dict)]


def call_words(call: dict[str, Any]) -> str:
    """A call of a tool in words."""
    return f"[called {call.get('name')}({call.get('arguments')})]"


def content_words(content: Any) -> str:
    """The text of some content, with a mark in the place of each other part."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return " ".join(part_words(part) for part in parts if isinstance(part, dict))


def part_words(part: dict[str, Any]) -> str:
    """The text of one content part, or a mark for it."""
    text = part.get("text")
    return text if isinstance(text, str) else f"[{part.get('type', 'attachment')}]"


def single_text(message: HistoryMessage) -> str | None:
    """The summary of a single message: itself, unless it is long or says nothing."""
    if message.v1_messages is None:
        return None
    words = " ".join(filter(None, map(words_of, message.v1_messages))).strip()
    return words if 0 < len(words) <= SINGLE_CHARS_MAX else None


def clip_summary(text: str, bytes_max: int = SUMMARY_BYTES_MAX) -> str:
    """A model's text, within the limits of a summary."""
    return clip(text, SUMMARY_CHARS_MAX, bytes_max)
