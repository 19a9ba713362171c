"""Reads an agent file once as a whole: every entry is checked before anything of it is written.

What is kept are the entries without messages and without texts of files; these are read again when
they are written (`agent_file_lines`).
"""

from __future__ import annotations

from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from io import BytesIO, TextIOWrapper
from typing import BinaryIO

from pydantic import BaseModel, ValidationError

from libs.contracts.bus_messages import Json, JsonObject
from libs.contracts.state_size_limits import size
from services.api.v1.agent_file.agent_file import (
    ENTRIES_MAX,
    MESSAGE_BYTES_MAX,
    AgentFile,
    MessageIndex,
)
from services.api.v1.agent_file.entry_models import (
    AgentEntry,
    BlockEntry,
    FileEntry,
    GroupEntry,
    McpServerEntry,
    MessageEntry,
    SkillEntry,
    SourceEntry,
    ToolEntry,
)
from services.api.v1.agent_file.entry_problems import EntryErrors, Path
from services.api.v1.agent_file.json_file_scanner import JsonFileScanner, Opened
from services.api.v1.agent_file.legacy_form import legacy_agent, legacy_block, with_id
from services.api.v1.agent_file.references import check_references

# Of all that is kept in memory: everything but messages and the texts of files.
KEPT_BYTES_MAX = 64 << 20

MODELS: dict[str, type[BaseModel]] = {
    "groups": GroupEntry,
    "blocks": BlockEntry,
    "core_memory": BlockEntry,
    "files": FileEntry,
    "sources": SourceEntry,
    "tools": ToolEntry,
    "mcp_servers": McpServerEntry,
    "skills": SkillEntry,
}


def scan(source: BinaryIO) -> Iterator[tuple[Path, Json | Opened]]:
    """The values of a file from its beginning."""
    source.seek(0)
    mark = source.read(2)
    source.seek(0)
    encoding = "utf-16" if mark in (BOM_UTF16_LE, BOM_UTF16_BE) else "utf-8-sig"
    text = TextIOWrapper(source, encoding=encoding, newline="")
    try:
        yield from JsonFileScanner(text, is_gone_into).values()
    finally:
        text.detach()


def is_gone_into(path: Path) -> bool:
    """Whether the scanner goes into what stands at a place: lists of entries, and agents."""
    match path:
        case ():
            return True
        case (str(kind),):
            return kind in ENTRIES_MAX
        case ("agents", int()) | ("agents", int(), "messages"):
            return True
    return False


def read_file(source: BinaryIO | bytes) -> AgentFile:
    """An agent file of any form; raises `AgentFileInvalid` with what is wrong with which entry."""
    source = BytesIO(source) if isinstance(source, bytes) else source
    reader = FileReader(AgentFile(source))
    for path, value in scan(source):
        reader.take(path, value)
    return reader.finish()


