"""The conversation of an agent of a file as events, line by line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from libs.contracts.agent.compaction import ContextReplaced
from libs.contracts.agent.conversations import (
    Message,
    MessageAppended,
    ToolCall,
    main_conversation,
)
from libs.contracts.agent_file import LINE_BYTES_MAX, HistoryPart
from libs.contracts.appended_histories import PastEvent, PastHistory
from libs.contracts.bus_messages import LOG_COLUMNS, Event
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.state_size_limits import size
from services.api.v1.agent_file.entry_problems import AgentFileInvalid, Path, entry_name
from services.api.v1.agent_file.exported_messages import said_result

# Of one line; an event that is larger stands alone.
EVENTS_OF_LINE_MAX = 500
LINE_PAYLOAD_BYTES_MAX = 512 << 10
EVENT_BYTES_MAX = LINE_BYTES_MAX - LINE_PAYLOAD_BYTES_MAX - (64 << 10)

# What a model is shown as the result of a call whose result is not in the file.
NO_RESULT = (
    "The tool call has no result: the conversation was moved here before it had one, and whether"
    " it took effect is not known. Check before you call it again."
)


def past_event(event: Event) -> PastEvent:
    """An event as a line of a file has it."""
    return PastEvent(
        topic=event.topic,
        schema_version=event.schema_version,
        payload=event.model_dump(mode="json", exclude=LOG_COLUMNS),
        occurred_at=event.timestamp,
    )


class ConversationLines:
    """Gathers the messages of an agent's own conversation into lines, and pairs calls with results:
    a call whose result is missing gets one that says so."""

    def __init__(self, agent_id: str, system: Message) -> None:
        self.agent_id = agent_id
        self.path: Path = ("messages",)
        self.events: list[PastEvent] = []
        self.bytes = 0
        self.version = 0
        self.latest = system.created_at
        # Calls that wait for a result, by their ids: the result that they get if none comes.
        self.owed: dict[str, Message] = {}
        # What models are shown, in order.
        self.shown: list[str] = []
        self.last_id = system.id
        self.owed_in_context = True
        # How many calls had no result, and the results that they got, by the message before them.
        self.closed_calls = 0
        self.closing: dict[str, list[str]] = {}
        self.append(system, shows={})

    def add(
        self, messages: Iterable[Message], path: Path, *, in_context: bool
    ) -> Iterator[HistoryPart]:
        """Take the next messages, which come from one entry, and which models are shown or not;
        yields a line whenever one is full. Raises `AgentFileInvalid`."""
        self.path = path
        for message in messages:
            if message.role == "tool":
                self.owed.pop(message.tool_call_id or "", None)
            elif message.role != "approval":
                self.close_calls()
                self.owed_in_context = in_context
            self.append(message, in_context=in_context)
            for call in message.tool_calls:
                self.owed[call.id] = no_result(message, call)
            if len(self.events) >= EVENTS_OF_LINE_MAX or self.bytes >= LINE_PAYLOAD_BYTES_MAX:
                yield self.line(is_complete=False)

    def finish(self, in_context: Iterable[str]) -> Iterator[HistoryPart]:
        """The last line. Models are shown what is in context in this order, with the results that
        were missing."""
        self.close_calls()
        wanted: list[str] = []
        for message_id in in_context:
            wanted += [message_id, *self.closing.get(message_id, [])]
        if wanted != self.shown:
            event = ContextReplaced(
                originator_id=main_conversation(self.agent_id),
                originator_version=self.version + 1,
                timestamp=self.latest,
                agent_id=self.agent_id,
                message_ids=wanted,
                evicted=sorted({*self.shown} - {*wanted}),
            )
            self.push(past_event(event))
        yield self.line(is_complete=True)

    def close_calls(self) -> None:
        """Give every call that waits for a result one that says why there is none."""
        if not self.owed:
            return
        follows = self.closing.setdefault(self.last_id, [])
        for result in self.owed.values():
            self.append(result, in_context=self.owed_in_context)
            follows.append(result.id)
            self.closed_calls += not result.hidden
        self.owed = {}

    def append(
        self, message: Message, shows: dict[str, int] | None = None, *, in_context: bool = True
    ) -> None:
        """Put a message into the history. None is listed before those that were there."""
        self.latest = max(self.latest, message.created_at)
        if message.role != "approval":
            self.last_id = message.id
            if in_context:
                self.shown.append(message.id)
        event = MessageAppended(
            originator_id=main_conversation(self.agent_id),
            originator_version=self.version + 1,
            timestamp=self.latest,
            agent_id=self.agent_id,
            message=message,
            sent=message.role == "user",
            shows=shows,
            in_context=in_context,
        )
        self.push(past_event(event))

    def push(self, event: PastEvent) -> None:
        """One more event of the line that is gathered."""
        self.version += 1
        self.events.append(event)
        payload_bytes = size(event.payload)
        if payload_bytes > EVENT_BYTES_MAX:
            why = f"as an event it has {payload_bytes:,} bytes, and at most {EVENT_BYTES_MAX:,}"
            raise AgentFileInvalid([f"{entry_name(self.path)}: {why}"])
        self.bytes += payload_bytes

    def line(self, *, is_complete: bool) -> HistoryPart:
        """The line of all events since the last one."""
        history = PastHistory(
            aggregate_id=main_conversation(self.agent_id),
            first_version=self.version - len(self.events) + 1,
            complete=is_complete,
            events=tuple(self.events),
        )
        self.events, self.bytes = [], 0
        return HistoryPart(service="agent", history=history)


def no_result(message: Message, call: ToolCall) -> Message:
    """The result of a call that has none. What the assistant said by a call was said."""
    if call.spoken_argument:
        return said_result(message, call)
    return Message(
        id=derived_id("message", message.id, "no result", call.id),
        role="tool",
        content=NO_RESULT,
        name=call.name,
        tool_call_id=call.id,
        tool_status="error",
        created_at=message.created_at,
    )
