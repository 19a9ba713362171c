"""The full form of an agent as a value: one JSON object a line, gzip around them.

A header, then what the agent uses (`Definition`), then histories of the services with what they
hold in bulk (`HistoryPart`, `FileText`), the history of the agent itself as the last of them, and a
footer that says how many lines of which kind there were and what their digest is. So a reader sees
each thing before whatever needs it, and knows at the end that nothing is missing.

Exports write it; imports, forks and migrations are all read as such lines.
"""

from __future__ import annotations

from datetime import datetime
from operator import not_
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from libs.contracts.appended_histories import PastHistory
from libs.contracts.bus_messages import JsonObject, Value
from libs.contracts.sealed_text import Sealed

FORMAT_VERSION = 1
LINE_BYTES_MAX = 4 << 20
LINES_MAX = 10_000_000
DEPTH_MAX = 32  # of lists and objects in each other, in one line

# What an agent uses and does not consist of; each is made by the normal command of its service.
DefinitionKind = Literal[
    "tool", "mcp_server", "sandbox_config", "archive", "folder", "group", "schedule", "identity",
    "project",
]  # fmt: skip


class Header(Value):
    """The first line: the kind of file, and its agents. `origin` is the server that wrote it."""

    kind: Literal["header"] = "header"
    format: Literal["heeler-agent"] = "heeler-agent"
    version: int = FORMAT_VERSION
    written_by: str
    exported_at: datetime
    agent_ids: tuple[str, ...]
    # What these agents were: empty for an export of now, else the event that they are as of.
    at: str = ""


class Definition(Value):
    """A thing that an agent uses. `value` are the fields that its command takes, `attached_to` the
    agents that have it. The value of an archive may have its `created_at`, too. `entry` is where
    it stood, if it was read from a file of another form."""

    kind: Literal["definition"] = "definition"
    of: DefinitionKind
    id: str
    value: JsonObject
    attached_to: tuple[str, ...] = ()
    entry: str = Field(default="", exclude_if=not_)


class HistoryPart(Value):
    """The next events of an aggregate of a service; a long history is in several lines."""

    kind: Literal["history"] = "history"
    service: Literal["agent", "memory"]
    history: PastHistory


class FileChunk(Value):
    """A part of a file's text; it is embedded where the file is imported."""

    text: str


class FileText(Value):
    """The next chunks of a file of a folder; `value` says in its first line what file it is."""

    kind: Literal["file_text"] = "file_text"
    file_id: str
    folder_id: str
    number: int
    value: JsonObject = Field(default_factory=dict)
    chunks: tuple[FileChunk, ...]


class SecretValues(Value):
    """The variables of an agent, sealed with a passphrase of the client's."""

    kind: Literal["secrets"] = "secrets"
    agent_id: str
    sealed: Sealed


class Footer(Value):
    """The number of lines of each kind before it, and the SHA-256 of their bytes."""

    kind: Literal["footer"] = "footer"
    counts: dict[str, int]
    sha256: str


type Line = Annotated[
    Header | Definition | HistoryPart | FileText | SecretValues | Footer,
    Field(discriminator="kind"),
]
LINE: TypeAdapter[Header | Definition | HistoryPart | FileText | SecretValues | Footer] = (
    TypeAdapter(Line)
)
