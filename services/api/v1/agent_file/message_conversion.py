"""A message of an agent file as the messages that this server keeps: one may become several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from pydantic import BaseModel
from pydantic_core import from_json, to_json

from libs.contracts.agent.conversations import Message, ReasoningPart, ToolCall, ToolStatus
from libs.contracts.bus_messages import Json, JsonObject
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta.enums import AgentType
from libs.contracts.letta.message_content import (
    ContentPart,
    ImageContent,
    LettaImage,
    OmittedReasoningContent,
    ReasoningContent,
    RedactedReasoningContent,
    SummarizedReasoningContent,
    TextContent,
    ToolCallContent,
    ToolReturnContent,
)
from services.api.v1.agent_file.entry_models import MessageEntry, ReturnEntry

# Agents of these types speak in the text of their messages; those of the others think there, and
# speak by calling `send_message`.
SPEAKS_IN_TEXT = {AgentType.letta_v1_agent, AgentType.react_agent, AgentType.workflow_agent}
SPEAKING_TOOL, SPOKEN_ARGUMENT = "send_message", "message"
IMAGE_ELSEWHERE = "[An image that the server which wrote this file has kept for itself]"


class MessageConverter:
    """Converts the messages of one agent. The ids of the messages follow from the agent's."""

    def __init__(self, agent_id: str, agent_type: AgentType, now: datetime) -> None:
        self.agent_id = agent_id
        self.speaks_in_text = agent_type in SPEAKS_IN_TEXT
        self.now = now
        self.request_id: str | None = None

    def message_id(self, name: str, number: int = 0) -> str:
        """The id of a message of the file, or of the next ones that are made of it."""
        return derived_id("message", self.agent_id, name, *([str(number)] if number else []))

    def messages(self, entry: MessageEntry) -> list[Message]:
        """The messages that a message of the file becomes."""
        match entry.role:
            case "tool" | "function":
                return list(self.results(entry))
            case "assistant":
                return [self.model_message(entry, gated=False)]
            case "approval" if entry.tool_calls:
                asked = self.model_message(entry, gated=True)
                self.request_id = asked.id
                return [asked]
            case "approval":
                return [self.answer(entry)]
            case "system":
                return [self.message(entry, role="system", content=words_of(entry.content))]
            case "user" | "summary":
                return [self.message(entry, role="user", content=user_content(entry.content))]

    def message(self, entry: MessageEntry, **fields: object) -> Message:
        """A message with what every message has. No time is later than now."""
        created_at = min(entry.created_at or self.now, self.now)
        common = {
            "id": self.message_id(entry.id),
            "created_at": created_at,
            "otid": entry.otid,
            "name": entry.name,
            "sender_id": None,
        }
        return Message.model_validate({**common, **fields})

    def model_message(self, entry: MessageEntry, *, gated: bool) -> Message:
        """A model's answer: its thoughts, its words and its calls."""
        parts = parts_of(entry.content)
        calls = [*self.calls(entry, parts, gated=gated)]
        words = words_of(entry.content)
        thoughts = [*thoughts_of(parts)]
        native = all(part.is_native for part in parts if isinstance(part, ReasoningContent))
        if calls and not self.speaks_in_text and not thoughts:
            thoughts, words, native = [ReasoningPart(text=words)] if words else [], "", False
        kept = [part for part in thoughts if part.signature or part.redacted is not None]
        plain = "\n".join(part.text for part in thoughts if part.text)
        return self.message(
            entry,
            role="assistant",
            content=words or None,
            reasoning=None if kept else plain or None,
            reasoning_parts=thoughts if kept else [],
            inner_thoughts=bool(plain) and not native and not kept,
            tool_calls=calls,
        )

    def calls(
        self, entry: MessageEntry, parts: Sequence[ContentPart], *, gated: bool
    ) -> Iterator[ToolCall]:
        """The calls of a message, each once: older servers have them among the parts only."""
        seen: set[str] = set()
        named = [
            (call.id, call.function.name, call.function.arguments)
            for call in entry.tool_calls or []
        ]
        named += [
            (part.id, part.name, to_json(part.input).decode())
            for part in parts
            if isinstance(part, ToolCallContent)
        ]
        for call_id, name, arguments in named:
            if call_id in seen:
                continue
            seen.add(call_id)
            spoken = not gated and name == SPEAKING_TOOL and speaks(arguments)
            yield ToolCall(
                id=call_id,
                name=name,
                arguments=arguments,
                gated=gated,
                spoken_argument=SPOKEN_ARGUMENT if spoken else "",
            )

    def results(self, entry: MessageEntry) -> Iterator[Message]:
        """The results of tools, one message for each."""
        returns = entry.tool_returns or []
        if not returns:
            returns = [ReturnEntry(tool_call_id=entry.tool_call_id)]
        for number, result in enumerate(returns):
            content = result.func_response
            if content is None or (len(returns) == 1 and content == ""):
                content = words_of(entry.content)
            text, status = tool_result(content)
            yield self.message(
                entry,
                id=self.message_id(entry.id, number),
                role="tool",
                content=text,
                tool_call_id=result.tool_call_id or entry.tool_call_id,
                tool_status="error" if result.status == "error" else status,
                stdout=result.stdout or None,
                stderr=result.stderr or None,
                hidden=entry.name == SPEAKING_TOOL and result.status == "success",
            )

    def answer(self, entry: MessageEntry) -> Message:
        """A client's answer to calls that waited for it."""
        answers: Json = [*(entry.approvals or [])]
        if not answers:
            only: JsonObject = {
                "type": "approval",
                "tool_call_id": entry.approval_request_id or entry.tool_call_id,
                "approve": bool(entry.approve),
                "reason": entry.denial_reason,
            }
            answers = [only]
        return self.message(entry, role="approval", content=answers, request_id=self.request_id)


