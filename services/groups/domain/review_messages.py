"""What a sleeptime agent is shown of what was said."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

# The newest messages are shown; of each and of all together so much.
REVIEWED_MESSAGES_MAX = 200
MESSAGE_CHARS_MAX = 4_000
RESULT_CHARS_MAX = 500
TRANSCRIPT_CHARS_MAX = 100_000

PERSONA = """\
I take care of the memory that I share with another agent, which talks to the user while I do not.
I am shown what was said since I last looked. I keep what will matter later, where it belongs, in \
few words, and replace what is no longer true. I do not answer the user."""
VOICE_PERSONA = """\
I take care of the memory of an agent that talks to the user by voice, and remembers only what was \
said last. I store the passages that may be needed again, and keep the block about the user true \
and short. I do not answer the user."""
INTRODUCTION = """\
This is what another agent and its user said since you last ran: "user" is its user, and \
"assistant" is that agent, not you. Bring the memory that you share with it up to date. Your block \
`memory_persona` says how.
"""
VOICE_INTRODUCTION = """\
These lines of a conversation of another agent, which "assistant" is, will soon be out of its \
sight. Store those that may be needed again by their numbers, then rewrite the block about the user.
"""


def transcript_of(messages: Iterable[Sequence[dict[str, Any]]]) -> list[str]:
    """The lines of a conversation, a line for each message, of V1 messages in their order."""
    return [
        line for v1_messages in messages for message in v1_messages if (line := line_of(message))
    ]


def line_of(message: dict[str, Any]) -> str:
    """Who said what; empty for what nobody said."""
    match message.get("message_type"):
        case "user_message" | "system_message" as kind:
            speaker = message.get("name") or kind.removesuffix("_message")
            text = text_of(message.get("content"))
        case "assistant_message":
            speaker, text = "assistant", text_of(message.get("content"))
        case "tool_call_message":
            call = message.get("tool_call") or {}
            return f"assistant calls {call.get('name', 'a tool')}"
        case "tool_return_message":
            result = " ".join(str(message.get("tool_return") or "").split())
            return f"tool: {shorten(result, RESULT_CHARS_MAX)}" if result else ""
        case _:
            return ""
    said = " ".join(text.split())
    return f"{speaker}: {shorten(said, MESSAGE_CHARS_MAX)}" if said else ""


def shorten(text: str, chars_max: int) -> str:
    """The beginning of a text that is too long."""
    return text if len(text) <= chars_max else f"{text[:chars_max]}..."


def text_of(content: Any) -> str:
    """The words of a message's content; a picture is one word."""
    if isinstance(content, str):
        return content
    parts = (part if isinstance(part, dict) else {} for part in content or [])
    return " ".join(str(part.get("text") or f"[{part.get('type', 'part')}]") for part in parts)


def review_text(lines: Sequence[str], *, is_voice: bool) -> str:
    """The message that a sleeptime agent reviews; lines are numbered where tools store them by
    their numbers. The oldest lines are left out of what is too long."""
    chars, first = 0, len(lines)
    while first and chars + len(lines[first - 1]) <= TRANSCRIPT_CHARS_MAX:
        first -= 1
        chars += len(lines[first])
    shown = lines[first:]
    if is_voice:
        numbered = [f"{number}. {line}" for number, line in enumerate(shown)]
        return "\n".join([VOICE_INTRODUCTION, *numbered])
    return "\n".join([INTRODUCTION, *shown])
