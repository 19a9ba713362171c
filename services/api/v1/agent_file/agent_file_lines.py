"""An agent file as lines of the full form (`libs/contracts/agent_file.py`), which an import takes.

The order: a header, definitions of tools, MCP servers and folders, blocks, texts of files and
conversations, the agents, the groups of agents, and a footer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from hashlib import sha256

from libs.agent_document.agent_fields import BELONGINGS, left_out
from libs.contracts.agent.conversations import Message
from libs.contracts.agent_file import (
    FileChunk,
    FileText,
    Footer,
    Header,
    HistoryPart,
    Line,
)
from libs.contracts.bus_messages import Json
from services.api.v1.agent_file.agent_file import AgentFile
from services.api.v1.agent_file.agent_file_reader import scan
from services.api.v1.agent_file.agent_histories import AgentHistories
from services.api.v1.agent_file.conversation_lines import ConversationLines
from services.api.v1.agent_file.definition_lines import DefinitionLines, Ids
from services.api.v1.agent_file.entry_models import FileEntry, MessageEntry
from services.api.v1.agent_file.entry_problems import LeftOut, Path, entry_name
from services.api.v1.agent_file.import_options import (
    NOTHING_PRESENT,
    ImportOptions,
    PresentThings,
)
from services.api.v1.agent_file.json_file_scanner import Opened
from services.api.v1.agent_file.legacy_form import with_id
from services.api.v1.agent_file.message_conversion import MessageConverter

# A part of a file's text that stands in one line.
TEXT_PART_CHARS = 256 << 10


def agent_file_lines(
    file: AgentFile,
    options: ImportOptions,
    present: PresentThings = NOTHING_PRESENT,
    *,
    left_out: list[LeftOut] | None = None,
) -> Iterator[Line]:
    """The lines of a file that was read. Call it again for the same lines. What cannot be taken
    over is noted in `left_out` by the time of the last line."""
    writer = AgentFileLines(file, options, present, [] if left_out is None else left_out)
    counts: Counter[str] = Counter()
    digest = sha256()
    for line in writer.lines():
        counts[line.kind] += 1
        digest.update(line.model_dump_json().encode() + b"\n")
        yield line
    yield Footer(counts={**counts}, sha256=digest.hexdigest())


class AgentFileLines:
    """Turns one file into lines."""

    def __init__(
        self,
        file: AgentFile,
        options: ImportOptions,
        present: PresentThings,
        left_out: list[LeftOut],
    ) -> None:
        self.file = file
        self.options = options
        self.left_out = left_out
        self.ids = Ids(options.import_id, file)
        self.definitions = DefinitionLines(self.ids, options, present, left_out)
        self.histories = AgentHistories(self.ids, options, present, left_out)

    def lines(self) -> Iterator[Line]:
        """Every line but the footer."""
        yield Header(
            written_by=f"letta {self.file.revision}".strip(),
            exported_at=self.options.now,
            agent_ids=tuple(self.ids.agent(agent.id) for agent in self.file.agents),
        )
        yield from self.definitions.tools()
        yield from self.definitions.mcp_servers()
        yield from self.definitions.folders()
        yield from self.histories.blocks()
        yield from self.bulk()
        yield from self.histories.agents()
        yield from self.definitions.groups()
        self.note_the_rest()

    def bulk(self) -> Iterator[Line]:
        """The conversations and the texts of files, as they are read from the file again."""
        conversations = Conversations(self.file, self.ids, self.options, self.left_out)
        yield from conversations.without_messages()
        current: int | None = None
        for path, value in scan(self.file.source):
            agent = self.agent_of_message(path)
            if path[:1] == ("files",) and len(path) == 2:
                yield from self.text(path, value)
            if agent is None or isinstance(value, Opened):
                continue
            if current is not None and agent != current:
                yield from conversations.finish(current)
            current = agent
            yield from conversations.add(agent, path, value)
        if current is not None:
            yield from conversations.finish(current)

    def agent_of_message(self, path: Path) -> int | None:
        """The agent whose message stands at a place, if one does."""
        match path:
            case ("agents", int(index), "messages", int()):
                return index
            case ("messages", int()) if self.file.legacy:
                return 0
        return None

    def text(self, path: Path, value: Json | Opened) -> Iterator[FileText]:
        """The text of a file in parts; one without a text is left out."""
        entry = FileEntry.model_validate(value)
        if not entry.content:
            why = f"'{entry.file_name}' has no text in the file: upload it again"
            self.left_out.append(LeftOut(entry_name(path), why))
            return
        parts = range(0, len(entry.content), TEXT_PART_CHARS)
        for part, start in enumerate(parts):
            yield FileText(
                file_id=self.ids.own("file", entry.id),
                folder_id=self.ids.own("source", entry.source_id),
                number=part,
                value={} if part else file_fields(entry, len(parts)),
                chunks=(FileChunk(text=entry.content[start : start + TEXT_PART_CHARS]),),
            )

    def note_the_rest(self) -> None:
        """Note what the file has and this server does not take over."""
        for index, skill in enumerate(self.file.skills):
            why = f"'{skill.name}': skills are kept by clients, which send them with their requests"
            self.left_out.append(LeftOut(entry_name(("skills", index)), why))
        groups = {group.id for group in self.file.groups}
        for index, agent in enumerate(self.file.agents):
            place = self.file.agent_place(index)
            for number, name in enumerate(agent.group_ids):
                if name not in groups:
                    entry = entry_name((*place, "group_ids", number))
                    self.left_out.append(LeftOut(entry, f"there is no '{name}' in the file"))
            if agent.identity_ids:
                entry = entry_name((*place, "identity_ids"))
                why = left_out(BELONGINGS, "agent_file")["identities"]
                self.left_out.append(LeftOut(entry, why))


def file_fields(entry: FileEntry, parts: int) -> dict[str, Json]:
    """The fields of a file besides its text, which is in so many parts."""
    name = entry.file_name.rpartition("/")[2] or entry.file_name
    return {
        "name": name,
        "original_name": entry.original_file_name or name,
        "file_type": entry.file_type or "text/plain",
        "file_size": entry.file_size or len((entry.content or "").encode()),
        "parts": parts,
    }


class Conversations:
    """The conversations of the agents of a file, one after the other."""

    def __init__(
        self, file: AgentFile, ids: Ids, options: ImportOptions, left_out: list[LeftOut]
    ) -> None:
        self.file = file
        self.ids = ids
        self.options = options
        self.left_out = left_out
        self.open: dict[int, ConversationLines] = {}
        self.converters: dict[int, MessageConverter] = {}
        # Of the agent whose messages are read: what models are shown, and which messages of the
        # file became several here.
        self.in_context: set[str] = set()
        self.several: dict[str, list[str]] = {}

    def without_messages(self) -> Iterator[HistoryPart]:
        """The conversations of agents that have no messages, or whose messages are not wanted."""
        for index, messages in enumerate(self.file.messages):
            if self.options.strip_messages or not messages.places:
                yield from self.begin(index).finish([self.system(index).id])

    def begin(self, index: int) -> ConversationLines:
        """Begin a conversation with its system message."""
        self.in_context = {*self.file.agents[index].in_context_message_ids}
        return ConversationLines(self.ids.agent(self.file.agents[index].id), self.system(index))

    def converter(self, index: int) -> MessageConverter:
        """The converter of an agent's messages."""
        if index not in self.converters:
            agent = self.file.agents[index]
            self.converters[index] = MessageConverter(
                self.ids.agent(agent.id), agent.agent_type, self.options.now
            )
        return self.converters[index]

    def system_entry(self, index: int) -> MessageEntry | None:
        """The message that a conversation begins with, if the file has one."""
        return self.file.messages[index].system(self.file.agents[index].in_context_message_ids)

    def system(self, index: int) -> Message:
        """The message that a conversation begins with; the server makes it anew at the next run,
        from the blocks as they are then."""
        entry = self.system_entry(index)
        words = self.file.agents[index].system
        entry = entry or MessageEntry(id="system", role="system", content=words)
        return self.converter(index).messages(entry)[0]

    def add(self, index: int, path: Path, value: Json) -> Iterator[HistoryPart]:
        """Take the next message of an agent."""
        if self.options.strip_messages:
            return
        entry = MessageEntry.model_validate(with_id(value, "message", int(path[-1])))
        if index not in self.open:
            self.open[index] = self.begin(index)
        first = self.system_entry(index)
        if first is not None and entry.id == first.id:
            return  # it began the conversation
        messages = self.converter(index).messages(entry)
        if len(messages) != 1 or messages[0].role == "approval":
            self.several[entry.id] = [each.id for each in messages if each.role != "approval"]
        is_shown = entry.id in self.in_context
        yield from self.open[index].add(messages, path, in_context=is_shown)

    def finish(self, index: int) -> Iterator[HistoryPart]:
        """End the conversation of an agent: say in which order its model is shown what."""
        lines = self.open.pop(index, None)
        if lines is None:
            return
        converter, first = self.converter(index), self.system(index).id
        wanted = [
            message_id
            for name in self.file.agents[index].in_context_message_ids
            for message_id in self.several.get(name, [converter.message_id(name)])
            if message_id != first
        ]
        yield from lines.finish([first, *wanted])
        if lines.closed_calls:
            entry = entry_name((*self.file.agent_place(index), "messages"))
            why = f"{lines.closed_calls} calls of tools had no result: each got one that says so"
            self.left_out.append(LeftOut(entry, why))
        self.several = {}