def parts_of(content: str | list[ContentPart] | None) -> list[ContentPart]:
    """The parts of a content, which may be text alone."""
    if isinstance(content, list):
        return content
    return [TextContent(text=content)] if content else []


def words_of(content: str | list[ContentPart] | None) -> str:
    """The words of a content."""
    return "\n".join(part.text for part in parts_of(content) if isinstance(part, TextContent))


def user_content(content: str | list[ContentPart] | None) -> Json:
    """A user's words: text, or parts where it is more than one text."""
    shown = [*map(shown_part, parts_of(content))]
    kept = [part for part in shown if part is not None]
    if len(kept) == 1 and kept[0].get("type") == "text":
        return without_wrapping(str(kept[0]["text"]))
    return [*kept] if kept else ""


def shown_part(part: ContentPart) -> JsonObject | None:
    """A part of what a user said, as it is kept; an image that is elsewhere is named."""
    match part:
        case TextContent():
            return {"type": "text", "text": part.text}
        case ImageContent(source=LettaImage(data=None)):
            return {"type": "text", "text": IMAGE_ELSEWHERE}
        case ImageContent():
            return part.model_dump(mode="json")
        case ToolReturnContent():
            return {"type": "text", "text": part.content}
    return None


def thoughts_of(parts: Sequence[ContentPart]) -> Iterator[ReasoningPart]:
    """The reasoning among the parts of a message."""
    for part in parts:
        match part:
            case ReasoningContent():
                yield ReasoningPart(text=part.reasoning, signature=part.signature)
            case RedactedReasoningContent():
                yield ReasoningPart(redacted=part.data)
            case OmittedReasoningContent(signature=str()):
                yield ReasoningPart(signature=part.signature)
            case SummarizedReasoningContent():
                text = "\n".join(piece.text for piece in part.summary)
                yield ReasoningPart(text=text)


def speaks(arguments: str) -> bool:
    """Whether a call says something to the user."""
    given = object_of(arguments)
    return given is not None and isinstance(given.get(SPOKEN_ARGUMENT), str)


def without_wrapping(text: str) -> str:
    """A user's words; older servers wrapped them into an object with their time."""
    wrapped = object_of(text)
    if wrapped is None or wrapped.get("type") != "user_message":
        return text
    message = wrapped.get("message")
    return message if isinstance(message, str) else text


def tool_result(content: str | Sequence[BaseModel]) -> tuple[Json, ToolStatus]:
    """The result of a tool, and its status; older servers wrapped both into an object with the
    time."""
    if not isinstance(content, str):
        return [part.model_dump(mode="json") for part in content], "success"
    packed = object_of(content)
    if packed is None or not {"status", "message", "time"} >= packed.keys() >= {"message"}:
        return content, "success"
    message = packed["message"]
    status: ToolStatus = "success" if packed.get("status", "OK") == "OK" else "error"
    return message if isinstance(message, str) else to_json(message).decode(), status


def object_of(text: str) -> JsonObject | None:
    """The JSON object that a text is, if it is one."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        value = from_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
