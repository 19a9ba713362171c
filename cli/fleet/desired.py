"""What files want of a server, in the words of its API."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

DIGEST_CHARACTERS = 16

type Json = Any


def digest(value: Json) -> str:
    """A short text that differs where two JSON values differ."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_CHARACTERS]


def without_blanks(part: Mapping[str, Json]) -> dict[str, Json]:
    """A part of a document without the fields that say nothing."""
    return {name: value for name, value in part.items() if value not in (None, False)}


@dataclass(frozen=True, kw_only=True)
class Block:
    """A memory block. Its value is the one it begins with; None says nothing of a field."""

    label: str
    value: str = ""
    limit: int | None = None
    description: str | None = None
    read_only: bool | None = None
    metadata: Mapping[str, Json] = field(default_factory=dict)
    shared: bool = False

    def fields(self) -> dict[str, Json]:
        """What a request says of it besides label and value."""
        said = {
            "limit": self.limit,
            "description": self.description,
            "read_only": self.read_only,
        }
        return {name: value for name, value in said.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class OwnTool:
    """A tool whose source stands beside the file. `fields` are others of the API's body."""

    name: str
    source_code: str
    fields: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class McpServer:
    """An MCP server, and the tools of it that the agent has; None: all."""

    name: str
    config: Mapping[str, Json]
    tools: Sequence[str] | None = None


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A schedule of the agent, known by its name."""

    name: str
    fields: Mapping[str, Json]


@dataclass(frozen=True, kw_only=True)
class Membership:
    """A group that the agent is in, and what it is there: member or manager."""

    group: str
    role: str = "member"
    fields: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class DesiredAgent:
    """An agent as its file wants it.

    Args:
        fields: the fields of the API's body that are the agent's own, but `metadata`.
        creation: further fields of the body that makes it.
        rules: rules of tools, but those that wait for approvals.
        exact_rules: whether it is to have no others, also not those of its type.
        tools: names of tools on the server that it is to have.
        exact_tools: whether it is to have no others, also not those of its type.
        folders: names of folders that it is to see.
        approvals: for tools by name whether each call waits for an approval.
        permissions: which tools may be called; None says nothing of it.
    """

    name: str
    file: str
    fields: Mapping[str, Json] = field(default_factory=dict)
    metadata: Mapping[str, Json] = field(default_factory=dict)
    creation: Mapping[str, Json] = field(default_factory=dict)
    rules: Sequence[Mapping[str, Json]] = ()
    exact_rules: bool = False
    tools: Sequence[str] = ()
    exact_tools: bool = False
    folders: Sequence[str] = ()
    own_tools: Sequence[OwnTool] = ()
    mcp_servers: Sequence[McpServer] = ()
    blocks: Sequence[Block] = ()
    schedules: Sequence[Schedule] = ()
    groups: Sequence[Membership] = ()
    approvals: Mapping[str, bool] = field(default_factory=dict)
    permissions: Mapping[str, Json] | None = None

    @cached_property
    def fingerprint(self) -> str:
        """Differs where what the file wants differs; the name of the file does not count."""
        return digest({**asdict(self), "file": None})

    @property
    def own_blocks(self) -> list[Block]:
        """The blocks that only this agent has."""
        return [block for block in self.blocks if not block.shared]

    @property
    def shared_blocks(self) -> list[Block]:
        """The blocks that it shares with others of the fleet."""
        return [block for block in self.blocks if block.shared]