class FileReader:
    """Takes the values of a file one after the other."""

    def __init__(self, file: AgentFile) -> None:
        self.file = file
        self.errors = EntryErrors()
        self.top: JsonObject = {}
        self.agents: list[JsonObject] = []
        self.indices: dict[int, MessageIndex] = {}
        self.kept_bytes = 0

    def take(self, path: Path, value: Json | Opened) -> None:
        """Take one value with its place."""
        match path:
            case ("agents",) if value is not Opened.LIST:
                self.errors.add(path, "a list of agents is wanted")
            case ("agents", int(index)):
                self.open_agent(path, index, value)
            case ("agents", int(index), "messages", int(number)):
                self.take_message(path, index, number, value)
            case ("messages", int(number)):
                self.take_message(path, 0, number, value)
            case ("agents", int(index), str(name)) if not isinstance(value, Opened):
                self.keep(path, value)
                self.agents[index][name] = value
                if name == "messages" and value is not None:
                    self.errors.add(path, "a list is wanted")
            case (str(kind), int(number)):
                self.take_entry(path, kind, number, value)
            case (str(name),) if name in ENTRIES_MAX:
                if value is not Opened.LIST and value is not None:
                    self.errors.add(path, "a list is wanted")
                if name == "agents":
                    self.top[name] = []
            case (str(name),) if not isinstance(value, Opened):
                self.keep(path, value)
                self.top[name] = value

    def open_agent(self, path: Path, index: int, value: Json | Opened) -> None:
        """Begin an agent, whose fields follow."""
        self.count(path, "agents", index)
        self.top.setdefault("agents", [])
        self.agents.append({})
        if value is not Opened.OBJECT:
            self.errors.add(path, "an object is wanted")

    def take_entry(self, path: Path, kind: str, number: int, value: Json | Opened) -> None:
        """Take an entry of one of the lists."""
        assert not isinstance(value, Opened), "entries are read whole"
        self.count(path, kind, number)
        if kind == "core_memory":
            value = legacy_block(value, number)
        if kind == "tools":
            value = with_id(value, "tool", number)
        entry = self.entry_of(path, MODELS[kind], value)
        if isinstance(entry, FileEntry):
            if entry.content:
                self.file.with_text.add(entry.id)
            entry = entry.model_copy(update={"content": None})
        else:
            self.keep(path, value)
        if entry is not None:
            getattr(self.file, "blocks" if kind == "core_memory" else kind).append(entry)

    def take_message(self, path: Path, agent: int, number: int, value: Json | Opened) -> None:
        """Check a message and remember where it is."""
        assert not isinstance(value, Opened), "messages are read whole"
        self.count(path, "messages", number)
        message = self.entry_of(path, MessageEntry, with_id(value, "message", number))
        if not isinstance(message, MessageEntry):
            return
        index = self.indices.setdefault(agent, MessageIndex())
        if message.id in index.places:
            self.errors.add((*path, "id"), f"'{message.id}' is the id of another message")
        index.places[message.id] = number
        if message.role == "system":
            self.keep(path, value)
            index.systems[message.id] = message
        if size(value) > MESSAGE_BYTES_MAX:
            self.errors.add(path, f"a message may have at most {MESSAGE_BYTES_MAX:,} bytes as JSON")

    def entry_of(self, path: Path, model: type[BaseModel], value: Json) -> BaseModel | None:
        """An entry, or None after its errors were noted."""
        try:
            return model.model_validate(value)
        except ValidationError as invalid:
            self.errors.add_all(path, invalid)
            return None

    def count(self, path: Path, kind: str, number: int) -> None:
        """Refuse more entries than there may be."""
        if number >= ENTRIES_MAX[kind]:
            self.errors.add(path[:-1], f"at most {ENTRIES_MAX[kind]:,} {kind} in one file")
            self.errors.raise_any()

    def keep(self, path: Path, value: Json) -> None:
        """Refuse more than may be kept in memory."""
        self.kept_bytes += size(value)
        if self.kept_bytes > KEPT_BYTES_MAX:
            self.errors.add(path, f"all without messages has over {KEPT_BYTES_MAX:,} bytes")
            self.errors.raise_any()

    def finish(self) -> AgentFile:
        """The file, with everything in it referring to what is there."""
        file = self.file
        file.legacy = "agents" not in self.top
        if file.legacy and "agent_type" in self.top:
            self.agents = [legacy_agent(self.top, file.blocks, file.tools)]
        for index, fields in enumerate(self.agents):
            path = file.agent_place(index)
            agent = self.entry_of(path, AgentEntry, fields)
            if isinstance(agent, AgentEntry):
                file.agents.append(agent)
            file.messages.append(self.indices.get(index, MessageIndex()))
        metadata = self.top.get("metadata")
        revision = metadata.get("revision_id") if isinstance(metadata, dict) else None
        file.revision = revision if isinstance(revision, str) else str(self.top.get("version", ""))
        if not self.agents:
            self.errors.add(("agents",), "no agent is in the file")
        self.errors.raise_any()
        check_references(file, self.errors)
        self.errors.raise_any()
        return file
