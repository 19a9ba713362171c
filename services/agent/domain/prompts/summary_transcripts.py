"""The words of a compaction: what a summariser is shown, and a summary that needs no model."""

from __future__ import annotations

from collections.abc import Sequence

from libs.contracts.agent.conversations import Message
from libs.contracts.agent.stored_to_letta_messages import text_of

TOOL_RETURN_CHARS_MAX = 2_000
MESSAGE_SHARE = 4  # one message takes at most this part of a transcript
EXCERPT_CHARS_MAX = 400
CUT = " [...] "
NO_MODEL = "(No model could summarise these messages. Excerpts of them, the oldest first:)"
ACKNOWLEDGEMENT = "Understood. I will answer with the summary and nothing else."


def transcript(messages: Sequence[Message], bytes_max: int) -> str:
    """The messages as text, in at most so many bytes: an older summary in front and the newest
    messages stay, and from long ones the middle is cut out."""
    lines = [line_of(one, max(EXCERPT_CHARS_MAX, bytes_max // MESSAGE_SHARE)) for one in messages]
    first = lines[:1] if messages and messages[0].summary is not None else []
    return "\n\n".join([*first, *fitting(lines[len(first) :], bytes_max - size(first))])


def fitting(lines: Sequence[str], bytes_max: int) -> list[str]:
    """The newest of these lines that fit, and a word about those that do not."""
    kept: list[str] = []
    left = bytes_max
    for line in reversed(lines):
        left -= size([line])
        if left < 0 and kept:
            break
        kept.insert(0, line)
    missing = len(lines) - len(kept)
    return [f"[{missing} older messages are left out here]", *kept] if missing else kept


def size(lines: Sequence[str]) -> int:
    """How many bytes lines take, with what stands between them."""
    return sum(len(line.encode(errors="surrogatepass")) + 2 for line in lines)


def line_of(message: Message, chars_max: int) -> str:
    """One message in words."""
    if message.summary is not None:
        return f"Earlier summary: {shortened(message.summary.text, chars_max)}"
    words = [text_of(message)] if text_of(message).strip() else []
    if isinstance(message.content, list):
        others = [p for p in message.content if isinstance(p, dict) and p.get("type") != "text"]
        words += [f"[{part.get('type')}]" for part in others]
    words += [f"called {call.name}({call.arguments})" for call in message.tool_calls]
    name = message.role if message.role != "tool" else f"result of {message.name}"
    limit = min(chars_max, TOOL_RETURN_CHARS_MAX) if message.role == "tool" else chars_max
    return f"{name}: {shortened(' '.join(words), limit)}"


def shortened(text: str, chars_max: int) -> str:
    """A text without its middle, if it is too long."""
    if len(text) <= chars_max:
        return text
    half = max(1, (chars_max - len(CUT)) // 2)
    return f"{text[:half]}{CUT}{text[-half:]}"


def mechanical_summary(messages: Sequence[Message], bytes_max: int) -> str:
    """A summary that needs no model: what an older summary said, and excerpts of what users and
    the assistant said, the newest rather than older ones."""
    older = messages[0].summary if messages else None
    first = [shortened(older.text, bytes_max // 3)] if older is not None else []
    said = [one for one in messages if one.summary is None and one.role in ("user", "assistant")]
    excerpt = max(40, min(EXCERPT_CHARS_MAX, bytes_max // 6))
    lines = [line_of(one, excerpt) for one in said]
    return "\n".join([*first, NO_MODEL, *fitting(lines, bytes_max - size([*first, NO_MODEL]))])


def clipped(summary: str, chars_max: int | None, bytes_max: int) -> str:
    """A summary that is no longer than it may be."""
    text = summary.strip()
    if chars_max is not None:
        text = text[: max(1, chars_max)]
    if len(text.encode(errors="surrogatepass")) <= bytes_max:
        return text
    return text.encode(errors="surrogatepass")[:bytes_max].decode(errors="ignore")
